/* Operators of MXNet outside of cells: gluonjit.engines.mxnet.calls.invoke, for calls like those that
   gluonjit.engines.mxnet.ops has captured as nodes before. */

#include "fast.h"

static const char OPERATOR;        /* in the place of a cell */
enum { RECORDING = 2 }; /* of modes, as in graph/modes.py */
static const char TEXT, PARAMETER; /* before the length and the letters of a string, the address of a parameter */

/* Append a string, equal ones of which are found by their letters, where there are few. */
static int append_text(Call *call, PyObject *text) {
    Py_ssize_t length = PyUnicode_GET_LENGTH(text), k;
    const char *letters;
    if (!PyUnicode_IS_ASCII(text) || call->count + 4 + length / 4 > MOST) return 0;
    letters = (const char *)PyUnicode_1BYTE_DATA(text);
    if (!append_bits(call, &TEXT, (uint64_t)length)) return 0;
    for (k = 0; k < length; k += 8) {
        uint64_t bits = 0;
        memcpy(&bits, letters + k, (size_t)(length - k < 8 ? length - k : 8));
        append_bits(call, &TEXT, bits);
    }
    return 1;
}

/* Append the name of an attribute, or what it is: 1, or 0 where Python has to look. */
static int append_attribute(Call *call, PyObject *part) {
    Py_ssize_t k;
    if (call->count + 3 > MOST) return 0;
    if (part == Py_None || PyBool_Check(part)) {
        call->parts[call->count++] = part;
        return 1;
    }
    if (PyUnicode_CheckExact(part)) {
        if (!PyUnicode_CHECK_INTERNED(part)) return append_text(call, part);
        call_hold(call, part);
        return 1;
    }
    if (!PyTuple_CheckExact(part)) return append_number(call, part);
    call->parts[call->count++] = &PyTuple_Type;
    call->parts[call->count++] = (void *)(16 * (size_t)PyTuple_GET_SIZE(part));
    for (k = 0; k < PyTuple_GET_SIZE(part); k++)
        if (!append_attribute(call, PyTuple_GET_ITEM(part, k))) return 0;
    return 1;
}

/* Append an operand: a lazy array of this graph, or a parameter that the batch knows. `waits` is set for one that has
   to be captured. 1, 0 where Python has to look, or -1 and an exception. */
static int append_operand(Call *call, PyObject *array, int *waits) {
    int interface = Py_TYPE(array) == names.mxnet.lazy[0] ? 0 : Py_TYPE(array) == names.mxnet.lazy[1] ? 1 : -1;
    if (call->count + 2 > MOST) return 0;
    if (interface >= 0) {
        if (SLOT(array, names.mxnet.lazy_c[interface]) == Py_None) *waits = 1;
        return call_take(call, array, SLOT(array, names.mxnet.lazy_v[interface]), NULL);
    }
    if (!by_address(dict_at(call->batch, names.batch_parameters), array)) return PyErr_Occurred() ? -1 : 0;
    return append_bits(call, &PARAMETER, (uint64_t)(size_t)array);
}

/* Look at what an operator is called with: its handle, arrays, and names and values of attributes. */
static int look_at(Call *call, PyObject *state, PyObject *const *args, int *waits) {
    Py_ssize_t k;
    int taken = call_begin(call, state);
    if (taken <= 0 || !PyLong_CheckExact(args[0])) return taken < 0 ? -1 : 0;
    for (k = 1; k < 4; k++)
        if (!PyList_CheckExact(args[k])) return 0;
    if (!append_number(call, args[0])) return 0;
    call->parts[call->count++] = (void *)(16 * (size_t)PyList_GET_SIZE(args[2]));
    for (k = 0; k < PyList_GET_SIZE(args[2]); k++)
        if (!append_attribute(call, PyList_GET_ITEM(args[2], k))) return 0;
    for (k = 0; k < PyList_GET_SIZE(args[3]); k++)
        if (!append_attribute(call, PyList_GET_ITEM(args[3], k))) return 0;
    for (k = 0; k < PyList_GET_SIZE(args[1]) && taken > 0; k++)
        taken = append_operand(call, PyList_GET_ITEM(args[1], k), waits);
    return taken > 0 && call->arguments == 0 ? 0 : taken;
}

/* Makes what an operator returns whose results are a node's. */
static PyObject *returned(PyObject *record, Py_ssize_t node, int numpy, int listed) {
    if (((Record *)record)->results == 1 && !listed) return wrapped(&names.mxnet, numpy, record, node, 0);
    return wrapped_all(&names.mxnet, numpy, record, node, 1);
}

/* Tells whether a reference to an operand needs no node: under recording, or if nothing goes back to it. */
static int may_refer(const Call *call, PyObject *state) {
    int k;
    if (numbers_of(state)->mode >= RECORDING) return 1;
    for (k = 0; k < call->arguments; k++) {
        PyObject *base = call->values[k]->base;
        if (call->values[k]->taped || (base && PyObject_TypeCheck(base, names.mxnet.plain[0]))) return 0;
    }
    return 1;
}

/* The result of an operator that need not run: whole rows, one operand's after the other's, or those of one as they
   look then. `way` is the mode of the operands, or how the result looks. */
static PyObject *referred(Call *call, PyObject *state, PyObject *way, int numpy, int listed) {
    PyObject *values = NULL, *found, *array = NULL, *results;
    int k;
    if (!may_refer(call, state) || call->arguments == 0) return NULL;
    if (PyUnicode_Check(way)) {
        values = PyList_New(call->arguments);
        for (k = 0; values && k < call->arguments; k++)
            PyList_SET_ITEM(values, k, Py_NewRef((PyObject *)call->values[k]));
        found = !values ? NULL : joined_rows(values, way);
        Py_XDECREF(values);
    } else {
        found = rows_seen_as((PyObject *)call->values[0], way);
    }
    if (found && Py_TYPE(found) == core.value_type) array = wrap(&names.mxnet, numpy, found);
    Py_XDECREF(found);
    if (!array || !listed) return array;
    results = PyList_New(1);
    if (!results)
        Py_DECREF(array);
    else
        PyList_SET_ITEM(results, 0, array);
    return results;
}

/* Captures a call as a node of the record of equal ones, if arrays are pending or a sample is being captured. */
static PyObject *captured(Call *call, PyObject *state, PyObject *const *args) {
    int waits = 0, sharing;
    Entry *entry;
    PyObject *record, *result = NULL;
    Py_ssize_t node;
    if (look_at(call, state, args, &waits) <= 0) return NULL;
    if (PyErr_Occurred() || (!waits && numbers_of(state)->inside <= 0)) return NULL;
    entry = signatures_find(call->signatures, call->parts, call->count, hash_parts(call->parts, call->count));
    if (!entry) return NULL;
    if (!entry->record) {
        PyObject *way = Py_NewRef(entry->structure);
        result = referred(call, state, way, args[5] == Py_True, args[6] == Py_True);
        Py_DECREF(way);
        return result;
    }
    sharing = entry->pure && ((BatchRoom *)call->batch)->sharing;
    record = Py_NewRef(entry->record);
    node = core.node_of(call->batch, call->graph, record, (PyObject **)call->values, call->arguments, sharing);
    if (node >= 0) result = returned(record, node, args[5] == Py_True, args[6] == Py_True);
    Py_DECREF(record);
    return result;
}

/* _imperative_invoke(handle, arrays, keys, vals, out, is_np, as_list) */
PyObject *quick_operator(PyObject *const *args, Py_ssize_t count) {
    PyObject *state, *result = NULL;
    Call call;
    if (count != 7 || args[4] != Py_None || !PyBool_Check(args[5]) || !PyBool_Check(args[6])) return NULL;
    if (!names.mxnet.cell_type) return NULL;
    state = state_here();
    if (!state) return NULL;
    if (is_running(state) && call_open(&call, &names.mxnet, state, &OPERATOR)) {
        result = captured(&call, state, args);
        call_close(&call);
    }
    Py_DECREF(state);
    return result;
}

/* keep_operator(handle, arrays, keys, vals, record): equal calls are nodes of this record; or references, where a mode
   or a Spec is given in its place (see referred). */
PyObject *keep_operator(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    PyObject *state, *key;
    Call call;
    int waits, is_node = count == 5 && Py_TYPE(args[4]) == core.record_type;
    if (count != 5 || !(is_node || PyUnicode_CheckExact(args[4]) || Py_TYPE(args[4]) == names.spec_type) || !names.local || !names.mxnet.cell_type)
        return PyErr_Format(PyExc_TypeError, "keep_operator() takes what an operator was called with, and a Record, a mode or a Spec");
    state = state_here();
    if (!state) return NULL;
    if (call_open(&call, &names.mxnet, state, &OPERATOR)) {
        if (look_at(&call, state, args, &waits) > 0) {
            Py_hash_t hash = hash_parts(call.parts, call.count);
            int known = signatures_find(call.signatures, call.parts, call.count, hash) != NULL;
            key = known ? NULL : tuple_from(call.held, call.holds); /* keeps alive what its parts point to */
            if (key) {
                Entry *entry = signatures_add(call.signatures, is_node ? args[4] : NULL, key, call.parts, call.count, hash);
                if (entry && !is_node) entry->structure = Py_NewRef(args[4]);
            }
            Py_XDECREF(key);
        }
        call_close(&call);
    }
    Py_DECREF(state);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* Whether arrays are of one interface, with nothing else to be said: None, or NULL where Python has to look. */
static PyObject *verified(PyObject *const *args, Py_ssize_t count, int numpy) {
    Py_ssize_t k;
    if (count != 4 || args[3] != Py_None || !PyList_CheckExact(args[2]) || !names.mxnet.cell_type) return NULL;
    for (k = 0; k < PyList_GET_SIZE(args[2]); k++) {
        PyObject *array = PyList_GET_ITEM(args[2], k);
        if (numpy ? !PyObject_TypeCheck(array, names.mxnet.plain[1])
                  : Py_TYPE(array) != names.mxnet.plain[0] && Py_TYPE(array) != names.mxnet.lazy[0])
            return NULL;
    }
    Py_RETURN_NONE;
}

/* _verify_all_legacy_ndarrays(op_name, func_name, arrays, out) */
PyObject *quick_verify(PyObject *const *args, Py_ssize_t count) { return verified(args, count, 0); }

/* _verify_all_np_ndarrays, likewise */
PyObject *quick_numpy_verify(PyObject *const *args, Py_ssize_t count) { return verified(args, count, 1); }
