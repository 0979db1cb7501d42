/* The interpreter: block by block of nodes, so that what is computed in between stays in the cache. */

#include <string.h>

#include "rows.h"

typedef struct {
    float *data;
    ptrdiff_t ld, rows;
    int space;
} Operand;

#define MOST_FLOATS ((size_t)PTRDIFF_MAX / 8)

static Operand operand(const Run *run, int64_t packed) {
    const Place *place = &run->places[register_of(packed)];
    Operand found = {place->data + column_of(packed), place->width, run->rows[place->space], place->space};
    return found;
}

static void *address(const Run *run, ptrdiff_t slot) { return (void *)(intptr_t)run->args[slot].at; }

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
    if (index == NULL) {
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

static void scatter(const Run *run, const Instruction *code) {
    const Operand a = operand(run, code->a);
    const int32_t *index = address(run, code->x + 1);
    const ptrdiff_t w = code->w, begin = run->begin[a.space];
    float *base = address(run, code->x);
    View view = {.out = base + begin * w, .a = a.data, .rows = a.rows, .w = w, .ldo = w, .lda = a.ld};
    ptrdiff_t r;
    if (index == NULL) {
        call(run, OP_COPY, 1, &view);
        return;
    }
    view.rows = 1;
    for (r = 0; r < a.rows; r++, view.a += a.ld) {
        view.out = base + index[begin + r] * w;
        call(run, OP_COPY, 1, &view);
    }
}

/* Of a node's row to its children, or of the children's sum to the node. */
static void along_children(const Run *run, const Instruction *code, int accumulate) {
    const Operand out = operand(run, code->out), a = operand(run, code->a);
    const int spread = code->op == OP_SPREAD;
    ptrdiff_t i;
    for (i = 0; i < run->rows[NODE]; i++) {
        const ptrdiff_t node = run->begin[NODE] + i;
        const ptrdiff_t child = run->first == NULL ? 0 : run->first[node] - run->begin[CHILD];
        const ptrdiff_t children = run->first == NULL ? 0 : run->first[node + 1] - run->first[node];
        View view = {.out = out.data + (spread ? child : i) * out.ld, .a = a.data + (spread ? i : child) * a.ld,
                     .rows = children, .w = code->w, .ldo = spread ? out.ld : 0, .lda = spread ? 0 : a.ld};
        if (spread) {
            call(run, OP_COPY, accumulate, &view);
            continue;
        }
        if (!accumulate) {
            view.rows = 1;
            call(run, children > 0 ? OP_COPY : OP_FILL, 0, &view);
            view.rows = children - 1;
            view.a += a.ld;
        }
        call(run, OP_COPY, 1, &view);
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

static void products(const Run *run, const Instruction *code, int accumulate) {
    const Operand a = operand(run, code->a);
    if (code->op == OP_GEMM) {
        const Operand out = operand(run, code->out);
        const View view = {.out = out.data, .a = a.data, .b = address(run, code->x), .rows = out.rows, .w = code->w,
                           .ldo = out.ld, .lda = a.ld};
        run->kernels->product(&view, code->b, code->y < 0 ? NULL : address(run, code->y), accumulate);
    } else {
        const Operand b = operand(run, code->b);
        View view = {.out = address(run, code->x), .a = a.data, .b = b.data, .rows = code->w, .w = code->y,
                     .ldo = (ptrdiff_t)run->args[code->x + 1].at, .lda = a.ld, .ldb = b.ld};
        if (a.rows <= FEW && 2 * code->y >= run->kernels->panel) {
            run->kernels->updated(&view, a.rows);
            return;
        }
        view.b = run->panels;
        rows_pack(b.data, a.rows, code->y, b.ld, 1, run->panels, run->kernels->panel);
        run->kernels->transposed(&view, a.rows);
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

static void run_block(const Run *run) {
    ptrdiff_t i;
    for (i = 0; i < run->instructions; i++) {
        const Instruction *code = &run->code[i];
        const int accumulate = code->flags & ACC;
        switch (code->op) {
            case OP_GATHER: gather(run, code, accumulate); break;
            case OP_SCATTER: scatter(run, code); break;
            case OP_GEMM:
            case OP_GEMM_DW: products(run, code, accumulate); break;
            case OP_COLSUM: {
                const Operand a = operand(run, code->a);
                const View view = {
                    .out = address(run, code->x), .a = a.data, .rows = a.rows, .w = code->w, .lda = a.ld};
                call(run, OP_COPY, 1, &view);
                break;
            }
            case OP_SPREAD:
            case OP_SEGSUM: along_children(run, code, accumulate); break;
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

static void set_block(Run *run, ptrdiff_t begin, ptrdiff_t end) {
    ptrdiff_t i;
    run->begin[NODE] = begin;
    run->rows[NODE] = end - begin;
    run->begin[CHILD] = run->first == NULL ? 0 : run->first[begin];
    run->rows[CHILD] = run->first == NULL ? 0 : run->first[end] - run->first[begin];
    for (i = 0; i < run->registers; i++) {
        const Register *reg = &run->regs[i];
        const ptrdiff_t skipped = run->begin[reg->space] * reg->width;
        Place *place = &run->places[i];
        place->space = reg->space;
        place->width = reg->width;
        if (reg->home == SCRATCH)
            place->data = run->scratch + run->sizes[reg->where];
        else if (reg->home == SAVED)
            place->data = (float *)address(run, 1) + run->args[reg->where].at + skipped;
        else
            place->data = (float *)address(run, reg->where) + skipped;
    }
}

/* Add to a number of floats as many as lines of the cache take: 0, or -1 where that is too many. */
static int add_lines(size_t *all, size_t floats) {
    return floats > MOST_FLOATS || __builtin_add_overflow(*all, (floats + 15) / 16 * 16, all) || *all > MOST_FLOATS ? -1
                                                                                                                  : 0;
}

/* How many floats the scratch buffers take together, and where each begins (sizes): 0, or -1 where no memory has room
   for so many. */
int rows_scratch(Run *run, size_t *floats) {
    ptrdiff_t begin, i, most[2] = {run->nodes < run->block ? run->nodes : run->block, 0};
    size_t all = 0, packed = 0, size;
    for (begin = 0; run->first != NULL && begin < run->nodes; begin += run->block) {
        const ptrdiff_t end = run->nodes - begin < run->block ? run->nodes : begin + run->block;
        const ptrdiff_t children = run->first[end] - run->first[begin];
        if (children > most[CHILD]) most[CHILD] = children;
    }
    memset(run->sizes, 0, (size_t)run->registers * sizeof(size_t));
    for (i = 0; i < run->registers; i++) {
        const Register *reg = &run->regs[i];
        if (__builtin_mul_overflow((size_t)reg->width, (size_t)most[reg->space], &size)) return -1;
        if (reg->home == SCRATCH && size > run->sizes[reg->where]) run->sizes[reg->where] = size;
    }
    for (i = 0; i < run->instructions; i++) {
        const Instruction *code = &run->code[i];
        if (code->op != OP_GEMM_DW) continue;
        if (rows_packed(most[run->regs[register_of(code->a)].space], code->y, run->kernels->panel, &size) < 0) return -1;
        if (size > packed) packed = size;
    }
    for (i = 0; i < run->registers; i++) {
        size = run->sizes[i];
        run->sizes[i] = all;
        if (add_lines(&all, size) < 0) return -1;
    }
    run->before_panels = all;
    if (add_lines(&all, packed) < 0) return -1;
    *floats = all;
    return 0;
}

void rows_run(Run *run) {
    ptrdiff_t begin;
    run->panels = run->scratch + run->before_panels;
    for (begin = 0; begin < run->nodes; begin += run->block) {
        set_block(run, begin, run->nodes - begin < run->block ? run->nodes : begin + run->block);
        run_block(run);
    }
}
