/* A call as one node: what gluonjit.engines.mxnet.cells.capture_cell and gluonjit.engines.torch.cells.capture do for lazy and plain arrays in tuples and
   lists. Nothing is appended before the whole node is there, so that an error leaves no half of one. */

#include "fast.h"
#include <math.h>

enum { LEARNING = 32 };

static const char NONE_GIVEN; /* stands for an argument that is None: a plain None ends a tuple */
static const char NAMED;      /* before the name of an argument */
static const char SLICE, NUMBER, REAL, CONSTANT; /* before a whole number, the bits of a float, the address of a parameter */
static const char DEVICE;                        /* before the hash of a device, which says which one it is */

int call_open(Call *call, const Framework *of, PyObject *state, const void *what) {
    PyObject *batch = SLOT(state, names.state_batch), *graph, *signatures;
    if (!batch || Py_TYPE(batch) != names.batch_type || !has_room(batch)) return 0;
    graph = SLOT(batch, names.batch_graph);
    signatures = SLOT(batch, names.batch_signatures);
    if (!graph || Py_TYPE(graph) != names.graph_type) return 0;
    if (!signatures || Py_TYPE(signatures) != &SignaturesType) return 0;
    call->of = of;
    call->batch = Py_NewRef(batch);
    call->graph = Py_NewRef(graph);
    call->signatures = (Signatures *)Py_NewRef(signatures);
    call->owner = Py_None;
    call->laid = NULL;
    call->arguments = call->holds = call->itself = 0;
    call->parts[0] = what;
    call->count = 1;
    return 1;
}

void call_close(Call *call) {
    int k;
    for (k = 0; k < call->arguments; k++) {
        Py_DECREF(call->values[k]);
        Py_XDECREF(call->given[k]);
    }
    for (k = 0; k < call->holds; k++) Py_DECREF(call->held[k]);
    Py_DECREF(call->graph);
    Py_DECREF(call->signatures);
    Py_DECREF(call->batch);
}

/* The value of an array that is not of this graph: 1, 0 where it has none, or -1 and an exception. */
static int take_other(Call *call, PyObject *array) {
    PyObject *value = PyObject_CallFunctionObjArgs(call->of->value_of, call->batch, array, NULL);
    int taken;
    if (!value) {
        if (!PyErr_ExceptionMatches(call->of->empty)) return -1;
        PyErr_Clear();
        return 0;
    }
    taken = call_take(call, array, value, NULL);
    Py_DECREF(value);
    return taken;
}

/* The same of a plain tensor, which lies at once as the cell's kinds have their operands; its signature has the natural
   spec. */
static int take_tensor(Call *call, PyObject *tensor) {
    PyObject *place, *found = NULL;
    int taken = 0;
    if (!call->laid) return take_other(call, tensor);
    place = PyLong_FromLong(call->arguments);
    if (place) found = PyObject_CallFunctionObjArgs(names.leaf_laid, call->batch, tensor, call->laid, place, NULL);
    Py_XDECREF(place);
    if (!found && PyErr_ExceptionMatches(call->of->empty)) {
        PyErr_Clear();
        return 0;
    }
    if (!found) return -1;
    if (PyTuple_CheckExact(found) && PyTuple_GET_SIZE(found) == 2)
        taken = call_take(call, tensor, PyTuple_GET_ITEM(found, 0), PyTuple_GET_ITEM(found, 1));
    Py_DECREF(found);
    return taken;
}

/* Tells whether an array is a parameter of PyTorch's, which is a constant of its cell: Python sees to it. */
static int is_parameter(Call *call, PyObject *array) {
    return call->of == &names.torch &&
           (by_address(dict_at(call->batch, names.batch_parameters), array) || PyErr_Occurred());
}

int append_bits(Call *call, const void *sort, uint64_t bits) {
    if (sizeof(void *) < sizeof bits) return 0;
    call->parts[call->count++] = sort;
    call->parts[call->count++] = (const void *)(size_t)(bits << 4 | bits >> 60);
    return 1;
}

int append_number(Call *call, PyObject *arg) {
    uint64_t bits;
    double real;
    if (PyLong_CheckExact(arg)) {
        int overflow;
        long long number = PyLong_AsLongLongAndOverflow(arg, &overflow);
        return overflow ? 0 : append_bits(call, &NUMBER, (uint64_t)number);
    }
    if (!PyFloat_CheckExact(arg)) return 0;
    real = PyFloat_AS_DOUBLE(arg);
    if (isnan(real)) return 0; /* no two of these are equal */
    memcpy(&bits, &real, sizeof bits);
    return append_bits(call, &REAL, bits);
}

/* Append an argument to a call: 1, 0 where Python has to look at it, or -1 and an exception. */
static int flatten(Call *call, PyObject *arg) {
    PyTypeObject *type = Py_TYPE(arg);
    int taken;
    if (call->count + 3 > MOST) return 0;
    if (type == call->of->lazy[0] && call->of == &names.torch && is_stale(arg)) return 0;
    if (type == call->of->lazy[0]) return call_take(call, arg, SLOT(arg, call->of->lazy_v[0]), NULL) ? 1 : take_other(call, arg);
    if (type == &PyTuple_Type || type == &PyList_Type) {
        Py_ssize_t k;
        call->parts[call->count++] = type;
        for (k = 0; k < PySequence_Fast_GET_SIZE(arg); k++) { /* read anew: a list may change */
            PyObject *item = PySequence_Fast_GET_ITEM(arg, k);
            int taken;
            Py_INCREF(item);
            taken = flatten(call, item);
            Py_DECREF(item);
            if (taken <= 0) return taken;
        }
        if (call->count + 1 > MOST) return 0;
        call->parts[call->count++] = Py_None;
        return 1;
    }
    if (type == call->of->lazy[1]) {
        call->parts[call->count++] = type;
        return call_take(call, arg, SLOT(arg, call->of->lazy_v[1]), NULL) ? 1 : take_other(call, arg);
    }
    if (arg == call->owner || PyModule_CheckExact(arg)) {
        call_hold(call, arg);
        return 1;
    }
    if (type == call->of->plain[0]) return is_parameter(call, arg) ? 0 : take_tensor(call, arg);
    if (type == call->of->plain[1]) {
        call->parts[call->count++] = call->of->lazy[1];
        return take_other(call, arg);
    }
    if (arg == Py_None || PyBool_Check(arg)) {
        call->parts[call->count++] = arg == Py_None ? (const void *)&NONE_GIVEN : arg;
        return 1;
    }
    if (PyUnicode_CheckExact(arg) && PyUnicode_CHECK_INTERNED(arg)) { /* equal ones are mostly one object */
        call_hold(call, arg);
        return 1;
    }
    if (type == &PySlice_Type && call->of == &names.torch) {
        PySliceObject *slice = (PySliceObject *)arg;
        call->parts[call->count++] = &SLICE;
        taken = flatten(call, slice->start);
        if (taken > 0) taken = flatten(call, slice->stop);
        return taken > 0 ? flatten(call, slice->step) : taken;
    }
    if (arg == Py_Ellipsis || type == names.dtype_type) { /* each of its kind is there for good */
        call->parts[call->count++] = arg;
        return 1;
    }
    if (type == names.device_type && call->of == &names.torch) {
        Py_hash_t hash = PyObject_Hash(arg);
        return hash == -1 ? -1 : append_bits(call, &DEVICE, (uint64_t)hash);
    }
    if (type == names.parameter_type && call->of == &names.torch)
        return append_bits(call, &CONSTANT, (uint64_t)(size_t)arg);
    return append_number(call, arg);
}

PyObject *wrapped(const Framework *of, int interface, PyObject *record, Py_ssize_t node, Py_ssize_t k) {
    PyObject *value = core.value_of(record, node, k), *array;
    if (!value) return NULL;
    Py_INCREF(value);
    array = wrap(of, interface, value);
    Py_DECREF(value);
    return array;
}

PyObject *wrapped_all(const Framework *of, int interface, PyObject *record, Py_ssize_t node, int list) {
    Py_ssize_t k, count = ((Record *)record)->results;
    PyObject *found = list ? PyList_New(count) : PyTuple_New(count);
    for (k = 0; found && k < count; k++) {
        PyObject *array = wrapped(of, interface, record, node, k);
        if (!array)
            Py_CLEAR(found);
        else if (list)
            PyList_SET_ITEM(found, k, array);
        else
            PyTuple_SET_ITEM(found, k, array);
    }
    return found;
}

/* References to the values of a node, or those of a call's arguments or these themselves, as a tuple. */
static PyObject *tuple_of(Call *call, PyObject *record, Py_ssize_t node, Py_ssize_t count) {
    PyObject *found = PyTuple_New(count);
    Py_ssize_t k;
    for (k = 0; found && k < count; k++) {
        PyObject *value = record ? core.value_of(record, node, k) : call->itself ? call->given[k] : (PyObject *)call->values[k];
        if (!value)
            Py_CLEAR(found);
        else
            PyTuple_SET_ITEM(found, k, Py_NewRef(value));
    }
    return found;
}

enum { REPEATS = 8 }; /* the first results of a call, which it may return in several places */

/* A part of what a call returns: NULL without an exception where Python has to make it. `made` has borrowed references
   to the results that are in others. */
static PyObject *part_returned(Call *call, PyObject *structure, PyObject *record, Py_ssize_t node, PyObject **made) {
    PyObject *found, *part;
    Py_ssize_t k, count, place;
    int list = PyList_CheckExact(structure);
    if (PyLong_CheckExact(structure) || Py_TYPE(structure) == names.repeated_type) {
        place = PyLong_AsSsize_t(structure);
        if (place < 0 && PyErr_Occurred()) return NULL;
        if (place >= 0 || call->of == &names.mxnet) { /* others are of mx.np */
            k = place >= 0 ? place : ~place;
            if (!PyLong_CheckExact(structure)) return k < REPEATS && made[k] ? Py_NewRef(made[k]) : NULL;
            found = wrapped(call->of, place < 0, record, node, k);
            if (k < REPEATS) made[k] = found;
            return found;
        }
        if (~place < call->arguments)
            return call->itself || Py_TYPE(call->given[~place]) == names.torch.lazy[0]
                       ? Py_NewRef(call->given[~place])
                       : tensor_of((PyObject *)call->values[~place]);
        return PyErr_Format(PyExc_IndexError, "there is no argument %zd", ~place);
    }
    if (!list && !PyTuple_CheckExact(structure)) return NULL;
    count = PySequence_Fast_GET_SIZE(structure);
    found = list ? PyList_New(count) : PyTuple_New(count);
    if (!found || Py_EnterRecursiveCall(" in the result of a call")) {
        Py_XDECREF(found);
        return NULL;
    }
    for (k = 0; found && k < count; k++) {
        part = k < PySequence_Fast_GET_SIZE(structure)
                   ? part_returned(call, PySequence_Fast_GET_ITEM(structure, k), record, node, made)
                   : NULL;
        if (!part)
            Py_CLEAR(found);
        else if (list)
            PyList_SET_ITEM(found, k, part);
        else
            PyTuple_SET_ITEM(found, k, part);
    }
    Py_LeaveRecursiveCall();
    return found;
}

/* Makes what the call returns. */
static PyObject *returned(Call *call, Entry *entry, PyObject *record, Py_ssize_t node) {
    const Framework *of = call->of;
    PyObject *values, *arguments = NULL, *results = NULL, *structure = entry->structure, *made[REPEATS] = {NULL};
    if (structure == Py_None) return wrapped(of, 0, record, node, 0);
    if (of->lazy[1] && structure == (PyObject *)of->lazy[1]) return wrapped(of, 1, record, node, 0);
    if (structure == (PyObject *)&PyTuple_Type) return wrapped_all(of, 0, record, node, 0);
    Py_INCREF(structure);
    results = part_returned(call, structure, record, node, made);
    if (results || PyErr_Occurred()) {
        Py_DECREF(structure);
        return results;
    }
    values = tuple_of(call, record, node, ((Record *)record)->results);
    if (values && of == &names.mxnet) {
        results = PyObject_CallFunctionObjArgs(of->rebuild, structure, values, NULL);
    } else if (values) {
        arguments = tuple_of(call, NULL, 0, call->arguments);
        if (arguments) results = PyObject_CallFunctionObjArgs(of->rebuild, structure, values, arguments, NULL);
    }
    Py_XDECREF(arguments);
    Py_XDECREF(values);
    Py_DECREF(structure);
    return results;
}

int call_begin(Call *call, PyObject *state) {
    if (call->of == &names.torch) {
        int learning = is_learning(), autocast = learning < 0 ? -1 : is_casting();
        if (autocast < 0) return -1;
        if (autocast) return 0;
        call->parts[1] = (void *)(size_t)(16 + (learning ? LEARNING : 0));
        call->count = 2;
        if (call->owner != Py_None) call->parts[call->count++] = (void *)(16 * (size_t)((BatchRoom *)call->batch)->changes);
    } else {
        call->parts[1] = (void *)(16 + 16 * (size_t)numbers_of(state)->mode + 1024 * (size_t)numbers_of(state)->numpy);
        call->count = 2;
    }
    return 1;
}

/* Puts what comes after the arguments into the signature: in PyTorch whether gradients go through the node. */
static int end(Call *call) {
    int k, taped = 0;
    if (call->of != &names.torch) return 1;
    for (k = 0; k < call->arguments; k++) taped |= call->values[k]->taped;
    if (call->count >= MOST) return 0;
    call->parts[call->count++] = taped && ((size_t)call->parts[1] & LEARNING) ? Py_True : Py_False;
    return 1;
}

/* Append an argument that is given by name, as flatten() does. */
static int flatten_named(Call *call, PyObject *name, PyObject *arg) {
    int taken;
    if (call->count + 2 > MOST) return 0;
    call->parts[call->count++] = &NAMED;
    call_hold(call, name);
    Py_INCREF(arg);
    taken = flatten(call, arg);
    Py_DECREF(arg);
    return taken;
}

/* Calls of cells that were found since the last one that Python was left, to see whether it is to be traced again. */
static long found;
enum { EVERY = 1000 }; /* as in hybrid/capture/guards/again.py */

/* due() -> whether so many were found; from now on they are counted anew */
PyObject *due(PyObject *module, PyObject *ignored) {
    int enough = found >= EVERY;
    if (enough) found = 0;
    return PyBool_FromLong(enough);
}

/* Look at what a call is made with: 1, 0 where Python has to see to it, or -1 and an exception. */
static int look_at(Call *call, PyObject *state, PyObject *const *args, Py_ssize_t count, PyObject *named) {
    PyObject *name, *arg;
    Py_ssize_t at = 0, k;
    int taken = call_begin(call, state);
    for (k = 0; k < count && taken > 0; k++) taken = flatten(call, args[k]);
    while (named && taken > 0 && PyDict_Next(named, &at, &name, &arg)) taken = flatten_named(call, name, arg);
    if (taken > 0) taken = end(call);
    if (PyErr_Occurred()) return -1;
    return taken > 0 && SLOT(call->batch, names.batch_graph) == call->graph; /* what an array was may have run the batch */
}

/* Cells keep by what C found calls of theirs in any batch, with the key that Python made of each. What changes from
   batch to batch is no part of it: how often modules have changed in one. */
enum { MOST_KEYS = 1024, CHANGES = 2 };

static int has_changes(const Call *call) { return call->of == &names.torch && call->owner != Py_None; }

static PyObject *cell_of(const Call *call) { return (PyObject *)call->parts[0]; }

/* The entry among keys of earlier batches: borrowed, or NULL. */
static Entry *met_before(Call *call, Signatures *keys, Py_hash_t *hash) {
    const void *changes = call->parts[CHANGES];
    Entry *entry;
    if (has_changes(call)) call->parts[CHANGES] = NULL;
    *hash = hash_parts(call->parts, call->count);
    entry = signatures_find(keys, call->parts, call->count, *hash);
    call->parts[CHANGES] = changes;
    return entry;
}

static void note_key(Call *call, PyObject *key) {
    PyObject *cell = cell_of(call), *keys = SLOT(cell, call->of->cell_keys);
    const void *changes = call->parts[CHANGES];
    Py_hash_t hash;
    if (!keys || Py_TYPE(keys) != &SignaturesType || ((Signatures *)keys)->used >= MOST_KEYS) {
        keys = SignaturesType.tp_alloc(&SignaturesType, 0);
        if (!keys) return;
        set_slot(cell, call->of->cell_keys, keys);
    }
    if (met_before(call, (Signatures *)keys, &hash)) return;
    if (has_changes(call)) call->parts[CHANGES] = NULL;
    signatures_add((Signatures *)keys, NULL, key, call->parts, call->count, hash);
    call->parts[CHANGES] = changes;
}

/* The record of a call like one of an earlier batch, with its key in this one, as Python finds them: 1, 0, or -1 and an
   exception. */
static int find_again(Call *call, PyObject **record, PyObject **key) {
    PyObject *cell = cell_of(call), *keys = SLOT(cell, call->of->cell_keys), *found;
    Entry *entry;
    Py_hash_t hash;
    int is_pair;
    if (!call->of->again || !keys || Py_TYPE(keys) != &SignaturesType) return 0;
    entry = met_before(call, (Signatures *)keys, &hash);
    if (!entry) return 0;
    found = PyObject_CallFunctionObjArgs(call->of->again, call->batch, cell, call->owner, entry->key, NULL);
    if (!found) return -1;
    is_pair = PyTuple_CheckExact(found) && PyTuple_GET_SIZE(found) == 2 && Py_TYPE(PyTuple_GET_ITEM(found, 0)) == core.record_type;
    if (is_pair) {
        *record = Py_NewRef(PyTuple_GET_ITEM(found, 0));
        *key = Py_NewRef(PyTuple_GET_ITEM(found, 1));
    }
    Py_DECREF(found);
    return is_pair;
}

/* The entry of a call: borrowed, or NULL where Python has not made it one node, or with an exception. */
static Entry *entry_of(Call *call) {
    Py_hash_t hash = hash_parts(call->parts, call->count);
    Entry *entry = signatures_find(call->signatures, call->parts, call->count, hash);
    PyObject *record, *key;
    if (entry || find_again(call, &record, &key) <= 0) return entry;
    entry = signatures_find(call->signatures, call->parts, call->count, hash); /* Python may have added it */
    if (!entry) entry = signatures_add(call->signatures, record, key, call->parts, call->count, hash);
    Py_DECREF(record);
    Py_DECREF(key);
    return entry;
}

/* Let a part of what a call has given know which view of the tensor it is, if it is no other tensor's: -1 and an
   exception where that failed. */
static int link_part(PyObject *tensor, PyObject *part, PyObject *step) {
    if (Py_TYPE(part) != names.torch.lazy[0] || part == tensor || SLOT(part, names.torch.lazy_b[0]) != Py_None) return 0;
    return note_view(&names.torch, 0, part, tensor, step);
}

/* Let what a call has given know which views of its first argument these are, as Python's `linked` does. */
static int link_views(Entry *entry, PyObject *viewing, PyObject *result, PyObject *const *args, Py_ssize_t count, PyObject *named) {
    int several = PyTuple_Check(result) || PyList_Check(result), failed = 0;
    Py_ssize_t k;
    if (Py_TYPE(args[0]) != names.torch.lazy[0]) return 0;
    if (!entry->steps) {
        PyObject *given = tuple_from(args, count), *parts = PyLong_FromSsize_t(several ? PySequence_Fast_GET_SIZE(result) : -1);
        if (given && parts)
            entry->steps = PyObject_CallFunctionObjArgs(names.steps_of, viewing, given, !named ? Py_None : named, parts, NULL);
        Py_XDECREF(given);
        Py_XDECREF(parts);
        if (!entry->steps) return -1;
    }
    if (!PyTuple_CheckExact(entry->steps)) return 0;
    if (!several) return PyTuple_GET_SIZE(entry->steps) == 1 ? link_part(args[0], result, PyTuple_GET_ITEM(entry->steps, 0)) : 0;
    for (k = 0; k < PyTuple_GET_SIZE(entry->steps) && k < PySequence_Fast_GET_SIZE(result) && !failed; k++)
        failed = link_part(args[0], PySequence_Fast_GET_ITEM(result, k), PyTuple_GET_ITEM(entry->steps, k));
    return failed;
}

/* A value whose rows lie otherwise than its shape has them, computed by a node of its own: a new reference; NULL without
   an exception where Python has to see to it. */
static PyObject *laid_out(Call *call, PyObject *state, Value *value, Spec *spec) {
    PyObject *found = NULL;
    Entry *entry;
    Call own;
    if (call->of == &names.mxnet || value->depth == 0 || !PyUnicode_CHECK_INTERNED(spec->mode)) return NULL;
    switch (PyObject_RichCompareBool(((Spec *)value->spec)->row_shape, spec->row_shape, Py_EQ)) {
        case -1:
        case 1: return NULL;
    }
    if (!call_open(&own, call->of, state, names.laid_out)) return NULL;
    if (call_begin(&own, state) > 0 && call_take(&own, Py_None, (PyObject *)value, NULL) && flatten(&own, spec->mode) > 0 && end(&own) &&
        (entry = entry_of(&own)) != NULL && entry->record) {
        PyObject *record = Py_NewRef(entry->record);
        Py_ssize_t node = core.node_of(own.batch, own.graph, record, (PyObject **)own.values, 1,
                                       entry->pure && ((BatchRoom *)own.batch)->sharing);
        if (node >= 0) found = Py_XNewRef(core.value_of(record, node, 0));
        Py_DECREF(record);
    }
    call_close(&own);
    return found;
}

/* Find the values of a call with rows that lie as the operands of its kind: how many there are now, new references; all of
   them, or it failed. */
static int lay(Call *call, PyObject *state, PyObject *operands, PyObject **given) {
    int k;
    for (k = 0; k < call->arguments; k++) {
        PyObject *spec = k < PyTuple_GET_SIZE(operands) ? PyTuple_GET_ITEM(operands, k) : call->values[k]->spec;
        if (call->values[k]->spec == spec || (PyObject *)Py_TYPE(spec) != core.spec_type) {
            given[k] = Py_NewRef(call->values[k]);
            continue;
        }
        given[k] = laid_out(call, state, call->values[k], (Spec *)spec);
        if (!given[k] && !PyErr_Occurred())
            given[k] = PyObject_CallFunctionObjArgs(call->of->lay, call->batch, call->values[k], spec, NULL);
        if (given[k] && Py_TYPE(given[k]) != core.value_type) Py_CLEAR(given[k]);
        if (!given[k]) break;
    }
    return k;
}

/* A node of an entry on values of a call, which may lie otherwise, and what the call returns of it. */
static PyObject *node_on(Call *call, Entry *entry, PyObject **values, int sharing) {
    PyObject *record = Py_NewRef(entry->record), *result = NULL;
    Py_ssize_t node = core.node_of(call->batch, call->graph, record, values, call->arguments, entry->pure && sharing);
    call->itself = call->of == &names.torch && !entry->operator;
    if (node >= 0) result = returned(call, entry, record, node);
    Py_DECREF(record);
    return result;
}

/* The same where values of the call may have to be laid out first. */
static PyObject *node_laid(Call *call, PyObject *state, Entry *entry, int sharing) {
    PyObject *operands = Py_NewRef(entry->operands), *laid[MOST], *result = NULL;
    int count = lay(call, state, operands, laid);
    if (count == call->arguments) result = node_on(call, entry, laid, sharing);
    while (count > 0) Py_DECREF(laid[--count]);
    Py_DECREF(operands);
    return result;
}

static PyObject *captured(Call *call, PyObject *state, Entry *entry, int sharing) {
    if (entry->apart || call->laid) return node_laid(call, state, entry, sharing);
    return node_on(call, entry, (PyObject **)call->values, sharing);
}

/* What a call gives that is no node: an argument, or where a Spec is kept, the rows of its only one, which look so. */
static PyObject *given_back(Call *call, PyObject *structure) {
    PyObject *found, *result, *made[REPEATS] = {NULL};
    if ((PyObject *)Py_TYPE(structure) != core.spec_type) return part_returned(call, structure, NULL, 0, made);
    if (call->arguments != 1 || (call->values[0]->taped && is_learning() <= 0)) return NULL;
    found = rows_shown_as((PyObject *)call->values[0], structure);
    result = !found ? NULL : tensor_of(found);
    Py_XDECREF(found);
    return result;
}

/* Captures a call that Python has seen once: a node, or what it was given. */
static PyObject *capture_call_of(Call *call, PyObject *state, PyObject *viewing, PyObject *const *args, Py_ssize_t count,
                                 PyObject *named) {
    PyObject *result = NULL;
    Entry *entry;
    if (look_at(call, state, args, count, named) <= 0) return NULL;
    entry = entry_of(call);
    if (!entry) return NULL;
    if (entry->record &&
        (!(entry->operator || ++found < EVERY) || signatures_current(entry, call->batch) <= 0))
        return NULL;
    entry->busy++; /* what it calls in Python may capture calls of the same signature */
    result = !entry->record ? given_back(call, entry->structure)
                                   : captured(call, state, entry, ((BatchRoom *)call->batch)->sharing);
    if (result && viewing && link_views(entry, viewing, result, args, count, named) < 0) Py_CLEAR(result);
    entry->busy--;
    return result;
}

/* How plain tensors lie that are arguments of a cell's calls: borrowed, or NULL where all lie in the natural way. */
static PyObject *laid_of(const Framework *of, PyObject *cell) {
    PyObject *laid = of == &names.torch && Py_TYPE(cell) == of->cell_type ? SLOT(cell, names.cell_laid) : NULL;
    return laid == Py_None ? NULL : laid;
}

PyObject *capture(const Framework *of, PyObject *state, PyObject *cell, PyObject *owner, PyObject *const *args,
                  Py_ssize_t count, PyObject *named) {
    PyObject *batch = SLOT(state, names.state_batch), *result;
    Call call;
    /* A batch of the other framework runs first, before it knows anything of this call. */
    if (of == &names.mxnet && names.engine && batch && Py_TYPE(batch) == names.batch_type &&
        SLOT(batch, names.batch_engine) == names.engine)
        return NULL;
    if (of == &names.mxnet && is_fine(state, owner)) return NULL;
    if (!call_open(&call, of, state, cell)) return NULL;
    call.owner = owner;
    call.laid = laid_of(of, cell);
    result = capture_call_of(&call, state, NULL, args, count, named);
    call_close(&call);
    return result;
}

PyObject *capture_function(PyObject *state, PyObject *cell, PyObject *viewing, PyObject *const *args, Py_ssize_t count,
                           PyObject *named) {
    PyObject *result;
    Call call;
    if (!call_open(&call, &names.torch, state, cell)) return NULL;
    call.laid = laid_of(&names.torch, cell);
    result = capture_call_of(&call, state, viewing, args, count, named);
    call_close(&call);
    return result;
}

/* Tells whether a record is what Python finds by this key now: 1, 0, or -1 and an exception. */
static int is_found(Call *call, PyObject *key, PyObject *record) {
    PyObject *records = dict_at(call->batch, names.batch_records);
    if (call->of == &names.torch && call->owner != Py_None) { /* what has changed since the key was made? */
        Py_ssize_t changes = PyTuple_GET_SIZE(key) < 4 ? -1 : PyLong_AsSsize_t(PyTuple_GET_ITEM(key, 3));
        if (changes != ((BatchRoom *)call->batch)->changes) return PyErr_Occurred() ? -1 : 0;
    }
    if (!records) return -1;
    if (PyDict_GetItemWithError(records, key) != record) return PyErr_Occurred() ? -1 : 0;
    return ((Record *)record)->arity == call->arguments;
}

/* keep(cell, owner, args, kwargs, key, record): let equal calls be nodes of a record, which Python finds by this key; or,
   where a place is given in place of a record, give their argument at ~place, or where a Spec is, the rows of theirs as
   they look then. */
PyObject *keep_call(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    int placed = count == 6 && PyLong_CheckExact(args[5]), over;
    int given = placed || (count == 6 && (PyObject *)Py_TYPE(args[5]) == core.spec_type);
    PyObject *state;
    Call call;
    const Framework *of = count == 6 && Py_TYPE(args[0]) == names.mxnet.cell_type ? &names.mxnet : &names.torch;
    if (count != 6 || !PyTuple_CheckExact(args[2]) || !PyDict_CheckExact(args[3]) || !PyTuple_CheckExact(args[4]) ||
        (Py_TYPE(args[5]) != core.record_type && !given) || !of->cell_type)
        return PyErr_Format(PyExc_TypeError, "keep() takes a cell, an owner, a tuple, a dict, a key and its Record");
    if (placed && (of != &names.torch || PyLong_AsLongAndOverflow(args[5], &over) >= 0 || over))
        return PyErr_Format(PyExc_TypeError, "keep() takes the place of an argument, as ~place");
    state = state_here();
    if (!state) return NULL;
    if (is_running(state) && call_open(&call, of, state, args[0])) {
        call.owner = args[1];
        call.laid = laid_of(of, args[0]);
        if (look_at(&call, state, &PyTuple_GET_ITEM(args[2], 0), PyTuple_GET_SIZE(args[2]), args[3]) > 0 &&
            (given || is_found(&call, args[4], args[5]) > 0)) {
            Py_hash_t hash = hash_parts(call.parts, call.count);
            Entry *entry = signatures_find(call.signatures, call.parts, call.count, hash);
            if (!entry)
                entry = signatures_add(call.signatures, given ? NULL : args[5], args[4], call.parts, call.count, hash);
            if (entry && given && !entry->record) Py_XSETREF(entry->structure, Py_NewRef(args[5]));
            if (entry && !given) note_key(&call, args[4]);
        }
        call_close(&call);
    }
    Py_DECREF(state);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}
