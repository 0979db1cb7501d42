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

/* Whether a buffer holds whole items of so many numbers of that size. */
static int is_table(const Py_buffer *buffer, Py_ssize_t size, Py_ssize_t item) {
    return buffer->itemsize == size && buffer->len % item == 0 && (uintptr_t)buffer->buf % (uintptr_t)size == 0;
}

/* From code, regs, args, nodes and block; 0, or -1 and an exception. */
static int read_program(Program *program, PyObject *const *given) {
    Run *run = &program->run;
    Py_buffer *buffers = program->buffers;
    run->kernels = kernels;
    run->nodes = PyLong_AsSsize_t(given[3]);
    if (run->nodes == -1 && PyErr_Occurred()) return -1;
    run->block = PyLong_AsSsize_t(given[4]);
    if (run->block == -1 && PyErr_Occurred()) return -1;
    for (; program->held < 3; program->held++)
        if (PyObject_GetBuffer(given[program->held], &buffers[program->held], PyBUF_C_CONTIGUOUS) != 0) return -1;
    if (!is_table(&buffers[0], 8, sizeof(Instruction)) || !is_table(&buffers[1], 4, sizeof(Register)) ||
        !is_table(&buffers[2], 8, sizeof(Slot))) {
        PyErr_SetString(PyExc_ValueError, "_rows.run: code is int64 (n, 8), regs int32 (n, 4) and args int64 (n, 2)");
        return -1;
    }
    run->code = buffers[0].buf;
    run->regs = buffers[1].buf;
    run->args = buffers[2].buf;
    run->instructions = buffers[0].len / (Py_ssize_t)sizeof(Instruction);
    run->registers = buffers[1].len / (Py_ssize_t)sizeof(Register);
    run->slots = buffers[2].len / (Py_ssize_t)sizeof(Slot);
    run->first = run->slots < 1 ? NULL : (const int32_t *)(intptr_t)run->args[0].at;
    return 0;
}

static void release(Program *program) {
    while (program->held > 0) PyBuffer_Release(&program->buffers[--program->held]);
}

/* Run a program, if it can be run; 0, or -1 and an exception. */
static int run_program(Run *run) {
    const char *wrong = rows_check(run);
    size_t taken, floats;
    void *tables, *memory = NULL;
    if (wrong != NULL) {
        PyErr_Format(PyExc_ValueError, "_rows.run: %s", wrong);
        return -1;
    }
    if (run->nodes <= 0) return 0;
    if (run->block <= 0 || run->block > run->nodes) run->block = run->nodes;
    if (run->block > LARGEST_BLOCK) run->block = LARGEST_BLOCK;
    tables = malloc((size_t)run->registers * (sizeof(Place) + sizeof(size_t)) + 1);
    if (tables != NULL) {
        run->places = tables;
        run->sizes = (size_t *)(run->places + run->registers);
        if (rows_scratch(run, &floats) == 0) memory = take(floats * sizeof(float) + 64, &taken);
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

/* Whether all elements of a (k, n) matrix with these strides lie in so many bytes. */
static int is_matrix(Py_ssize_t bytes, Py_ssize_t k, Py_ssize_t n, Py_ssize_t row, Py_ssize_t column) {
    Py_ssize_t down, across, last;
    if (k <= 0 || n <= 0) return k == 0 || n == 0;
    return row >= 0 && column >= 0 && !__builtin_mul_overflow(k - 1, row, &down) &&
           !__builtin_mul_overflow(n - 1, column, &across) && !__builtin_add_overflow(down, across, &last) &&
           last < bytes / (Py_ssize_t)sizeof(float);
}

/* pack(source, bytes, k, n, row stride, column stride, target) */
static PyObject *pack(PyObject *module, PyObject *args) {
    long long source;
    Py_ssize_t bytes, k, n, row, column;
    PyObject *into;
    Py_buffer target;
    size_t floats;
    int fits;
    (void)module;
    if (!PyArg_ParseTuple(args, "LnnnnnO:pack", &source, &bytes, &k, &n, &row, &column, &into)) return NULL;
    if (rows_packed(k, n, kernels->panel, &floats) < 0 || !is_matrix(bytes, k, n, row, column) || source % 4 != 0 ||
        (source == 0 && floats != 0)) {
        PyErr_SetString(PyExc_ValueError, "_rows.pack: source has no such matrix");
        return NULL;
    }
    if (PyObject_GetBuffer(into, &target, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) != 0) return NULL;
    fits = is_table(&target, sizeof(float), sizeof(float)) && floats <= (size_t)target.len / sizeof(float);
    if (fits && floats != 0)
        rows_pack((const float *)(intptr_t)source, k, n, row, column, target.buf, kernels->panel);
    else if (!fits)
        PyErr_SetString(PyExc_ValueError, "_rows.pack: target is float32, of packed_size(k, n) numbers at least");
    PyBuffer_Release(&target);
    if (!fits) return NULL;
    Py_RETURN_NONE;
}

static PyObject *packed_size(PyObject *module, PyObject *args) {
    Py_ssize_t k, n;
    size_t floats;
    (void)module;
    if (!PyArg_ParseTuple(args, "nn:packed_size", &k, &n)) return NULL;
    if (rows_packed(k, n, kernels->panel, &floats) < 0)
        return PyErr_Format(PyExc_ValueError, "_rows.packed_size: there is no matrix of (%zd, %zd)", k, n);
    return PyLong_FromSize_t(floats);
}

static PyObject *features(PyObject *module, PyObject *none) {
    (void)module;
    (void)none;
    return PyUnicode_FromString(kernels->name);
}

static PyObject *use(PyObject *module, PyObject *name) {
    Py_ssize_t length;
    const char *text = PyUnicode_AsUTF8AndSize(name, &length);
    const Kernels *found = text == NULL || strlen(text) != (size_t)length ? NULL : named(text);
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
