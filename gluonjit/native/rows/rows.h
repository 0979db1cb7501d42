/* gluonjit._rows: a row program (what one cell does, as instructions on float32 matrices) over the nodes of a step.

   An out that shares memory with an operand has to be the very view of that operand, and only where the operation is
   element by element; otherwise what is written and what is read lie apart. */

#ifndef GLUONJIT_ROWS_H
#define GLUONJIT_ROWS_H

#include <stddef.h>
#include <stdint.h>

/* name; columns of out, a and b: w, k, 1 or - for none; slots: 1 for x, 2 for x and x + 1, 3 for x and y or -1. The
   order gives the numbers. */
#define ROWS_OPS(X)                                                                                     \
    X(GATHER, 'w', '-', '-', 2) X(SCATTER, '-', 'w', '-', 2)                                            \
    X(GEMM, 'w', 'k', '-', 3) X(GEMM_DW, '-', 'w', 'k', 2) X(COLSUM, '-', 'w', '-', 1)                  \
    X(SPREAD, 'w', 'w', '-', 0) X(SEGSUM, 'w', 'w', '-', 0)                                             \
    X(COPY, 'w', 'w', '-', 0) X(NEG, 'w', 'w', '-', 0) X(SIGMOID, 'w', 'w', '-', 0)                     \
    X(TANH, 'w', 'w', '-', 0) X(RELU, 'w', 'w', '-', 0) X(EXP, 'w', 'w', '-', 0)                        \
    X(LOG, 'w', 'w', '-', 0) X(SQRT, 'w', 'w', '-', 0) X(SQUARE, 'w', 'w', '-', 0)                      \
    X(ABS, 'w', 'w', '-', 0) X(RECIPROCAL, 'w', 'w', '-', 0) X(SOFTRELU, 'w', 'w', '-', 0)              \
    X(SOFTSIGN, 'w', 'w', '-', 0) X(SIGN, 'w', 'w', '-', 0) X(STEP, 'w', 'w', '-', 0)                   \
    X(RSQRT, 'w', 'w', '-', 0) X(ERF, 'w', 'w', '-', 0) X(SIN, 'w', 'w', '-', 0)                        \
    X(COS, 'w', 'w', '-', 0)                                                                            \
    X(ADD, 'w', 'w', 'w', 0) X(SUB, 'w', 'w', 'w', 0) X(MUL, 'w', 'w', 'w', 0)                          \
    X(DIV, 'w', 'w', 'w', 0) X(MAX, 'w', 'w', 'w', 0) X(MIN, 'w', 'w', 'w', 0)                          \
    X(GE, 'w', 'w', 'w', 0) X(LT, 'w', 'w', 'w', 0)                                                     \
    X(ADDS, 'w', 'w', '-', 0) X(MULS, 'w', 'w', '-', 0) X(RSUBS, 'w', 'w', '-', 0)                      \
    X(RDIVS, 'w', 'w', '-', 0) X(POWS, 'w', 'w', '-', 0) X(MAXS, 'w', 'w', '-', 0)                      \
    X(MINS, 'w', 'w', '-', 0) X(FILL, 'w', '-', '-', 0)                                                 \
    X(ADDV, 'w', 'w', '-', 1) X(MULV, 'w', 'w', '-', 1) X(SUBV, 'w', 'w', '-', 1)                       \
    X(DSIGMOID, 'w', 'w', 'w', 0) X(DTANH, 'w', 'w', 'w', 0) X(DRELU, 'w', 'w', 'w', 0)                 \
    X(SUMW, '1', 'w', '-', 0) X(BCASTW, 'w', '1', '-', 0) X(MULW, 'w', 'w', '1', 0)                     \
    X(LOGSOFTMAX, 'w', 'w', '-', 0) X(DLOGSOFTMAX, 'w', 'w', 'w', 0)                                    \
    X(SOFTMAX, 'w', 'w', '-', 0) X(DSOFTMAX, 'w', 'w', 'w', 0)                                          \
    X(MAXW, '1', 'w', '-', 0) X(PICK, '1', 'w', '1', 0) X(DPICK, 'w', '1', '1', 0)                      \
    X(DIVW, 'w', 'w', '1', 0) X(ADDW, 'w', 'w', '1', 0) X(SUBW, 'w', 'w', '1', 0)

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

typedef struct {
    int32_t op, out, a, b, w, x, y, flags;
} Instruction;

typedef struct {
    int32_t space, width, home, where;
} Register;

/* Matrices that an operation reads and writes; a distance between rows may be 0. */
typedef struct {
    float *out;
    const float *a, *b;
    float x;
    ptrdiff_t rows, w, ldo, lda, ldb;
} View;

typedef void (*Function)(const View *view);

/* What is compiled once for each set of instructions of a processor. */
typedef struct {
    const char *name;
    int panel; /* columns of a panel of a packed matrix */
    Function functions[OPS][2]; /* NULL: none of these; [1]: out += */
    void (*product)(const View *view, ptrdiff_t k, const float *bias, int accumulate); /* out = a @ packed b + bias */
    void (*transposed)(const View *view, ptrdiff_t k); /* out (rows x w) += a^T (k x rows)^T @ packed b (k x w) */
} Kernels;

extern const Kernels rows_generic, rows_avx2, rows_avx512;

typedef struct {
    float *data; /* of the block's first row */
    ptrdiff_t width;
    int space;
} Place;

typedef struct {
    const Kernels *kernels;
    const Instruction *code;
    const Register *regs;
    const int64_t *args;
    ptrdiff_t instructions, registers, slots, nodes, block;
    const int32_t *first; /* NULL without child values */
    Place *places;        /* of registers */
    size_t *sizes;        /* of scratch buffers, then where they begin */
    size_t before_panels; /* floats of scratch before the panels */
    float *scratch, *panels;
    ptrdiff_t begin[2], rows[2]; /* of the block in each space */
} Run;

const char *rows_check(const Run *run);
size_t rows_scratch(Run *run);
void rows_run(Run *run);
void rows_pack(const float *source, ptrdiff_t k, ptrdiff_t n, ptrdiff_t row, ptrdiff_t column, float *target, int panel);
size_t rows_packed(ptrdiff_t k, ptrdiff_t n, int panel);

#endif
