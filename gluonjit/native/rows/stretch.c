/* Launches of row programs as Python has them, and one of them run. */

#include "stretch.h"

#include <limits.h>
#include <stdlib.h>
#include <time.h>

/* A launch: a program by its number, the first of its slots and how many they are, and nodes. The nanoseconds
   that it took are written to it. */
typedef struct {
    int64_t program, begin, slots, nodes, took;
} Launch;

const char rows_no_memory[] = "there is no memory";

int64_t rows_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int rows_is_table(const Py_buffer *buffer, Py_ssize_t size, Py_ssize_t item) {
    return buffer->itemsize == size && buffer->len % item == 0 && (uintptr_t)buffer->buf % (uintptr_t)size == 0;
}

/* Let a program have room; -1 where there is no memory. */
static int make_room(Room *room, Run *run, Division *division) {
    const size_t registers = (size_t)run->registers;
    size_t floats;
    if (!room->sizes || registers > room->registers) {
        free(room->sizes);
        room->sizes = malloc(registers * sizeof(size_t) + 1);
        if (!room->sizes) return -1;
        room->registers = registers;
    }
    run->sizes = room->sizes;
    if (rows_scratch(run, division, &floats) < 0) return -1;
    if (!room->scratch || room->bytes < floats * sizeof(float) + 64) {
        free(room->scratch);
        room->bytes = (floats * sizeof(float) + 64) / 2 * 3;
        room->scratch = malloc(room->bytes);
        if (!room->scratch) return -1;
    }
    run->scratch = (float *)(((uintptr_t)room->scratch + 63) & ~(uintptr_t)63);
    return 0;
}

enum { SEVERAL = 8 }; /* children of each node in a block; where nodes have more the block has fewer of them */

/* Run a program, if it can be run: NULL, or what is wrong. */
static const char *run_program(Run *run, Room *room, int threads, double least) {
    const char *wrong = rows_check(run);
    Division division;
    if (wrong || run->nodes <= 0) return wrong;
    if (run->block <= 0 || run->block > run->nodes) run->block = run->nodes;
    if (run->block > LARGEST_BLOCK) run->block = LARGEST_BLOCK;
    if (run->first) {
        const ptrdiff_t children = run->first[run->nodes] - run->first[0];
        if (children / SEVERAL > run->nodes) run->block = (run->block * SEVERAL * run->nodes + children - 1) / children;
    }
    rows_divide(run, threads, least, &division);
    if (make_room(room, run, &division) < 0) return rows_no_memory;
    rows_run(run, &division);
    return NULL;
}

void stretch_release(Stretch *stretch) {
    if (stretch->held > 1) PyBuffer_Release(&stretch->args);
    if (stretch->held > 0) PyBuffer_Release(&stretch->launches);
    while (stretch->count > 0) {
        Program *program = &stretch->programs[--stretch->count];
        PyBuffer_Release(&program->code);
        PyBuffer_Release(&program->regs);
    }
    PyMem_Free(stretch->programs);
}

/* 0, or -1 and an exception. */
static int hold_program(Program *program, PyObject *pair) {
    if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2) {
        PyErr_SetString(PyExc_TypeError, "_rows.run: a program is a tuple of code and regs");
        return -1;
    }
    if (PyObject_GetBuffer(PyTuple_GET_ITEM(pair, 0), &program->code, PyBUF_C_CONTIGUOUS) != 0) return -1;
    if (PyObject_GetBuffer(PyTuple_GET_ITEM(pair, 1), &program->regs, PyBUF_C_CONTIGUOUS) != 0) {
        PyBuffer_Release(&program->code);
        return -1;
    }
    return 0;
}

int stretch_hold(Stretch *stretch, PyObject *const *given) {
    PyObject *programs = given[0];
    Py_ssize_t k;
    int fits = 1;
    if (!PyTuple_Check(programs)) {
        PyErr_SetString(PyExc_TypeError, "_rows.run: programs are a tuple");
        return -1;
    }
    stretch->block = PyLong_AsSsize_t(given[3]);
    if (stretch->block == -1 && PyErr_Occurred()) return -1;
    stretch->programs = PyMem_Calloc((size_t)PyTuple_GET_SIZE(programs) + 1, sizeof(Program));
    if (!stretch->programs) {
        PyErr_NoMemory();
        return -1;
    }
    for (k = 0; k < PyTuple_GET_SIZE(programs); k++, stretch->count++) {
        const Program *program = &stretch->programs[k];
        if (hold_program(&stretch->programs[k], PyTuple_GET_ITEM(programs, k)) != 0) return -1;
        fits = fits && rows_is_table(&program->code, 8, sizeof(Instruction)) &&
               rows_is_table(&program->regs, 4, sizeof(Register));
    }
    if (PyObject_GetBuffer(given[1], &stretch->launches, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) != 0) return -1;
    stretch->held = 1;
    if (PyObject_GetBuffer(given[2], &stretch->args, PyBUF_C_CONTIGUOUS) != 0) return -1;
    stretch->held = 2;
    if (!fits || !rows_is_table(&stretch->launches, 8, sizeof(Launch)) ||
        !rows_is_table(&stretch->args, 8, sizeof(Slot))) {
        PyErr_SetString(PyExc_ValueError, "_rows.run: code is int64 (n, 8), regs int32 (n, 4), launches int64 (n, 5) and "
                                          "args int64 (n, 2)");
        return -1;
    }
    return 0;
}

int64_t stretch_length(const Stretch *stretch) { return stretch->launches.len / (Py_ssize_t)sizeof(Launch); }

static const char *run_launch(const Stretch *stretch, const Launch *launch, Room *room) {
    const int64_t slots = stretch->args.len / (Py_ssize_t)sizeof(Slot);
    const Program *program;
    Run run = {.kernels = stretch->kernels, .nodes = launch->nodes, .block = stretch->block};
    if (launch->program < 0 || launch->program >= stretch->count) return "a launch has no such program";
    if (launch->begin < 0 || launch->slots < 1 || launch->begin > slots || launch->slots > slots - launch->begin)
        return "a launch has no such slots";
    program = &stretch->programs[launch->program];
    run.code = program->code.buf;
    run.regs = program->regs.buf;
    run.instructions = program->code.len / (Py_ssize_t)sizeof(Instruction);
    run.registers = program->regs.len / (Py_ssize_t)sizeof(Register);
    run.args = (const Slot *)stretch->args.buf + launch->begin;
    run.slots = launch->slots;
    run.first = (const int32_t *)(intptr_t)run.args[0].at;
    return run_program(&run, room, stretch->threads, stretch->least);
}

const char *stretch_run(const Stretch *stretch, int64_t number, Room *room) {
    Launch *launch = (Launch *)stretch->launches.buf + number;
    const int64_t before = rows_now();
    const char *wrong = run_launch(stretch, launch, room);
    if (!wrong) launch->took = rows_now() - before;
    return wrong;
}
