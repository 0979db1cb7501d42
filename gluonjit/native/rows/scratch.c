/* The scratch memory of a launch: its registers in blocks of rows, and packed panels. */

#include <string.h>

#include "rows.h"

#define MOST_FLOATS ((size_t)PTRDIFF_MAX / 8)

/* Add to a number of floats as many as lines of the cache take: 0, or -1 where that is too many. */
static int add_lines(size_t *all, size_t floats) {
    return floats > MOST_FLOATS || __builtin_add_overflow(*all, (floats + 15) / 16 * 16, all) || *all > MOST_FLOATS ? -1
                                                                                                                  : 0;
}

/* The most rows of so many nodes that follow each other, from a multiple of that number on. */
static void most_rows(const Run *run, ptrdiff_t nodes, ptrdiff_t *most) {
    ptrdiff_t begin;
    most[NODE] = run->nodes < nodes ? run->nodes : nodes;
    most[CHILD] = 0;
    for (begin = 0; run->first && begin < run->nodes; begin += nodes) {
        const ptrdiff_t end = run->nodes - begin < nodes ? run->nodes : begin + nodes;
        const ptrdiff_t children = run->first[end] - run->first[begin];
        if (children > most[CHILD]) most[CHILD] = children;
    }
}

/* Tells whether registers in one buffer have equal rows, so that a row has the same place for each of them. */
static int are_alike(const Run *run) {
    ptrdiff_t i;
    memset(run->sizes, 0, (size_t)run->registers * sizeof(size_t));
    for (i = 0; i < run->registers; i++) {
        const Register *reg = &run->regs[i];
        const size_t rows = (size_t)reg->width << 1 | (size_t)reg->space;
        if (reg->home != SCRATCH || reg->width == 0) continue;
        if (run->sizes[reg->where] != 0 && run->sizes[reg->where] != rows) return 0;
        run->sizes[reg->where] = rows;
    }
    return 1;
}

/* Counts the floats of scratch, and finds where each buffer begins (sizes): 0, or -1 if no memory has room for so
   many. */
int rows_scratch(Run *run, Division *division, size_t *floats) {
    ptrdiff_t i, most[2];
    size_t all = 0, packed = 0, threads, size;
    if (division->threads > 1 && !division->apart && !are_alike(run)) rows_alone(run, division);
    threads = (size_t)division->threads;
    most_rows(run, division->held, most);
    memset(run->sizes, 0, (size_t)run->registers * sizeof(size_t));
    for (i = 0; i < run->registers; i++) {
        const Register *reg = &run->regs[i];
        if (__builtin_mul_overflow((size_t)reg->width, (size_t)most[reg->space], &size)) return -1;
        if (reg->home == SCRATCH && size > run->sizes[reg->where]) run->sizes[reg->where] = size;
    }
    for (i = 0; i < run->registers; i++) {
        size = run->sizes[i];
        run->sizes[i] = all;
        if (add_lines(&all, size) < 0) return -1;
    }
    most_rows(run, run->block, most);
    for (i = 0; i < run->instructions; i++) {
        const Instruction *code = &run->code[i];
        if (code->op != OP_GEMM_DW) continue;
        if (rows_packed(most[run->regs[register_of(code->a)].space], code->y, run->kernels->panel, &size) < 0) return -1;
        if (size > packed) packed = size;
    }
    division->registers = all;
    division->panels = 0;
    if (add_lines(&division->panels, packed) < 0) return -1;
    if (all > MOST_FLOATS / threads || division->panels > MOST_FLOATS / threads) return -1;
    *floats = (division->apart ? threads : 1) * all + threads * division->panels;
    return 0;
}
