/* Rows of a lazy array of the open batch: the quick part of `__getitem__` of LazyArray,
   LazyNumpy and LazyTensor. */

#include "fast.h"

/* The spec of `count` rows of a spec, or where `count` is -1 of one row by itself: a new reference. */
static PyObject *spec_with(PyObject *spec, Py_ssize_t count) {
    PyObject *made = dict_at(spec, names.spec_of_rows), *number = made == NULL ? NULL : PyLong_FromSsize_t(count), *found;
    if (number == NULL) return NULL;
    found = PyDict_GetItemWithError(made, number);
    if (found != NULL)
        Py_INCREF(found);
    else if (!PyErr_Occurred())
        found = count < 0 ? PyObject_CallMethod(spec, "one_row", NULL)
                          : PyObject_CallMethod(spec, "with_rows", "O", number);
    Py_DECREF(number);
    return found;
}

/* The number of a value's row, or -1 and an exception. */
static Py_ssize_t row_at(PyObject *rows, Py_ssize_t index) {
    Py_ssize_t first;
    if (PyTuple_CheckExact(rows)) {
        if (index >= PyTuple_GET_SIZE(rows)) {
            PyErr_SetString(PyExc_SystemError, "a value has fewer rows than its spec says");
            return -1;
        }
        rows = PyTuple_GET_ITEM(rows, index);
        index = 0;
    }
    if (!PyLong_Check(rows)) {
        no_such_slot(rows, &PyLong_Type);
        return -1;
    }
    first = PyLong_AsSsize_t(rows);
    return first < 0 || __builtin_add_overflow(first, index, &first) ? -1 : first;
}

/* One row of a value: of inputs equal ones are the same value. `whole` for `x[i]`, which has one axis less. */
static PyObject *single(Value *value, Py_ssize_t index, int whole) {
    PyObject *singles = NULL, *place = NULL, *found = NULL, *spec;
    Py_ssize_t row = row_at(value->rows, index);
    if (row < 0) return NULL;
    if (!value->depth) { /* a node's result: who holds a slice of it keeps it alive, a cache must not */
        singles = dict_at(value->graph, names.graph_single_rows);
        place = singles == NULL ? NULL : PyLong_FromSsize_t(whole ? ~row : row);
        if (place == NULL) return NULL;
        found = PyDict_GetItemWithError(singles, place);
        if (found != NULL || PyErr_Occurred()) {
            Py_DECREF(place);
            return found == NULL || Py_TYPE(found) == core.value_type ? Py_XNewRef(found) : no_such_slot(found, core.value_type);
        }
        Py_INCREF(singles);
    }
    spec = spec_with(value->spec, whole ? -1 : 1);
    if (spec != NULL) {
        found = value_new(PyLong_FromSsize_t(row), value->depth, spec, value->graph, value->taped, (PyObject *)value);
        Py_DECREF(spec);
        if (found != NULL && singles != NULL && PyDict_SetItem(singles, place, found) < 0) Py_CLEAR(found);
    }
    Py_XDECREF(place);
    Py_XDECREF(singles);
    return found;
}

static PyObject *several(Value *value, Py_ssize_t begin, Py_ssize_t end) {
    PyObject *rows, *spec, *found;
    if (PyTuple_CheckExact(value->rows)) {
        if (end > PyTuple_GET_SIZE(value->rows)) {
            PyErr_SetString(PyExc_SystemError, "a value has fewer rows than its spec says");
            return NULL;
        }
        rows = PyTuple_GetSlice(value->rows, begin, end);
    } else {
        Py_ssize_t row = row_at(value->rows, begin);
        rows = row < 0 ? NULL : PyLong_FromSsize_t(row);
    }
    if (rows == NULL) return NULL;
    spec = spec_with(value->spec, end - begin);
    if (spec == NULL) {
        Py_DECREF(rows);
        return NULL;
    }
    found = value_new(rows, value->depth, spec, value->graph, value->taped, (PyObject *)value);
    Py_DECREF(spec);
    return found;
}

/* Whether what is sliced now has the history of a value: a value that is taped has one while gradients are recorded.
   -1 and an exception. */
static int has_history(const Framework *of, PyObject *state, Value *value) {
    if (of == &names.torch) {
        if (!is_running(state)) return 0;
        return value->taped ? is_learning() : 1;
    }
    return !value->taped || numbers_of(state)->mode >= 2;
}

/* Remember what an array is a view of: a whole array and a key of it, or of a view those of that and the key. */
static int note_view(const Framework *of, int interface, PyObject *view, PyObject *array, PyObject *key) {
    PyObject *base = SLOT(array, of->lazy_b[interface]), *before = SLOT(array, of->lazy_k[interface]);
    if (base == Py_None) {
        base = Py_NewRef(array);
        Py_INCREF(key);
        if (of == &names.mxnet && before != Py_True) set_slot(array, of->lazy_k[interface], Py_NewRef(Py_True));
    } else {
        if (base == NULL || before == NULL || (Py_TYPE(base) != of->lazy[0] && Py_TYPE(base) != of->lazy[1])) {
            no_such_slot(base, of->lazy[interface]);
            return -1;
        }
        Py_INCREF(base);
        key = PyTuple_Pack(2, before, key);
        if (key == NULL) {
            Py_DECREF(base);
            return -1;
        }
    }
    set_slot(view, of->lazy_k[interface], key);
    if (of == &names.torch) set_slot(view, of->lazy_n, Py_XNewRef(SLOT(base, of->lazy_n)));
    set_slot(view, of->lazy_b[interface], base);
    return 0;
}

/* Rows of a value by a slice or a number: NULL without an exception where Python has to see to it. */
static PyObject *rows_by(Value *value, PyObject *key) {
    PyObject *spec = value->spec, *shape = held_at(spec, names.spec_row_shape, &PyTuple_Type);
    PyObject *mode = held_at(spec, names.spec_mode, &PyUnicode_Type);
    Py_ssize_t count = number_at(spec, names.spec_rows), begin, end;
    if (shape == NULL || mode == NULL || PyErr_Occurred() || PyUnicode_Compare(mode, str_rows_mode) != 0) return NULL;
    if (PySlice_Check(key)) {
        PySliceObject *slice = (PySliceObject *)key;
        if (!PyLong_CheckExact(slice->start) || !PyLong_CheckExact(slice->stop) || slice->step != Py_None) return NULL;
        begin = PyLong_AsSsize_t(slice->start);
        end = PyLong_AsSsize_t(slice->stop);
    } else if (PyLong_CheckExact(key)) {
        begin = PyLong_AsSsize_t(key);
        if (begin < 0) begin += count;
        end = begin;
    } else {
        return NULL;
    }
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return NULL;
    }
    if (PySlice_Check(key)) {
        if (begin < 0 || begin >= end || end > count) return NULL;
        return end - begin == 1 ? single(value, begin, 0) : several(value, begin, end);
    }
    return begin < 0 || begin >= count || PyTuple_GET_SIZE(shape) == 0 ? NULL : single(value, begin, 1);
}

PyObject *slice_of(const Framework *of, int interface, PyObject *array, PyObject *key) {
    PyObject *state, *batch, *found = NULL, *result = NULL;
    Value *value;
    if (Py_TYPE(array) != of->lazy[interface] || (of == &names.torch && is_stale(array))) return NULL;
    value = (Value *)SLOT(array, of->lazy_v[interface]);
    if (value == NULL || Py_TYPE(value) != core.value_type) return NULL;
    state = state_here();
    if (state == NULL) return NULL;
    Py_INCREF(value);
    batch = SLOT(state, names.state_batch);
    if (batch != NULL && Py_TYPE(batch) == names.batch_type && value->graph == SLOT(batch, names.batch_graph) &&
        Py_TYPE(value->graph) == names.graph_type && has_history(of, state, value) > 0 &&
        Py_TYPE(value->graph) == names.graph_type && Py_TYPE(value->spec) == names.spec_type)
        found = rows_by(value, key);
    if (found != NULL) result = wrap(of, interface, found);
    if (result != NULL && note_view(of, interface, result, array, key) < 0) Py_CLEAR(result);
    Py_XDECREF(found);
    Py_DECREF(value);
    Py_DECREF(state);
    return result;
}
