/* gluonjit._rows: row programs, run by kernels for the processor at hand. */

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "crew.h"
#include "stretch.h"

#define KEPT ((size_t)64 << 20) /* bytes of scratch that stay for the next run, at most */
#define WHILE 20000000          /* nanoseconds after which a run goes back to Python, which then looks at signals */

static const Kernels *kernels;
static double least = 40000; /* nanoseconds of work that are worth a second thread */

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

static void give_back(void *memory, size_t bytes) {
    if (!memory || bytes > KEPT || spare.bytes >= bytes) {
        free(memory);
        return;
    }
    free(spare.memory);
    spare.memory = memory;
    spare.bytes = bytes;
}

/* Run launches from one on, for a while: the number of the one that comes next. It has not run where something is wrong
   with it. */
static int64_t run_launches(const Stretch *stretch, int64_t number, Room *room, const char **wrong) {
    const int64_t count = stretch_length(stretch), begun = rows_now();
    for (; number < count && rows_now() - begun < WHILE; number++) {
        *wrong = stretch_run(stretch, number, room);
        if (*wrong != NULL) break;
    }
    return number;
}

/* run(programs, launches, args, block, begin[, threads]) -> number of the launch that comes next */
static PyObject *run(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    Stretch stretch = {.kernels = kernels, .least = least};
    Room room = {0};
    const char *wrong = NULL;
    Py_ssize_t begin, end = 0;
    long threads = 1;
    (void)module;
    if (count != 5 && count != 6) {
        PyErr_SetString(PyExc_TypeError, "_rows.run takes programs, launches, args, block, begin and, maybe, threads");
        return NULL;
    }
    begin = PyLong_AsSsize_t(given[4]);
    if (begin < 0) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "_rows.run: begin is no launch");
        return NULL;
    }
    if (count == 6) threads = PyLong_AsLong(given[5]);
    if (threads == -1 && PyErr_Occurred()) return NULL;
    if (stretch_hold(&stretch, given) != 0) {
        stretch_release(&stretch);
        return NULL;
    }
    stretch.threads = crew_take(threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : (int)threads);
    room.scratch = spare.memory;
    room.bytes = spare.bytes;
    spare.memory = NULL;
    spare.bytes = 0;
    Py_BEGIN_ALLOW_THREADS
    end = (Py_ssize_t)run_launches(&stretch, begin, &room, &wrong);
    Py_END_ALLOW_THREADS
    if (stretch.threads > 1) crew_leave();
    give_back(room.scratch, room.bytes);
    free(room.sizes);
    stretch_release(&stretch);
    if (!wrong || end > begin) return PyLong_FromSsize_t(end); /* what is wrong is said at the next call */
    if (wrong == rows_no_memory) return PyErr_NoMemory();
    return PyErr_Format(PyExc_ValueError, "_rows.run: %s", wrong);
}

/* Tells whether all elements of a (k, n) matrix with these strides lie in so many bytes. */
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
    fits = rows_is_table(&target, sizeof(float), sizeof(float)) && floats <= (size_t)target.len / sizeof(float);
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
    const Kernels *found = !text || strlen(text) != (size_t)length ? NULL : named(text);
    (void)module;
    if (!text) return NULL;
    if (found) kernels = found;
    return PyBool_FromLong(found != NULL);
}

static PyObject *worth(PyObject *module, PyObject *nanoseconds) {
    const double before = least, wanted = PyFloat_AsDouble(nanoseconds);
    (void)module;
    if (wanted == -1.0 && PyErr_Occurred()) return NULL;
    if (!(wanted >= 0.0)) return PyErr_Format(PyExc_ValueError, "_rows.worth: no work takes %R nanoseconds", nanoseconds);
    least = wanted;
    return PyFloat_FromDouble(before);
}

static PyMethodDef methods[] = {
    {"run", (PyCFunction)(void (*)(void))run, METH_FASTCALL, "Run row programs, each over the nodes of a step, for a while."},
    {"pack", pack, METH_VARARGS, "Write the right operand of a product in panels."},
    {"packed_size", packed_size, METH_VARARGS, "How many floats the panels of a (k, n) matrix take."},
    {"features", features, METH_NOARGS, "The kernels in use: avx512, avx2 or generic."},
    {"use", use, METH_O, "Use other kernels; False where the processor can't. What was packed has to be packed anew."},
    {"worth", worth, METH_O, "Let launches of so many nanoseconds of work, and longer ones, be shared by threads; what it was."},
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
    for (k = 0; !kernels; k++) kernels = named(best[k]);
    for (k = 0; module && ops && k < OPS; k++) {
        PyObject *number = PyLong_FromLong(k);
        if (!number || PyDict_SetItemString(ops, op_names[k], number) != 0) Py_CLEAR(ops);
        Py_XDECREF(number);
    }
    if (!module || !ops || PyModule_AddObjectRef(module, "OPS", ops) != 0) Py_CLEAR(module);
    Py_XDECREF(ops);
    return module;
}
