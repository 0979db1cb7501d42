/* What a framework's array looks like and holds, by calls of MXNet's C interface whose addresses Python has given. */

#include "fast.h"

typedef int (*GetShape)(void *, int *, const int64_t **);
typedef int (*GetCode)(void *, int *);
typedef int (*GetContext)(void *, int *, int *);
typedef int (*CopyOut)(void *, void *, size_t);

enum { FLOAT32 = 0, FLOAT64 = 1, UINT8 = 3, INT32 = 4, INT8 = 5, INT64 = 6 };

/* The address of an NDArray, or NULL where it has none. */
static void *address_of(PyObject *array) {
    PyObject *handle = SLOT(array, names.array_handle), *value;
    void *address = NULL;
    if (handle == NULL) return NULL;
    value = PyObject_GetAttr(handle, str_value);
    if (value != NULL && PyLong_Check(value)) address = PyLong_AsVoidPtr(value);
    Py_XDECREF(value);
    PyErr_Clear();
    return address;
}

static inline int is_plain(PyObject *array) {
    return Py_TYPE(array) == names.mxnet.plain[0] || Py_TYPE(array) == names.mxnet.plain[1];
}

/* look(array) -> (shape, code of the dtype, code of the device's type, its number), or None where Python has to. */
PyObject *look(PyObject *module, PyObject *array) {
    void *address = names.local != NULL && is_plain(array) ? address_of(array) : NULL;
    int axes, code, device, number, k;
    const int64_t *sizes;
    PyObject *shape;
    if (address == NULL || ((GetShape)names.get_shape)(address, &axes, &sizes) != 0 || axes < 0) Py_RETURN_NONE;
    shape = PyTuple_New(axes);
    for (k = 0; shape != NULL && k < axes; k++) {
        PyObject *size = PyLong_FromLongLong(sizes[k]);
        if (size == NULL)
            Py_CLEAR(shape);
        else
            PyTuple_SET_ITEM(shape, k, size);
    }
    if (shape == NULL) return NULL;
    if (((GetCode)names.get_dtype)(address, &code) != 0 ||
        ((GetContext)names.get_context)(address, &device, &number) != 0) {
        Py_DECREF(shape);
        Py_RETURN_NONE;
    }
    return Py_BuildValue("(Niii)", shape, code, device, number);
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
    for (k = 0; numbers != NULL && k < count; k++) {
        PyObject *number = PyLong_FromLongLong(whole(data, code, k));
        if (number == NULL)
            Py_CLEAR(numbers);
        else
            PyList_SET_ITEM(numbers, k, number);
    }
    return numbers;
}

/* Let the batch and the table know the value of an index array: a write to the array is noticed. */
static int note_index(PyObject *batch, PyObject *table, PyObject *array, PyObject *address, PyObject *value) {
    PyObject *entry = PyTuple_Pack(2, array, value), *place = PyTuple_Pack(2, str_index, address);
    PyObject *imports = dict_at(batch, names.batch_imports), *known = dict_at(table, names.table_known);
    int failed = entry == NULL || place == NULL || imports == NULL || known == NULL ||
                 PyDict_SetItem(imports, place, entry) < 0 || PyDict_SetItem(known, address, entry) < 0;
    Py_XDECREF(entry);
    Py_XDECREF(place);
    return failed ? -1 : 0;
}

/* The value of a look-up that was not made before in this batch. */
static PyObject *look_up(PyObject *batch, PyObject *table, PyObject *array, PyObject *key) {
    PyObject *graph = SLOT(batch, names.batch_graph), *entries = NULL, *tables, *numbers = NULL, *value = NULL;
    void *address = address_of(array);
    const int64_t *sizes;
    Py_ssize_t count, size;
    int axes, code, failed;
    int64_t here[64];
    char *data = (char *)here;
    if (address == NULL || graph == NULL || Py_TYPE(graph) != names.graph_type) return NULL;
    tables = dict_at(graph, offsetof(GraphRows, lookups));
    size = number_at(table, names.table_size);
    if (tables != NULL && !PyErr_Occurred()) entries = PyDict_GetItemWithError(tables, table);
    if (entries == NULL || !PyDict_CheckExact(entries)) return NULL;
    if (((GetShape)names.get_shape)(address, &axes, &sizes) != 0 || axes != 1 || sizes[0] < 1) return NULL;
    count = (Py_ssize_t)sizes[0];
    if (((GetCode)names.get_dtype)(address, &code) != 0 || size_of(code) == 0) return NULL;
    if (count * size_of(code) > (Py_ssize_t)sizeof(here)) {
        data = PyMem_Malloc((size_t)(count * size_of(code)));
        if (data == NULL) return PyErr_NoMemory();
    }
    Py_INCREF(entries);
    Py_INCREF(graph);
    Py_BEGIN_ALLOW_THREADS /* it waits until the array is computed */
    failed = ((CopyOut)names.copy_out)(address, data, (size_t)count);
    Py_END_ALLOW_THREADS
    if (!failed) numbers = listed(data, code, count);
    if (numbers != NULL) /* of a number that the table has not, Python says what is wrong */
        value = entries_at(graph, entries, numbers, size, SLOT(table, names.table_row),
                           SLOT(table, names.table_taped) == Py_True);
    Py_XDECREF(numbers);
    if (value == Py_None) Py_CLEAR(value);
    if (value != NULL && note_index(batch, table, array, key, value) < 0) Py_CLEAR(value);
    Py_DECREF(entries);
    Py_DECREF(graph);
    if (data != (char *)here) PyMem_Free(data);
    return value;
}

PyObject *quick_lookup(PyObject *state, PyObject *cell, PyObject *array) {
    PyObject *batch = SLOT(state, names.state_batch), *place, *table, *tables, *key, *known, *value, *result = NULL;
    int taped = numbers_of(state)->mode >= 2, k;
    if (PyErr_Occurred() || batch == NULL || Py_TYPE(batch) != names.batch_type || !has_room(batch)) return NULL;
    for (k = 0; k < 2; k++)
        if (Py_TYPE(array) == names.mxnet.lazy[k]) {
            if (SLOT(array, names.mxnet.lazy_b[k]) != Py_None) return NULL; /* a view, which may be another by now */
            array = SLOT(array, names.mxnet.lazy_c[k]);
            break;
        }
    if (array == NULL || !is_plain(array)) return NULL;
    tables = dict_at(batch, names.batch_tables);
    place = tables == NULL ? NULL : PyTuple_Pack(2, cell, taped ? Py_True : Py_False);
    if (place == NULL) return NULL;
    table = PyDict_GetItemWithError(tables, place);
    Py_DECREF(place);
    if (table == NULL || Py_TYPE(table) != names.table_type) return NULL;
    key = PyLong_FromVoidPtr(array);
    if (key == NULL) return NULL;
    Py_INCREF(array);
    Py_INCREF(table);
    Py_INCREF(batch);
    known = dict_at(table, names.table_known);
    if (known != NULL) known = PyDict_GetItemWithError(known, key);
    if (known != NULL && PyTuple_CheckExact(known) && PyTuple_GET_SIZE(known) == 2 &&
        Py_TYPE(PyTuple_GET_ITEM(known, 1)) == core.value_type)
        value = Py_NewRef(PyTuple_GET_ITEM(known, 1));
    else if (known != NULL)
        value = no_such_slot(known, core.value_type);
    else
        value = PyErr_Occurred() ? NULL : look_up(batch, table, array, key);
    if (value != NULL) {
        result = wrap(&names.mxnet, Py_TYPE(array) == names.mxnet.plain[1], value);
        Py_DECREF(value);
    }
    Py_DECREF(key);
    Py_DECREF(array);
    Py_DECREF(table);
    Py_DECREF(batch);
    return result;
}
