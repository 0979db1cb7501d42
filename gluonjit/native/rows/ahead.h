/* A thread that runs stretches while Python goes on. */

#ifndef GLUONJIT_AHEAD_H
#define GLUONJIT_AHEAD_H

#include "stretch.h"

/* start(programs, launches, args, block, threads, kept) -> Flight; of a Stretch that begins as given. */
PyObject *ahead_start(PyObject *const *given, Py_ssize_t count, const Kernels *kernels, double least);

int ahead_ready(PyObject *module); /* 0, or -1 and an exception */

#endif
