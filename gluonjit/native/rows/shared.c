/* A launch, done by one thread or several: what each element is made of, and in which order, is the same.

   What instructions do to a row is the same wherever others begin and end. Sums over rows go on from block to block;
   they stand at the end of a program, so that several threads first do all before them, each for some nodes, and then
   the sums, each some elements of them, block by block. Where programs are otherwise one thread does it all. */

#include "crew.h"
#include "rows.h"

enum { MOST_SUMS = 64, MOST_BLOCKS = 16 };

static const double ENOUGH = 60000; /* nanoseconds of work that threads share between two times that they meet */
static const ptrdiff_t FEWEST = 8;  /* nodes for a thread: fewer make products slow */

typedef struct {
    Run *runs; /* one for each thread */
    const Division *division;
    ptrdiff_t begin, end; /* nodes */
    ptrdiff_t groups;     /* of sums, one after the other as they are numbered here */
    unsigned char group[MOST_SUMS], whole[MOST_SUMS];
} Shared;

static int is_sum(const Instruction *code) {
    return code->op == OP_SCATTER || code->op == OP_GEMM_DW || code->op == OP_COLSUM;
}

/* The instruction from which on all are sums over rows; -1 where one stands before another instruction. */
static ptrdiff_t first_sum(const Run *run) {
    ptrdiff_t i = 0, first;
    while (i < run->instructions && !is_sum(&run->code[i])) i++;
    first = i;
    while (i < run->instructions && is_sum(&run->code[i])) i++;
    return i < run->instructions || i - first > MOST_SUMS ? -1 : first;
}

/* About how many nanoseconds a launch takes. */
static double work_of(const Run *run) {
    const double rows[2] = {(double)run->nodes, !run->first ? 0.0 : run->first[run->nodes] - run->first[0]};
    double products = 0.0;
    ptrdiff_t i;
    for (i = 0; i < run->instructions; i++) {
        const Instruction *code = &run->code[i];
        const int space = run->regs[register_of(code->out < 0 ? code->a : code->out)].space;
        const int64_t k = code->op == OP_GEMM ? code->b : code->op == OP_GEMM_DW ? code->y : 0;
        products += rows[space] * (double)code->w * (double)(k + 8); /* an element costs as much as 8 products */
    }
    return products / run->kernels->panel; /* so many a nanosecond */
}

static ptrdiff_t at_least(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }
static ptrdiff_t at_most(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }

void rows_alone(const Run *run, Division *division) {
    division->threads = 1;
    division->apart = 0;
    division->held = division->piece = run->block;
}

/* Divide a launch that has been checked among so many threads at most; `least` is the work that is worth a second one. */
void rows_divide(const Run *run, int threads, double least, Division *division) {
    const ptrdiff_t blocks = (run->nodes + run->block - 1) / run->block;
    const double work = threads > 1 ? work_of(run) : 0.0;
    ptrdiff_t pieces;
    rows_alone(run, division);
    division->sums = threads > 1 ? first_sum(run) : -1;
    if (threads <= 1 || work < least || division->sums < 0) return;
    threads = (int)at_most(threads, at_least(2, (ptrdiff_t)(work / (least + 1.0))));
    threads = (int)at_most(threads, run->nodes);
    if (threads < 2) return;
    division->threads = threads;
    division->held = run->nodes;
    if (division->sums < run->instructions) {
        const ptrdiff_t enough = (ptrdiff_t)(ENOUGH * threads * (double)blocks / (work + 1.0));
        division->held = run->block * at_most(at_least(threads, enough), at_least(threads, MOST_BLOCKS));
        division->held = at_most(division->held, run->nodes);
    }
    pieces = threads * at_most(4, at_least(1, division->held / (threads * 4 * FEWEST)));
    division->piece = at_most(run->block, (division->held + pieces - 1) / pieces);
    division->apart = division->sums == run->instructions;
    if (division->apart) division->held = division->piece;
}

/* The place of the numbers that a sum is added to. */
static void extent(const Run *run, const Instruction *code, int64_t *begin, int64_t *end) {
    const Slot *given = &run->args[code->x];
    const int64_t floats = code->op == OP_SCATTER   ? given->bytes / 4
                           : code->op == OP_GEMM_DW ? (code->w - 1) * given[1].at + code->y
                                                    : code->w;
    *begin = given->at;
    *end = given->at + 4 * floats;
}

/* Tells whether sums are added to numbers in common, and whether parts of them meet in equal ones alone. */
static int meet(const Run *run, const Instruction *one, const Instruction *other, int *alike) {
    const int64_t apart = run->args[other->x].at - run->args[one->x].at;
    int64_t begin, end, other_begin, other_end;
    extent(run, one, &begin, &end);
    extent(run, other, &other_begin, &other_end);
    *alike = one->op == other->op && one->w == other->w;
    if (begin >= other_end || other_begin >= end) return 0;
    if (one->op == OP_SCATTER) {
        *alike = *alike && one->w > 0 && apart % (4 * one->w) == 0;
    } else if (one->op == OP_GEMM_DW && other->op == OP_GEMM_DW) {
        const int64_t stride = run->args[one->x + 1].at;
        const int64_t column = stride > 0 ? (apart / 4 % stride + stride) % stride : 0;
        *alike = *alike && apart == 0 && stride == run->args[other->x + 1].at;
        if (stride > 0 && stride == run->args[other->x + 1].at && column >= one->y && column + other->y <= stride) return 0;
    } else {
        *alike = *alike && apart == 0;
    }
    return 1;
}

/* Sums that meet are one group, which is one thread's; parts of one are different threads' where they do not meet. */
static void group_sums(Shared *shared, const Run *run) {
    const Instruction *sums = &run->code[shared->division->sums];
    const ptrdiff_t count = run->instructions - shared->division->sums;
    ptrdiff_t i, j, k;
    int alike;
    for (i = 0; i < count; i++) {
        shared->group[i] = (unsigned char)i;
        shared->whole[i] = 0;
        for (j = 0; j < i; j++) {
            const unsigned char mine = shared->group[i], other = shared->group[j];
            if (!meet(run, &sums[j], &sums[i], &alike)) continue;
            shared->whole[other] |= shared->whole[mine] | !alike;
            for (k = 0; k <= i; k++)
                if (shared->group[k] == mine) shared->group[k] = other;
        }
    }
    shared->groups = count;
}

static void do_nodes(void *work, int thread, ptrdiff_t number) {
    const Shared *shared = work;
    const Division *division = shared->division;
    Run *run = &shared->runs[thread];
    const ptrdiff_t begin = shared->begin + number * division->piece;
    rows_some(run, begin, at_most(begin + division->piece, shared->end));
    if (division->apart) {
        run->held[NODE] = run->begin[NODE];
        run->held[CHILD] = run->begin[CHILD];
    }
    rows_code(run, 0, division->sums);
}

/* A part of a group of sums. */
static void do_sums(void *work, int thread, ptrdiff_t number) {
    const Shared *shared = work;
    const Division *division = shared->division;
    Run *run = &shared->runs[thread];
    const ptrdiff_t group = number % shared->groups, part = number / shared->groups;
    const ptrdiff_t parts = shared->whole[group] ? 1 : division->threads;
    ptrdiff_t begin, i;
    if (part >= parts) return;
    for (begin = shared->begin; begin < shared->end; begin += run->block) {
        rows_some(run, begin, at_most(begin + run->block, shared->end));
        for (i = 0; i < shared->groups; i++)
            if (shared->group[i] == group) rows_sum(run, &run->code[division->sums + i], part, parts);
    }
}

static void share(Run *run, const Division *division) {
    const ptrdiff_t step = division->apart ? run->nodes : division->held;
    float *panels = run->scratch + (size_t)(division->apart ? division->threads : 1) * division->registers;
    Run runs[MOST_THREADS];
    Shared shared = {.runs = runs, .division = division};
    int k;
    for (k = 0; k < division->threads; k++) {
        runs[k] = *run;
        if (division->apart) runs[k].scratch += (size_t)k * division->registers;
        runs[k].panels = panels + (size_t)k * division->panels;
    }
    if (!division->apart) group_sums(&shared, run);
    for (; shared.begin < run->nodes; shared.begin = shared.end) {
        shared.end = at_most(shared.begin + step, run->nodes);
        for (k = 0; k < division->threads && !division->apart; k++) {
            runs[k].held[NODE] = shared.begin;
            runs[k].held[CHILD] = !run->first ? 0 : run->first[shared.begin];
        }
        crew_share(division->threads, (shared.end - shared.begin + division->piece - 1) / division->piece, do_nodes, &shared);
        if (!division->apart) crew_share(division->threads, shared.groups * division->threads, do_sums, &shared);
    }
}

void rows_run(Run *run, const Division *division) {
    ptrdiff_t begin;
    if (division->threads > 1) {
        share(run, division);
        return;
    }
    run->panels = run->scratch + division->registers;
    for (begin = 0; begin < run->nodes; begin += run->block) {
        rows_some(run, begin, at_most(begin + run->block, run->nodes));
        run->held[NODE] = run->begin[NODE];
        run->held[CHILD] = run->begin[CHILD];
        rows_code(run, 0, run->instructions);
    }
}
