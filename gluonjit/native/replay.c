/* Nodes of a recorded call, captured again: what gluonjit.hybrid.capture.replaying.replayed does. */

#include "fast.h"

#define ENTRY "gluonjit._fast.entry"

static void capsule_free(PyObject *capsule) { entry_free(PyCapsule_GetPointer(capsule, ENTRY)); }

/* entry(record): what of a record and its kind a capture needs. */
PyObject *entry(PyObject *module, PyObject *record) {
    Entry *made;
    PyObject *capsule;
    if (names.record_type == NULL || Py_TYPE(record) != names.record_type)
        return PyErr_Format(PyExc_TypeError, "entry() takes a Record");
    made = entry_new(record);
    if (made == NULL) return NULL;
    capsule = PyCapsule_New(made, ENTRY, capsule_free);
    if (capsule == NULL) entry_free(made);
    return capsule;
}

typedef struct {
    const int *at, *end;
    PyObject *table; /* a list: the row that each number stands for */
} Reader;

static PyObject *broken(void) {
    PyErr_SetString(PyExc_ValueError, "a recording is no list of nodes");
    return NULL;
}

/* The next row. A new reference. */
static PyObject *read_row(Reader *from) {
    if (from->at >= from->end || *from->at < 0 || *from->at >= PyList_GET_SIZE(from->table)) return broken();
    return Py_NewRef(PyList_GET_ITEM(from->table, *from->at++));
}

/* The next operand: a row, or a tuple of them. */
static PyObject *read_operand(Reader *from) {
    PyObject *rows;
    int count, k;
    if (from->at >= from->end) return broken();
    if (*from->at >= 0) return read_row(from);
    if (*from->at < from->at - from->end) return broken(); /* more rows than there are numbers */
    count = -*from->at++;
    if (count > from->end - from->at) return broken();
    rows = PyTuple_New(count);
    for (k = 0; rows != NULL && k < count; k++) {
        PyObject *row = read_row(from);
        if (row == NULL)
            Py_CLEAR(rows);
        else
            PyTuple_SET_ITEM(rows, k, row);
    }
    return rows;
}

/* The next operands, as many as the number before them says. */
static PyObject *read_operands(Reader *from) {
    PyObject *operands;
    int count, k;
    if (from->at >= from->end) return broken();
    count = *from->at++;
    if (count < 0 || count > from->end - from->at) return broken();
    operands = PyTuple_New(count);
    for (k = 0; operands != NULL && k < count; k++) {
        PyObject *rows = read_operand(from);
        if (rows == NULL)
            Py_CLEAR(operands);
        else
            PyTuple_SET_ITEM(operands, k, rows);
    }
    if (operands != NULL) PyObject_GC_UnTrack(operands);
    return operands;
}

static int append_rows(PyObject *table, PyObject *values, Entry *entry) {
    Py_ssize_t base, k;
    PyObject *rows = ((Value *)PyTuple_GET_ITEM(values, 0))->rows;
    if (!PyLong_Check(rows)) {
        no_such_slot(rows, &PyLong_Type);
        return -1;
    }
    base = PyLong_AsSsize_t(rows);
    if (base == -1 && PyErr_Occurred()) return -1;
    if (base < 0 || base > MOST_ROWS) {
        broken();
        return -1;
    }
    base -= entry->offsets[0];
    for (k = 0; k < entry->rows; k++) {
        PyObject *row = PyLong_FromSsize_t(base + k);
        int failed = row == NULL || PyList_Append(table, row) < 0;
        Py_XDECREF(row);
        if (failed) return -1;
    }
    return 0;
}

/* The values of the next node, which is appended where it is not there yet. `deeper`: see replayed(). */
static PyObject *next_node(Call *call, Reader *from, PyObject *entries, PyObject *origins, int sharing,
                           Py_ssize_t *deeper) {
    PyObject *number, *capsule, *rows = NULL, *values = NULL, *memo = NULL;
    Entry *entry;
    Py_ssize_t depth;
    int calls, origin;
    if (from->end - from->at < 4) return broken();
    number = PyLong_FromLong(*from->at++);
    if (number == NULL) return NULL;
    capsule = PyDict_GetItemWithError(entries, number);
    Py_DECREF(number);
    if (capsule == NULL) return PyErr_Occurred() ? NULL : broken();
    Py_INCREF(capsule); /* what compares rows may be a program's, and change anything */
    entry = PyCapsule_GetPointer(capsule, ENTRY);
    if (entry == NULL) goto done;
    calls = *from->at++;
    depth = *from->at++;
    origin = *from->at++;
    if (origin < 0 || origin >= PyList_GET_SIZE(origins) || entry->outputs < 1) {
        broken();
        goto done;
    }
    rows = read_operands(from);
    memo = rows == NULL ? NULL : Py_XNewRef(dict_at(entry->record, names.record_memo));
    if (memo == NULL) goto done;
    if (sharing) values = PyDict_GetItemWithError(memo, rows);
    if (values != NULL) {
        Py_ssize_t more;
        if (!are_values(values, entry->outputs)) {
            values = NULL;
            goto done;
        }
        Py_INCREF(values);
        if (!__builtin_sub_overflow(((Value *)PyTuple_GET_ITEM(values, 0))->depth, depth, &more) && more > *deeper)
            *deeper = more;
    } else {
        if (PyErr_Occurred()) goto done;
        if (origin >= PyList_GET_SIZE(origins) || __builtin_add_overflow(depth, *deeper, &depth)) {
            broken();
            goto done;
        }
        call->origin = PyList_GET_ITEM(origins, origin);
        values = add_node(call, NULL, entry, rows, depth);
        if (values != NULL && sharing && PyDict_SetItem(memo, rows, values) < 0) Py_CLEAR(values);
    }
    if (values != NULL && calls && count_calls(entry->record, calls) < 0) Py_CLEAR(values);
    if (values != NULL && append_rows(from->table, values, entry) < 0) Py_CLEAR(values);
done:
    Py_XDECREF(rows);
    Py_XDECREF(memo);
    Py_DECREF(capsule);
    return values;
}

/* replay(batch, entries, origins, code, table) -> the values of all nodes */
PyObject *replay(PyObject *module, PyObject *args) {
    PyObject *batch, *entries, *origins, *table, *found = NULL;
    Py_buffer code;
    Call call;
    Reader from;
    Py_ssize_t deeper = 0;
    int sharing;
    if (!PyArg_ParseTuple(args, "OO!O!y*O!:replay", &batch, &PyDict_Type, &entries, &PyList_Type, &origins, &code,
                          &PyList_Type, &table))
        return NULL;
    if (names.batch_type == NULL || Py_TYPE(batch) != names.batch_type || code.len % sizeof(int) ||
        (uintptr_t)code.buf % sizeof(int)) {
        broken();
        goto done;
    }
    call.batch = batch;
    call.graph = Py_XNewRef(held_at(batch, names.batch_graph, names.graph_type));
    if (call.graph == NULL) goto done;
    sharing = SLOT(batch, names.batch_sharing) == Py_True;
    from.at = code.buf;
    from.end = from.at + code.len / sizeof(int);
    from.table = table;
    found = PyList_New(0);
    while (found != NULL && from.at < from.end) {
        PyObject *values = next_node(&call, &from, entries, origins, sharing, &deeper);
        if (values == NULL || PyList_Append(found, values) < 0) Py_CLEAR(found);
        Py_XDECREF(values);
    }
    Py_DECREF(call.graph);
done:
    PyBuffer_Release(&code);
    return found;
}
