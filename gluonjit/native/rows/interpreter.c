/* The interpreter: block by block of nodes, so that what is computed in between stays in the cache. */

#include <string.h>

#include "rows.h"

typedef struct {
    float *data;
    ptrdiff_t ld, rows;
    int space;
} Operand;

static void *address(const Run *run, ptrdiff_t slot) { return (void *)(intptr_t)run->args[slot].at; }

static Operand operand(const Run *run, int64_t packed) {
    const Register *reg = &run->regs[register_of(packed)];
    const int space = reg->space;
    const ptrdiff_t width = reg->width, begin = run->begin[space];
    Operand found = {NULL, width, run->rows[space], space};
    if (reg->home == SCRATCH)
        found.data = run->scratch + run->sizes[reg->where] + (begin - run->held[space]) * width;
    else if (reg->home == SAVED)
        found.data = (float *)address(run, 1) + run->args[reg->where].at + begin * width;
    else
        found.data = (float *)address(run, reg->where) + begin * width;
    found.data += column_of(packed);
    return found;
}

static void call(const Run *run, int op, int accumulate, const View *view) {
    run->kernels->functions[op][accumulate](view);
}

static void gather(const Run *run, const Instruction *code, int accumulate) {
    const Operand out = operand(run, code->out);
    const int32_t *index = address(run, code->x + 1);
    const ptrdiff_t w = code->w, begin = run->begin[out.space];
    const float *base = address(run, code->x);
    View view = {.out = out.data, .a = base + begin * w, .rows = out.rows, .w = w, .ldo = out.ld, .lda = w};
    ptrdiff_t r;
    if (!index) {
        call(run, OP_COPY, accumulate, &view);
        return;
    }
    for (r = 0; r < out.rows; r++, view.out += out.ld) {
        view.a = base + index[begin + r] * w;
        view.rows = 1;
        if (accumulate)
            call(run, OP_COPY, 1, &view);
        else
            memcpy(view.out, view.a, (size_t)w * sizeof(float));
    }
}

/* Columns from one to another. */
static void scatter(const Run *run, const Instruction *code, ptrdiff_t from, ptrdiff_t to) {
    const Operand a = operand(run, code->a);
    const int32_t *index = address(run, code->x + 1);
    const ptrdiff_t w = code->w, begin = run->begin[a.space];
    float *base = (float *)address(run, code->x) + from;
    View view = {.out = base + begin * w, .a = a.data + from, .rows = a.rows, .w = to - from, .ldo = w, .lda = a.ld};
    ptrdiff_t r;
    if (!index) {
        call(run, OP_COPY, 1, &view);
        return;
    }
    view.rows = 1;
    for (r = 0; r < a.rows; r++, view.a += a.ld) {
        view.out = base + index[begin + r] * w;
        call(run, OP_COPY, 1, &view);
    }
}

enum { BLOCK = 64, PART = 256 }; /* rows, and columns */

/* The sum of rows as one. Of many it is that of sums of BLOCK: one by one, thousands would lose their last digits. */
static void sum_rows(const Run *run, View view, int accumulate) {
    const ptrdiff_t rows = view.rows, w = view.w;
    float part[PART];
    ptrdiff_t from, row;
    if (rows <= BLOCK) {
        if (!accumulate) {
            view.rows = 1;
            call(run, rows > 0 ? OP_COPY : OP_FILL, 0, &view);
            view.rows = rows - 1;
            view.a += view.lda;
        }
        call(run, OP_COPY, 1, &view);
        return;
    }
    for (from = 0; from < w; from += PART) {
        const ptrdiff_t some = from + PART < w ? PART : w - from;
        for (row = 0; row < rows; row += BLOCK) {
            const View block = {.out = part, .a = view.a + row * view.lda + from, .lda = view.lda, .w = some,
                                .rows = row + BLOCK < rows ? BLOCK : rows - row};
            const View sum = {.out = view.out + from, .a = part, .rows = 1, .w = some};
            sum_rows(run, block, 0);
            call(run, OP_COPY, accumulate || row > 0, &sum);
        }
    }
}

/* Rows from a node to its children, or from the children's sum to the node; or a column of children as a row. */
static void along_children(const Run *run, const Instruction *code, int accumulate) {
    const Operand out = operand(run, code->out), a = operand(run, code->a), b = code->b < 0 ? a : operand(run, code->b);
    const int spread = code->op == OP_SPREAD;
    ptrdiff_t i;
    for (i = 0; i < run->rows[NODE]; i++) {
        const ptrdiff_t node = run->begin[NODE] + i;
        const ptrdiff_t child = !run->first ? 0 : run->first[node] - run->begin[CHILD];
        const ptrdiff_t children = !run->first ? 0 : run->first[node + 1] - run->first[node];
        const View view = {.out = out.data + (spread ? child : i) * out.ld, .a = a.data + (spread ? i : child) * a.ld,
                           .rows = children, .w = code->w, .ldo = spread ? out.ld : 0, .lda = spread ? 0 : a.ld};
        if (code->op >= OP_SEGLOGSOFTMAX) {
            const View column = {.out = out.data + child, .a = a.data + child, .b = b.data + child, .rows = 1, .w = children};
            call(run, code->op - OP_SEGLOGSOFTMAX + OP_LOGSOFTMAX, accumulate, &column);
            continue;
        }
        if (spread) {
            call(run, OP_COPY, accumulate, &view);
            continue;
        }
        sum_rows(run, view, accumulate);
    }
}

static void pick(const Run *run, const Instruction *code, int accumulate) {
    const Operand out = operand(run, code->out), a = operand(run, code->a), b = operand(run, code->b);
    const ptrdiff_t w = code->w;
    ptrdiff_t r;
    if (w == 0) return;
    for (r = 0; r < out.rows; r++) {
        const float number = b.data[r * b.ld];
        const ptrdiff_t column = !(number > 0.0f) ? 0 : number >= (float)(w - 1) ? w - 1 : (ptrdiff_t)number;
        float *to = out.data + r * out.ld;
        const float from = a.data[r * a.ld + (code->op == OP_PICK ? column : 0)];
        if (code->op == OP_DPICK) {
            if (!accumulate) memset(to, 0, (size_t)w * sizeof(float));
            to[column] += from;
        } else {
            *to = accumulate ? *to + from : from;
        }
    }
}

/* Operations whose x is a column of an operand. */
static void with_number(const Run *run, const Instruction *code, int accumulate) {
    const Operand out = operand(run, code->out), a = operand(run, code->a);
    const Operand number = code->op == OP_BCASTW ? a : operand(run, code->b);
    const int op = code->op == OP_BCASTW ? OP_FILL
                   : code->op == OP_MULW ? OP_MULS
                   : code->op == OP_DIVW ? OP_DIVW
                                         : OP_ADDS;
    View view = {.out = out.data, .a = a.data, .rows = 1, .w = code->w};
    ptrdiff_t r;
    for (r = 0; r < out.rows; r++, view.out += out.ld, view.a += a.ld) {
        view.x = code->op == OP_SUBW ? -number.data[r * number.ld] : number.data[r * number.ld];
        call(run, op, accumulate, &view);
    }
}

static void product(const Run *run, const Instruction *code, int accumulate) {
    const Operand a = operand(run, code->a), out = operand(run, code->out);
    const View view = {.out = out.data, .a = a.data, .b = address(run, code->x), .rows = out.rows, .w = code->w,
                       .ldo = out.ld, .lda = a.ld};
    run->kernels->product(&view, code->b, code->y < 0 ? NULL : address(run, code->y), accumulate);
}

/* a^T @ b, added to rows of a matrix from one to another. */
static void update(const Run *run, const Instruction *code, ptrdiff_t from, ptrdiff_t to) {
    const Operand a = operand(run, code->a), b = operand(run, code->b);
    const ptrdiff_t apart = (ptrdiff_t)run->args[code->x + 1].at;
    View view = {.out = (float *)address(run, code->x) + from * apart, .a = a.data + from, .b = b.data,
                 .rows = to - from, .w = code->y, .ldo = apart, .lda = a.ld, .ldb = b.ld};
    if (a.rows <= FEW && 2 * code->y >= run->kernels->panel) {
        run->kernels->updated(&view, a.rows);
        return;
    }
    view.b = run->panels;
    rows_pack(b.data, a.rows, code->y, b.ld, 1, run->panels, run->kernels->panel);
    run->kernels->transposed(&view, a.rows);
}

/* One of several parts of a sum over rows: of its matrix some rows, or of its rows some columns, lines of the cache. */
void rows_sum(const Run *run, const Instruction *code, ptrdiff_t part, ptrdiff_t parts) {
    const ptrdiff_t w = code->w;
    const ptrdiff_t from = w * part / parts / 16 * 16, to = part + 1 == parts ? w : w * (part + 1) / parts / 16 * 16;
    if (from >= to && part > 0) return;
    if (code->op == OP_SCATTER) {
        scatter(run, code, from, to);
    } else if (code->op == OP_GEMM_DW) {
        update(run, code, from, to);
    } else {
        const Operand a = operand(run, code->a);
        const View view = {.out = (float *)address(run, code->x) + from, .a = a.data + from, .rows = a.rows,
                           .w = to - from, .lda = a.ld};
        call(run, OP_COPY, 1, &view);
    }
}

/* Element by element, or along rows. */
static void plain(const Run *run, const Instruction *code, int accumulate) {
    const Form *form = &rows_forms[code->op];
    const int32_t bits = (int32_t)code->x;
    const int with_vector = code->op >= OP_ADDV && code->op <= OP_SUBV;
    const Operand out = operand(run, code->out);
    const Operand a = form->a == '-' ? out : operand(run, code->a);
    const Operand b = form->b == '-' ? out : operand(run, code->b);
    View view = {.out = out.data, .a = a.data, .b = b.data, .rows = out.rows, .w = code->w,
                 .ldo = out.ld, .lda = a.ld, .ldb = b.ld};
    memcpy(&view.x, &bits, sizeof view.x);
    if (with_vector) {
        view.b = address(run, code->x);
        view.ldb = 0;
    } else if (code->op <= OP_DRELU && out.ld == code->w && a.ld == code->w && b.ld == code->w) {
        view.w *= view.rows; /* one after the other: a single row */
        view.rows = 1;
    }
    call(run, code->op, accumulate, &view);
}

/* Run instructions from one to another. */
void rows_code(const Run *run, ptrdiff_t begin, ptrdiff_t end) {
    ptrdiff_t i;
    for (i = begin; i < end; i++) {
        const Instruction *code = &run->code[i];
        const int accumulate = code->flags & ACC;
        switch (code->op) {
            case OP_GATHER: gather(run, code, accumulate); break;
            case OP_GEMM: product(run, code, accumulate); break;
            case OP_SCATTER:
            case OP_GEMM_DW:
            case OP_COLSUM: rows_sum(run, code, 0, 1); break;
            case OP_SPREAD:
            case OP_SEGSUM:
            case OP_SEGLOGSOFTMAX:
            case OP_DSEGLOGSOFTMAX:
            case OP_SEGSOFTMAX:
            case OP_DSEGSOFTMAX: along_children(run, code, accumulate); break;
            case OP_PICK:
            case OP_DPICK: pick(run, code, accumulate); break;
            case OP_BCASTW:
            case OP_MULW:
            case OP_DIVW:
            case OP_ADDW:
            case OP_SUBW: with_number(run, code, accumulate); break;
            default: plain(run, code, accumulate);
        }
    }
}

/* Turn to the rows of some nodes. */
void rows_some(Run *run, ptrdiff_t begin, ptrdiff_t end) {
    run->begin[NODE] = begin;
    run->rows[NODE] = end - begin;
    run->begin[CHILD] = !run->first ? 0 : run->first[begin];
    run->rows[CHILD] = !run->first ? 0 : run->first[end] - run->first[begin];
}
