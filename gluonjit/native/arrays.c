/* Shapes, types and contents of a framework's arrays, by MXNet's C interface, whose addresses Python has given. */

#include "fast.h"

typedef int (*GetShape)(void *, int *, const int64_t **);
typedef int (*GetCode)(void *, int *);
typedef int (*GetContext)(void *, int *, int *);
typedef int (*CopyOut)(void *, void *, size_t);
typedef int (*Wait)(void *);
typedef int (*GetData)(void *, void **);

enum { FLOAT32 = 0, FLOAT64 = 1, UINT8 = 3, INT32 = 4, INT8 = 5, INT64 = 6 };

/* The address of an NDArray, or NULL where it has none. */
static void *address_of(PyObject *array) {
    PyObject *handle = SLOT(array, names.array_handle), *value;
    void *address = NULL;
    if (!handle) return NULL;
    value = PyObject_GetAttr(handle, str_value);
    if (value && PyLong_Check(value)) address = PyLong_AsVoidPtr(value);
    Py_XDECREF(value);
    PyErr_Clear();
    return address;
}

static inline int is_plain(PyObject *array) {
    return Py_TYPE(array) == names.mxnet.plain[0] || Py_TYPE(array) == names.mxnet.plain[1];
}

/* look(array) -> (shape, code of the dtype, code of the device's type, its number), or None where Python has to. */
PyObject *look(PyObject *module, PyObject *array) {
    void *address = names.local && is_plain(array) ? address_of(array) : NULL;
    int axes, code, device, number, k;
    const int64_t *sizes;
    PyObject *shape;
    if (!address || ((GetShape)names.get_shape)(address, &axes, &sizes) != 0 || axes < 0) Py_RETURN_NONE;
    shape = PyTuple_New(axes);
    for (k = 0; shape && k < axes; k++) {
        PyObject *size = PyLong_FromLongLong(sizes[k]);
        if (!size)
            Py_CLEAR(shape);
        else
            PyTuple_SET_ITEM(shape, k, size);
    }
    if (!shape) return NULL;
    if (((GetCode)names.get_dtype)(address, &code) != 0 ||
        ((GetContext)names.get_context)(address, &device, &number) != 0) {
        Py_DECREF(shape);
        Py_RETURN_NONE;
    }
    return Py_BuildValue("(Niii)", shape, code, device, number);
}

/* address(array) -> that of its numbers, when it is computed; None where Python has to ask, and -1 where MXNet says
   what is wrong: it does so once. */
PyObject *address(PyObject *module, PyObject *array) {
    void *handle = names.local && names.mxnet.cell_type && is_plain(array) ? address_of(array) : NULL;
    void *data = NULL;
    int failed;
    if (!handle) Py_RETURN_NONE;
    Py_INCREF(array);
    Py_BEGIN_ALLOW_THREADS
    failed = ((Wait)names.wait)(handle) != 0 || ((GetData)names.get_data)(handle, &data) != 0;
    Py_END_ALLOW_THREADS
    Py_DECREF(array);
    if (failed) return PyLong_FromLong(-1);
    if (!data) Py_RETURN_NONE;
    return PyLong_FromVoidPtr(data);
}

static int size_of(int code) {
    switch (code) {
        case INT8:
        case UINT8: return 1;
        case FLOAT32:
        case INT32: return 4;
        case FLOAT64:
        case INT64: return 8;
        default: return 0;
    }
}

/* A number of an index array as Python takes it, cut to a whole one; -1 where it is none that a table has. */
static long long whole(const char *data, int code, Py_ssize_t k) {
    double found;
    switch (code) {
        case INT8: return ((const int8_t *)data)[k];
        case UINT8: return ((const uint8_t *)data)[k];
        case INT32: return ((const int32_t *)data)[k];
        case INT64: return ((const int64_t *)data)[k];
        case FLOAT32: found = ((const float *)data)[k]; break;
        default: found = ((const double *)data)[k];
    }
    return found > -1.0 && found < 9e15 ? (long long)found : -1;
}

/* The numbers of an index array, a list. */
static PyObject *listed(const char *data, int code, Py_ssize_t count) {
    PyObject *numbers = PyList_New(count);
    Py_ssize_t k;
    for (k = 0; numbers && k < count; k++) {
        PyObject *number = PyLong_FromLongLong(whole(data, code, k));
        if (!number)
            Py_CLEAR(numbers);
        else
            PyList_SET_ITEM(numbers, k, number);
    }
    return numbers;
}

/* numbers(array) -> the whole numbers of an array of one axis, a list, or None where Python has to look. */
PyObject *whole_numbers(PyObject *module, PyObject *array) {
    void *address = names.local && names.mxnet.cell_type && is_plain(array) ? address_of(array) : NULL;
    PyObject *numbers = NULL;
    const int64_t *sizes;
    Py_ssize_t count;
    int axes, code, failed;
    int64_t here[64];
    char *data = (char *)here;
    if (!address || ((GetShape)names.get_shape)(address, &axes, &sizes) != 0 || axes != 1) Py_RETURN_NONE;
    count = (Py_ssize_t)sizes[0];
    if (count < 1 || ((GetCode)names.get_dtype)(address, &code) != 0 || size_of(code) == 0) Py_RETURN_NONE;
    if (count * size_of(code) > (Py_ssize_t)sizeof(here)) {
        data = PyMem_Malloc((size_t)(count * size_of(code)));
        if (!data) return PyErr_NoMemory();
    }
    Py_INCREF(array);
    Py_BEGIN_ALLOW_THREADS /* it waits until the array is computed */
    failed = ((CopyOut)names.copy_out)(address, data, (size_t)count);
    Py_END_ALLOW_THREADS
    Py_DECREF(array);
    numbers = failed ? Py_NewRef(Py_None) : listed(data, code, count);
    if (data != (char *)here) PyMem_Free(data);
    return numbers;
}
