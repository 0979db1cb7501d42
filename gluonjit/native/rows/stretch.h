/* Launches of row programs, one after the other: the buffers of Python that they are in, and their run. */

#ifndef GLUONJIT_STRETCH_H
#define GLUONJIT_STRETCH_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "rows.h"

extern const char rows_no_memory[];

/* Memory that programs work in: scratch, and where its buffers begin. It grows as they need it. */
typedef struct {
    void *scratch, *sizes;
    size_t bytes, registers;
} Room;

typedef struct {
    Py_buffer code, regs;
} Program;

typedef struct {
    const Kernels *kernels;
    double least; /* nanoseconds of work that are worth a second thread */
    Program *programs;
    Py_ssize_t count; /* of programs whose buffers are held */
    Py_buffer launches, args;
    int held; /* of these two */
    ptrdiff_t block;
    int threads;
} Stretch;

int64_t rows_now(void); /* nanoseconds */

/* From programs, launches, args and block; 0, or -1 and an exception. Both hold the GIL, and a stretch is released too
   that could not be held. */
int stretch_hold(Stretch *stretch, PyObject *const *given);
void stretch_release(Stretch *stretch);

int64_t stretch_length(const Stretch *stretch);

/* Run one launch, without the GIL: NULL, or what is wrong with it, which then has not run. */
const char *stretch_run(const Stretch *stretch, int64_t number, Room *room);

/* Tells whether a buffer holds whole items of so many numbers of that size. */
int rows_is_table(const Py_buffer *buffer, Py_ssize_t size, Py_ssize_t item);

#endif
