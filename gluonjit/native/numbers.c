/* What the analysis reads off captured nodes, as arrays of 64-bit integers. */

#include "fast.h"

/* A writable buffer with room for so many numbers: 0, or -1 and an exception. */
static int room_for(PyObject *array, Py_buffer *view, Py_ssize_t count) {
    if (PyObject_GetBuffer(array, view, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) < 0) return -1;
    if (view->len % (Py_ssize_t)sizeof(int64_t) || view->len / (Py_ssize_t)sizeof(int64_t) != count ||
        (uintptr_t)view->buf % sizeof(int64_t)) {
        PyBuffer_Release(view);
        PyErr_SetString(PyExc_ValueError, "the array has not the size of what goes into it");
        return -1;
    }
    return 0;
}

/* How many numbers there are in tuples of a width: 1, or 0 and an exception. */
static int numbers_in(PyObject *tuples, Py_ssize_t width, Py_ssize_t *count) {
    if (width >= 0 && !__builtin_mul_overflow(PyList_GET_SIZE(tuples), width, count)) return 1;
    PyErr_Format(PyExc_ValueError, "there are no tuples of %zd items", width);
    return 0;
}

/* references(tuples, width, array): for each item of these tuples, `width` in each, how many references there are. */
PyObject *references(PyObject *module, PyObject *args) {
    PyObject *tuples, *array;
    Py_ssize_t width, count, k, item;
    Py_buffer view;
    int64_t *into;
    if (!PyArg_ParseTuple(args, "O!nO", &PyList_Type, &tuples, &width, &array)) return NULL;
    if (!numbers_in(tuples, width, &count) || room_for(array, &view, count) < 0) return NULL;
    into = view.buf;
    for (k = 0; k < PyList_GET_SIZE(tuples); k++) {
        PyObject *tuple = PyList_GET_ITEM(tuples, k);
        count -= width; /* to ask for the array may have run a program, which has appended */
        if (!PyTuple_CheckExact(tuple) || PyTuple_GET_SIZE(tuple) != width || count < 0) {
            PyBuffer_Release(&view);
            PyErr_SetString(PyExc_TypeError, "references() takes tuples of one width");
            return NULL;
        }
        for (item = 0; item < width; item++) *into++ = (int64_t)Py_REFCNT(PyTuple_GET_ITEM(tuple, item));
    }
    PyBuffer_Release(&view);
    Py_RETURN_NONE;
}

/* integers(tuples, width, array): the whole numbers in these tuples; False where one of them is something else. */
PyObject *integers(PyObject *module, PyObject *args) {
    PyObject *tuples, *array;
    Py_ssize_t width, count, k, item;
    Py_buffer view;
    int64_t *into;
    int whole = 1;
    if (!PyArg_ParseTuple(args, "O!nO", &PyList_Type, &tuples, &width, &array)) return NULL;
    if (!numbers_in(tuples, width, &count) || room_for(array, &view, count) < 0) return NULL;
    into = view.buf;
    for (k = 0; whole && k < PyList_GET_SIZE(tuples); k++) {
        PyObject *tuple = PyList_GET_ITEM(tuples, k);
        count -= width; /* as above */
        whole = PyTuple_CheckExact(tuple) && PyTuple_GET_SIZE(tuple) == width && count >= 0;
        for (item = 0; whole && item < width; item++) {
            PyObject *number = PyTuple_GET_ITEM(tuple, item);
            whole = PyLong_CheckExact(number);
            if (whole) *into++ = (int64_t)PyLong_AsLongLong(number);
        }
    }
    PyBuffer_Release(&view);
    if (PyErr_Occurred()) return NULL;
    return PyBool_FromLong(whole);
}
