/* Rows of a lazy array of the open batch: the quick part of `__getitem__` of LazyArray,
   LazyNumpy and LazyTensor. */

#include "fast.h"

/* Tells whether a slice made now has the history of a value: a value that is taped has one while gradients are
   recorded. -1 and an exception. */
static int has_history(const Framework *of, PyObject *state, Value *value) {
    if (of == &names.torch) {
        if (!is_running(state)) return 0;
        return value->taped ? is_learning() : 1;
    }
    return !value->taped || numbers_of(state)->mode >= 2;
}

int note_view(const Framework *of, int interface, PyObject *view, PyObject *array, PyObject *key) {
    PyObject *base = SLOT(array, of->lazy_b[interface]), *before = SLOT(array, of->lazy_k[interface]);
    if (base == Py_None) {
        base = Py_NewRef(array);
        Py_INCREF(key);
        if (of == &names.mxnet && before != Py_True) set_slot(array, of->lazy_k[interface], Py_NewRef(Py_True));
    } else {
        if (!base || !before || (Py_TYPE(base) != of->lazy[0] && Py_TYPE(base) != of->lazy[1])) {
            no_such_slot(base, of->lazy[interface]);
            return -1;
        }
        Py_INCREF(base);
        key = PyTuple_Pack(2, before, key);
        if (!key) {
            Py_DECREF(base);
            return -1;
        }
    }
    set_slot(view, of->lazy_k[interface], key);
    if (of == &names.torch) set_slot(view, of->lazy_n, Py_XNewRef(SLOT(base, of->lazy_n)));
    set_slot(view, of->lazy_b[interface], base);
    return 0;
}

/* The numbers that a tensor holds, a list: NULL without an exception where Python has to look. */
static PyObject *numbers_in(PyObject *tensor) {
    PyObject *found;
    Py_INCREF(tensor);
    found = PyObject_CallMethodNoArgs(tensor, str_tolist);
    Py_DECREF(tensor);
    if (found && !PyList_CheckExact(found)) Py_CLEAR(found);
    return found;
}

/* Tells whether an attribute of a tensor is this. */
static int has(PyObject *tensor, PyObject *name, PyObject *wanted) {
    PyObject *found = PyObject_GetAttr(tensor, name);
    Py_XDECREF(found);
    return found == wanted;
}

PyObject *known_numbers(PyObject *key) {
    PyObject *tensor, *found = NULL;
    Spec *spec = spec_of(value_in(key, &names.torch, 0));
    if (Py_TYPE(key) == names.torch.plain[0]) {
        if (has(key, str_dtype, names.int64) && has(key, str_is_cpu, Py_True)) found = numbers_in(key);
        PyErr_Clear(); /* what functorch wraps holds none: Python sees to it */
        return found;
    }
    if (!spec || is_stale(key)) return NULL;
    tensor = SLOT(key, names.torch.lazy_c[0]);
    if (!tensor || Py_TYPE(tensor) != names.torch.plain[0]) return NULL;
    if (!spec->shape || !PyTuple_Check(spec->shape) || PyTuple_GET_SIZE(spec->shape) != 1) return NULL;
    return is_text(spec->dtype, "int64") && is_text(spec->device, "cpu") ? numbers_in(tensor) : NULL;
}

/* Picks rows at known numbers, inside of a sample: a copy, and no view. */
static PyObject *rows_of(const Framework *of, PyObject *state, PyObject *value, PyObject *key) {
    PyObject *numbers, *found, *result;
    if (of != &names.torch || numbers_of(state)->inside == 0) return NULL;
    numbers = known_numbers(key);
    if (!numbers) return NULL;
    found = rows_at(value, numbers);
    Py_DECREF(numbers);
    result = !found || found == Py_None ? NULL : tensor_of(found);
    Py_XDECREF(found);
    return result;
}

PyObject *slice_of(const Framework *of, int interface, PyObject *array, PyObject *key) {
    PyObject *state, *batch, *found = NULL, *result = NULL;
    Value *value;
    value = value_in(array, of, interface);
    if (!value || (of == &names.torch && is_stale(array))) return NULL;
    state = state_here();
    if (!state) return NULL;
    Py_INCREF(value);
    batch = SLOT(state, names.state_batch);
    if (batch && Py_TYPE(batch) == names.batch_type && value->graph == SLOT(batch, names.batch_graph) &&
        Py_TYPE(value->graph) == names.graph_type && has_history(of, state, value) > 0 &&
        Py_TYPE(value->graph) == names.graph_type && Py_TYPE(value->spec) == names.spec_type) {
        found = rows_by((PyObject *)value, key);
        if (found == Py_None) result = rows_of(of, state, (PyObject *)value, key);
    }
    if (found && found != Py_None) {
        result = wrap(of, interface, found);
        if (result && note_view(of, interface, result, array, key) < 0) Py_CLEAR(result);
    }
    Py_XDECREF(found);
    Py_DECREF(value);
    Py_DECREF(state);
    return result;
}

/* lazy[key]: rows, or by other constants a node. */
static PyObject *item(PyObject *lazy, PyObject *key) {
    PyObject *args[2] = {lazy, key}, *result = NULL;
    if (names.local && Py_TYPE(lazy) == names.torch.lazy[0]) {
        result = slice_of(&names.torch, 0, lazy, key);
        if (!result && !PyErr_Occurred() && !is_overridden()) /* by what has to see the call first */
            result = through(names.getitem, args, 2, NULL);
        if (result || PyErr_Occurred()) return result;
    }
    if (!names.item) return PyErr_Format(PyExc_TypeError, "%.100s has no items", Py_TYPE(lazy)->tp_name);
    return PyObject_Vectorcall(names.item, args, 2, NULL);
}

static PyMappingMethods items = {.mp_subscript = item};

/* A base of lazy tensors: an `__getitem__` of Python's would make them sequences to C. */
PyTypeObject ItemsType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "gluonjit._fast.Items",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_doc = "The items of lazy tensors.",
    .tp_as_mapping = &items,
};
