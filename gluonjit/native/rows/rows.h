/* gluonjit._rows: a row program (what one cell does, as instructions on float32 matrices) over the nodes of a step.

   A register is a matrix with a row for each node (space 0) or for each child of a node (space 1), `width` columns wide,
   row after row. Its home is a scratch buffer numbered `where`, which others may share and which holds the rows of a
   block only; or the buffer of saved values, from the offset that slot `where` holds; or the address in slot `where`.
   Slots are args, each an address and how many bytes lie there, or a number and 0: slot 0 is `first` (the children of
   node i are first[i] to first[i + 1]) or 0, slot 1 the saved buffer, the others as instructions have it. That so many
   bytes lie there is taken on trust; that no more of them are used is checked before anything runs.

   An instruction works on w columns of registers, each given as register | first column << 32, or -1 for none. It works
   on all rows of a block of nodes and of their children; flag ACC adds to out instead of writing it. x is a float's bits
   or a slot:
     GATHER, SCATTER   rows of the matrix at x (w columns) by the index at x + 1, or as they come where that is 0
     GEMM              out = a @ B + bias: B packed at x, bias at y or none for -1, and b is the number of B's rows
     GEMM_DW           matrix at x, whose rows are args[x + 1] apart, += a^T @ b, where b has y columns
     COLSUM            vector at x += the sum of rows
     SPREAD, SEGSUM    a node's row to its children; the sum of its children's rows
     ..S, FILL; ..V    with the number x; with the vector at x
     ..W, PICK, DPICK  with a number for each row, which is a column
     SEG..SOFTMAX      as without SEG, of the column of each node's children
     WHOLE             a number for each row: the whole one of 64 bits that its two columns are
     ARGMAX            a number for each row: its first column that is NaN, else the first of the largest

   An out may lie where an operand does if it is the very view of that operand and the operation takes it element by
   element or, as SOFTMAX does, row by row. Otherwise what is written and what is read lie apart; so they do for a number
   of each row, and in GATHER, SCATTER, products, SPREAD, SEGSUM, PICK and DPICK. */

#ifndef GLUONJIT_ROWS_H
#define GLUONJIT_ROWS_H

#include <stddef.h>
#include <stdint.h>

/* name; columns of out, a and b: w, k, 1, c for the only one, of children, or - for none; slots: 1 for x, 2 for x and x + 1, 3 for x and y or -1. The
   order gives the numbers. */
#define ROWS_OPS(X)                                                                                     \
    X(GATHER, 'w', '-', '-', 2) X(SCATTER, '-', 'w', '-', 2)                                            \
    X(GEMM, 'w', 'k', '-', 3) X(GEMM_DW, '-', 'w', 'k', 2) X(COLSUM, '-', 'w', '-', 1)                  \
    X(SPREAD, 'w', 'w', '-', 0) X(SEGSUM, 'w', 'w', '-', 0)                                             \
    X(COPY, 'w', 'w', '-', 0) X(NEG, 'w', 'w', '-', 0) X(SIGMOID, 'w', 'w', '-', 0)                     \
    X(TANH, 'w', 'w', '-', 0) X(RELU, 'w', 'w', '-', 0) X(EXP, 'w', 'w', '-', 0)                        \
    X(LOG, 'w', 'w', '-', 0) X(SQRT, 'w', 'w', '-', 0) X(SQUARE, 'w', 'w', '-', 0)                      \
    X(ABS, 'w', 'w', '-', 0) X(RECIPROCAL, 'w', 'w', '-', 0) X(SOFTRELU, 'w', 'w', '-', 0)              \
    X(SIGN, 'w', 'w', '-', 0) X(POSITIVE, 'w', 'w', '-', 0)                                             \
    X(ADD, 'w', 'w', 'w', 0) X(SUB, 'w', 'w', 'w', 0) X(MUL, 'w', 'w', 'w', 0)                          \
    X(DIV, 'w', 'w', 'w', 0) X(MAX, 'w', 'w', 'w', 0) X(MIN, 'w', 'w', 'w', 0)                          \
    X(GE, 'w', 'w', 'w', 0) X(LT, 'w', 'w', 'w', 0)                                                     \
    X(ADDS, 'w', 'w', '-', 0) X(MULS, 'w', 'w', '-', 0) X(RSUBS, 'w', 'w', '-', 0)                      \
    X(RDIVS, 'w', 'w', '-', 0) X(MAXS, 'w', 'w', '-', 0) X(MINS, 'w', 'w', '-', 0)                      \
    X(FILL, 'w', '-', '-', 0)                                                                           \
    X(ADDV, 'w', 'w', '-', 1) X(MULV, 'w', 'w', '-', 1) X(SUBV, 'w', 'w', '-', 1)                       \
    X(DSIGMOID, 'w', 'w', 'w', 0) X(DTANH, 'w', 'w', 'w', 0) X(DRELU, 'w', 'w', 'w', 0)                 \
    X(SUMW, '1', 'w', '-', 0) X(BCASTW, 'w', '1', '-', 0) X(MULW, 'w', 'w', '1', 0)                     \
    X(LOGSOFTMAX, 'w', 'w', '-', 0) X(DLOGSOFTMAX, 'w', 'w', 'w', 0)                                    \
    X(SOFTMAX, 'w', 'w', '-', 0) X(DSOFTMAX, 'w', 'w', 'w', 0)                                          \
    X(PICK, '1', 'w', '1', 0) X(DPICK, 'w', '1', '1', 0)                                                \
    X(DIVW, 'w', 'w', '1', 0) X(ADDW, 'w', 'w', '1', 0) X(SUBW, 'w', 'w', '1', 0)                       \
    X(XLOGY, 'w', 'w', 'w', 0) X(WHOLE, '1', 'w', '-', 0) X(LOGSUMEXP, '1', 'w', '-', 0)  \
    X(ARGMAX, '1', 'w', '-', 0)                                                                         \
    X(SEGLOGSOFTMAX, 'c', 'c', '-', 0) X(DSEGLOGSOFTMAX, 'c', 'c', 'c', 0)                              \
    X(SEGSOFTMAX, 'c', 'c', '-', 0) X(DSEGSOFTMAX, 'c', 'c', 'c', 0)

#define ROWS_NAME(name, out, a, b, slots) OP_##name,
enum { ROWS_OPS(ROWS_NAME) OPS };
#undef ROWS_NAME

typedef struct {
    char out, a, b, slots;
} Form;

extern const Form rows_forms[OPS];

enum { NODE = 0, CHILD = 1 };                /* spaces */
enum { SCRATCH = 0, SAVED = 1, DIRECT = 2 }; /* homes */
enum { ACC = 1 };                            /* flags */
enum { FEW = 8 };                            /* rows of a^T @ b that `updated` takes, at most */
enum { MOST_NODES = INT32_MAX, MOST_COLUMNS = INT32_MAX, LARGEST_BLOCK = 65536 };

typedef struct {
    int64_t op, out, a, b, w, x, y, flags;
} Instruction;

/* The numbers of an operand, 31 bits each. */
static inline ptrdiff_t register_of(int64_t packed) { return (ptrdiff_t)(packed & 0x7FFFFFFF); }
static inline ptrdiff_t column_of(int64_t packed) { return (ptrdiff_t)(packed >> 32); }

typedef struct {
    int32_t space, width, home, where;
} Register;

typedef struct {
    int64_t at, bytes;
} Slot;

/* Matrices that an operation reads and writes; a distance between rows may be 0. */
typedef struct {
    float *out;
    const float *a, *b;
    float x;
    ptrdiff_t rows, w, ldo, lda, ldb;
} View;

typedef void (*Function)(const View *view);

/* Functions that are compiled once for each set of instructions of a processor. */
typedef struct {
    const char *name;
    int panel; /* columns of a panel of a packed matrix */
    Function functions[OPS][2]; /* NULL: none of these; [1]: out += */
    void (*product)(const View *view, ptrdiff_t k, const float *bias, int accumulate); /* out = a @ packed b + bias */
    void (*transposed)(const View *view, ptrdiff_t k); /* out (rows x w) += a^T (k x rows)^T @ packed b (k x w) */
    void (*updated)(const View *view, ptrdiff_t k);    /* the same of b as it lies; k <= FEW, w >= panel / 2 */
} Kernels;

extern const Kernels rows_generic, rows_avx2, rows_avx512;

typedef struct {
    const Kernels *kernels;
    const Instruction *code;
    const Register *regs;
    const Slot *args;
    ptrdiff_t instructions, registers, slots, nodes, block;
    const int32_t *first; /* NULL without child values */
    size_t *sizes;        /* of scratch buffers, then where they begin */
    float *scratch, *panels;
    ptrdiff_t held[2];           /* the rows that scratch begins with, in each space */
    ptrdiff_t begin[2], rows[2]; /* those that instructions work on */
} Run;

/* The division of a launch among threads (shared.c). */
typedef struct {
    int threads;
    int apart;       /* whether each thread has registers of its own in scratch */
    ptrdiff_t sums;  /* the instruction from which on all are sums over rows, or the number of instructions */
    ptrdiff_t held;  /* nodes whose registers scratch holds at once */
    ptrdiff_t piece; /* nodes that one thread does at a time */
    size_t registers, panels; /* floats of scratch: registers, once or for each thread; then panels for each thread */
} Division;

const char *rows_check(const Run *run);
int rows_scratch(Run *run, Division *division, size_t *floats);
void rows_divide(const Run *run, int threads, double least, Division *division);
void rows_alone(const Run *run, Division *division);
void rows_run(Run *run, const Division *division);
void rows_some(Run *run, ptrdiff_t begin, ptrdiff_t end);
void rows_code(const Run *run, ptrdiff_t begin, ptrdiff_t end);
void rows_sum(const Run *run, const Instruction *code, ptrdiff_t part, ptrdiff_t parts);
void rows_pack(const float *source, ptrdiff_t k, ptrdiff_t n, ptrdiff_t row, ptrdiff_t column, float *target,
               int panel);
int rows_packed(ptrdiff_t k, ptrdiff_t n, int panel, size_t *floats);

#endif
