/* gluonjit._rows: row programs, run by kernels for the processor at hand. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"

#define KEPT ((size_t)64 << 20) /* bytes of scratch that stay for the next run, at most */

static const Kernels *kernels;

/* Scratch of an earlier run, of which there is one; whoever takes it holds the GIL. */
static struct {
    void *memory;
    size_t bytes;
} spare;

static const Kernels *named(const char *name) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (strcmp(name, "avx512") == 0 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return &rows_avx512;
    if (strcmp(name, "avx2") == 0 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &rows_avx2;
#endif
    return strcmp(name, "generic") == 0 ? &rows_generic : NULL;
}

static void *take(size_t bytes, size_t *taken) {
    void *memory = spare.memory;
    *taken = spare.bytes;
    spare.memory = NULL;
    spare.bytes = 0;
    if (memory != NULL && *taken >= bytes) return memory;
    free(memory);
    *taken = bytes + bytes / 2;
    return malloc(*taken);
}

static void give_back(void *memory, size_t bytes) {
    if (bytes > KEPT || spare.bytes >= bytes) {
        free(memory);
        return;
    }
    free(spare.memory);
    spare.memory = memory;
    spare.bytes = bytes;
}

typedef struct {
    Run run;
    Py_buffer buffers[3];
    int held;
} Program;

/* From code, regs, args, nodes and block; 0, or -1 and an exception. */
static int read_program(Program *program, PyObject *const *given) {
    Run *run = &program->run;
    Py_buffer *buffers = program->buffers;
    run->kernels = kernels;
    run->nodes = PyLong_AsSsize_t(given[3]);
    run->block = PyLong_AsSsize_t(given[4]);
    if (PyErr_Occurred()) return -1;
    for (; program->held < 3; program->held++)
        if (PyObject_GetBuffer(given[program->held], &buffers[program->held], PyBUF_C_CONTIGUOUS) != 0) return -1;
    if (buffers[0].len % (Py_ssize_t)sizeof(Instruction) != 0 || buffers[1].len % (Py_ssize_t)sizeof(Register) != 0 ||
        buffers[0].itemsize != 4 || buffers[1].itemsize != 4 || buffers[2].itemsize != 8) {
        PyErr_SetString(PyExc_ValueError, "_rows.run: code is int32 (n, 8), regs int32 (n, 4) and args int64");
        return -1;
    }
    run->code = buffers[0].buf;
    run->regs = buffers[1].buf;
    run->args = buffers[2].buf;
    run->instructions = buffers[0].len / (Py_ssize_t)sizeof(Instruction);
    run->registers = buffers[1].len / (Py_ssize_t)sizeof(Register);
    run->slots = buffers[2].len / (Py_ssize_t)sizeof(int64_t);
    return 0;
}

static void release(Program *program) {
    while (program->held > 0) PyBuffer_Release(&program->buffers[--program->held]);
}

/* Run a program, if it can be run; 0, or -1 and an exception. */
static int run_program(Run *run) {
    const char *wrong = rows_check(run);
    size_t taken;
    void *tables, *memory = NULL;
    if (wrong != NULL) {
        PyErr_Format(PyExc_ValueError, "_rows.run: %s", wrong);
        return -1;
    }
    if (run->nodes <= 0) return 0;
    if (run->block <= 0 || run->block > run->nodes) run->block = run->nodes;
    tables = malloc((size_t)run->registers * (sizeof(Place) + sizeof(size_t)) + 1);
    if (tables != NULL) {
        run->first = (const int32_t *)(intptr_t)run->args[0];
        run->places = tables;
        run->sizes = (size_t *)(run->places + run->registers);
        memory = take(rows_scratch(run) * sizeof(float) + 64, &taken);
    }
    if (memory == NULL) {
        free(tables);
        PyErr_NoMemory();
        return -1;
    }
    run->scratch = (float *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
    Py_BEGIN_ALLOW_THREADS
    rows_run(run);
    Py_END_ALLOW_THREADS
    give_back(memory, taken);
    free(tables);
    return 0;
}

/* run(code, regs, args, nodes, block) */
static PyObject *run(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    Program program;
    int result;
    (void)module;
    if (count != 5) {
        PyErr_SetString(PyExc_TypeError, "_rows.run takes code, regs, args, nodes and block");
        return NULL;
    }
    memset(&program, 0, sizeof program);
    result = read_program(&program, given) != 0 ? -1 : run_program(&program.run);
    release(&program);
    if (result != 0) return NULL;
    Py_RETURN_NONE;
}

/* pack(source, k, n, row stride, column stride, target) */
static PyObject *pack(PyObject *module, PyObject *args) {
    long long source, target;
    Py_ssize_t k, n, row, column;
    (void)module;
    if (!PyArg_ParseTuple(args, "LnnnnL", &source, &k, &n, &row, &column, &target)) return NULL;
    rows_pack((const float *)(intptr_t)source, k, n, row, column, (float *)(intptr_t)target, kernels->panel);
    Py_RETURN_NONE;
}

static PyObject *packed_size(PyObject *module, PyObject *args) {
    Py_ssize_t k, n;
    (void)module;
    if (!PyArg_ParseTuple(args, "nn", &k, &n)) return NULL;
    return PyLong_FromSize_t(rows_packed(k, n, kernels->panel));
}

static PyObject *features(PyObject *module, PyObject *none) {
    (void)module;
    (void)none;
    return PyUnicode_FromString(kernels->name);
}

static PyObject *use(PyObject *module, PyObject *name) {
    const char *text = PyUnicode_AsUTF8(name);
    const Kernels *found = text == NULL ? NULL : named(text);
    (void)module;
    if (text == NULL) return NULL;
    if (found != NULL) kernels = found;
    return PyBool_FromLong(found != NULL);
}

static PyMethodDef methods[] = {
    {"run", (PyCFunction)(void (*)(void))run, METH_FASTCALL, "Run a row program over the nodes of a step."},
    {"pack", pack, METH_VARARGS, "Write the right operand of a product in panels."},
    {"packed_size", packed_size, METH_VARARGS, "How many floats the panels of a (k, n) matrix take."},
    {"features", features, METH_NOARGS, "The kernels in use: avx512, avx2 or generic."},
    {"use", use, METH_O, "Use other kernels; False where the processor can't. What was packed has to be packed anew."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "gluonjit._rows", "Row programs (gluonjit/native/rows).", -1, methods, NULL, NULL, NULL, NULL,
};

#define NAME_OF(name, out, a, b, slots) #name,
static const char *const op_names[OPS] = {ROWS_OPS(NAME_OF)};

PyMODINIT_FUNC PyInit__rows(void) {
    static const char *const best[] = {"avx512", "avx2", "generic"};
    PyObject *module = PyModule_Create(&definition), *ops = PyDict_New();
    int k;
    for (k = 0; kernels == NULL; k++) kernels = named(best[k]);
    for (k = 0; module != NULL && ops != NULL && k < OPS; k++) {
        PyObject *number = PyLong_FromLong(k);
        if (number == NULL || PyDict_SetItemString(ops, op_names[k], number) != 0) Py_CLEAR(ops);
        Py_XDECREF(number);
    }
    if (module == NULL || ops == NULL || PyModule_AddObjectRef(module, "OPS", ops) != 0) Py_CLEAR(module);
    Py_XDECREF(ops);
    return module;
}
