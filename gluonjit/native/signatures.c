/* Signatures: the records of an open batch, found by addresses of what the calls of one record have in common. */

#include "fast.h"

Py_hash_t hash_parts(const void **parts, int count) {
    size_t hash = (size_t)count;
    int k;
    for (k = 0; k < count; k++) {
        hash = (hash ^ ((size_t)parts[k] >> 4)) * (size_t)0x9E3779B97F4A7C15ull;
        hash ^= hash >> 29;
    }
    return (Py_hash_t)hash;
}

Entry *signatures_find(Signatures *self, const void **parts, int count, Py_hash_t hash) {
    size_t place;
    if (self->size == 0) return NULL;
    for (place = (size_t)hash & (size_t)(self->size - 1);; place = (place + 1) & (size_t)(self->size - 1)) {
        Entry *entry = self->table[place];
        if (entry == NULL) return NULL;
        if (entry->hash == hash && entry->count == count &&
            memcmp(entry->parts, parts, sizeof(void *) * (size_t)count) == 0)
            return entry;
    }
}

void entry_free(Entry *entry) {
    int k;
    if (entry == NULL) return;
    for (k = 0; entry->specs != NULL && k < entry->outputs; k++) Py_XDECREF(entry->specs[k]);
    Py_XDECREF(entry->key);
    Py_XDECREF(entry->record);
    Py_XDECREF(entry->structure);
    PyMem_Free(entry->parts);
    PyMem_Free(entry->offsets);
    PyMem_Free(entry->specs);
    PyMem_Free(entry);
}

/* A whole number that is an attribute or an item; -1 and an exception where it is none. */
static Py_ssize_t number(PyObject *object) {
    Py_ssize_t found = -1;
    if (object != NULL) {
        found = PyLong_AsSsize_t(object);
        Py_DECREF(object);
    }
    return found;
}

static int fill_outputs(Entry *entry, PyObject *kind) {
    PyObject *outputs = PyObject_GetAttrString(kind, "outputs");
    int k;
    if (outputs == NULL || !PyTuple_Check(outputs)) goto wrong;
    entry->offsets = PyMem_Calloc((size_t)PyTuple_GET_SIZE(outputs) + 1, sizeof(Py_ssize_t));
    entry->specs = PyMem_Calloc((size_t)PyTuple_GET_SIZE(outputs) + 1, sizeof(PyObject *));
    if (entry->offsets == NULL || entry->specs == NULL) goto wrong;
    if (PyTuple_GET_SIZE(outputs) > MOST_ROWS) goto wrong;
    entry->outputs = (int)PyTuple_GET_SIZE(outputs);
    for (k = 0; k < entry->outputs; k++) {
        PyObject *output = PyTuple_GET_ITEM(outputs, k);
        entry->offsets[k] = number(PyObject_GetAttrString(output, "offset"));
        if (PyErr_Occurred()) goto wrong;
        entry->specs[k] = PyObject_GetAttrString(output, "spec");
        if (entry->specs[k] == NULL || entry->offsets[k] < 0 || entry->offsets[k] > MOST_ROWS) goto wrong;
    }
    Py_DECREF(outputs);
    return 0;
wrong:
    Py_XDECREF(outputs);
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a kind's outputs are no tuple of rows of its own");
    return -1;
}

/* The record and what of its kind a capture needs. */
Entry *entry_new(PyObject *record) {
    Entry *entry;
    PyObject *kind = held_at(record, names.record_kind, &PyBaseObject_Type), *pure = NULL, *share;
    if (kind == NULL) return NULL;
    entry = PyMem_Calloc(1, sizeof(Entry));
    if (entry == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    Py_INCREF(kind); /* what is asked of it may be a program's */
    entry->record = Py_NewRef(record);
    share = held_at(record, names.record_share, &PyFloat_Type);
    if (share == NULL) goto fail;
    entry->share = PyFloat_AS_DOUBLE(share);
    entry->taped = number_at(record, names.record_mode) >= 2;
    if (PyErr_Occurred()) goto fail;
    entry->structure = PyObject_GetAttrString(kind, "structure");
    if (entry->structure == NULL) goto fail;
    entry->rows = number(PyObject_GetAttrString(kind, "rows"));
    if (PyErr_Occurred()) goto fail;
    pure = PyObject_GetAttrString(kind, "pure");
    if (pure == NULL || fill_outputs(entry, kind) < 0) goto fail;
    entry->pure = pure == Py_True;
    Py_DECREF(pure);
    pure = PyObject_GetAttrString(kind, "operator");
    if (pure == NULL) goto fail;
    entry->operator = pure == Py_True;
    if (entry->rows < 0 || entry->rows > MOST_ROWS) {
        PyErr_SetString(PyExc_ValueError, "a kind has no such number of rows");
        goto fail;
    }
    Py_DECREF(pure);
    Py_DECREF(kind);
    return entry;
fail:
    Py_XDECREF(pure);
    Py_DECREF(kind);
    entry_free(entry);
    return NULL;
}

/* Whether what a record has read of Python's state is so now. */
static int holds(PyObject *record) {
    PyObject *guards = SLOT(record, names.record_guards);
    if (guards == NULL || guards == Py_None) return guards != NULL;
    return Py_TYPE(guards) == &GuardsType ? guards_hold(guards) : 0;
}

/* Let an entry be that of another record, which Python has found for its signature. */
static int exchange(Entry *entry, PyObject *record) {
    Entry *other = entry_new(record), old;
    if (other == NULL) return -1;
    old = *entry;
    *entry = *other;
    entry->hash = old.hash;
    entry->count = old.count;
    entry->parts = old.parts;
    entry->key = old.key;
    old.parts = NULL;
    old.key = NULL;
    *other = old;
    entry_free(other);
    return 0;
}

int signatures_current(Entry *entry, PyObject *batch) {
    PyObject *record = SLOT(entry->record, names.record_guards);
    int held;
    if (record == Py_None) return 1;
    held = holds(entry->record);
    if (held || entry->key == NULL) return held;
    record = PyDict_GetItemWithError(SLOT(batch, names.batch_records), entry->key);
    if (record == NULL || record == entry->record || Py_TYPE(record) != names.record_type) return PyErr_Occurred() ? -1 : 0;
    held = holds(record);
    if (held > 0 && exchange(entry, record) < 0) return -1;
    return held;
}

static int grow(Signatures *self) {
    Py_ssize_t size = self->size ? 2 * self->size : 64, k;
    Entry **table = PyMem_Calloc((size_t)size, sizeof(Entry *));
    if (table == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (k = 0; k < self->size; k++) {
        Entry *entry = self->table[k];
        if (entry != NULL) {
            size_t place = (size_t)entry->hash & (size_t)(size - 1);
            while (table[place] != NULL) place = (place + 1) & (size_t)(size - 1);
            table[place] = entry;
        }
    }
    PyMem_Free(self->table);
    self->table = table;
    self->size = size;
    return 0;
}

Entry *signatures_add(Signatures *self, PyObject *batch, PyObject *key, const void **parts, int count, Py_hash_t hash) {
    PyObject *records = dict_at(batch, names.batch_records), *record;
    Entry *entry = NULL;
    size_t place;
    Py_XINCREF(records);
    record = records == NULL ? NULL : Py_XNewRef(PyDict_GetItemWithError(records, key));
    Py_XDECREF(records);
    if (record == NULL || Py_TYPE(record) != names.record_type) goto fail;
    entry = entry_new(record);
    if (entry == NULL) goto fail;
    entry->parts = PyMem_Malloc(sizeof(void *) * (size_t)count);
    if (entry->parts == NULL) {
        PyErr_NoMemory();
        goto fail;
    }
    memcpy(entry->parts, parts, sizeof(void *) * (size_t)count);
    entry->count = count;
    entry->hash = hash;
    entry->key = key;
    key = NULL;
    if (3 * (self->used + 1) > 2 * self->size && grow(self) < 0) goto fail;
    place = (size_t)hash & (size_t)(self->size - 1);
    while (self->table[place] != NULL) place = (place + 1) & (size_t)(self->size - 1);
    self->table[place] = entry;
    self->used++;
    Py_DECREF(record);
    return entry;
fail:
    Py_XDECREF(record);
    Py_XDECREF(key);
    entry_free(entry);
    return NULL;
}

static PyObject *signatures_make(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    return type->tp_alloc(type, 0); /* all zero */
}

static int entry_traverse(Entry *entry, visitproc visit, void *arg) {
    int k;
    Py_VISIT(entry->key);
    Py_VISIT(entry->record);
    Py_VISIT(entry->structure);
    for (k = 0; k < entry->outputs; k++) Py_VISIT(entry->specs[k]);
    return 0;
}

static int signatures_traverse(Signatures *self, visitproc visit, void *arg) {
    Py_ssize_t k;
    for (k = 0; k < self->size; k++) {
        if (self->table[k] != NULL) {
            int stop = entry_traverse(self->table[k], visit, arg);
            if (stop) return stop;
        }
    }
    for (k = 0; k < ORIGINS; k++) Py_VISIT(self->origins[k].origin);
    return 0;
}

static int signatures_clear(Signatures *self) {
    Py_ssize_t k, size = self->size;
    Entry **table = self->table;
    self->table = NULL;
    self->size = self->used = 0;
    for (k = 0; k < size; k++) entry_free(table[k]);
    PyMem_Free(table);
    for (k = 0; k < ORIGINS; k++) Py_CLEAR(self->origins[k].origin);
    return 0;
}

static void signatures_dealloc(Signatures *self) {
    PyObject_GC_UnTrack(self);
    signatures_clear(self);
    Py_TYPE(self)->tp_free(self);
}

PyTypeObject SignaturesType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "gluonjit._fast.Signatures",
    .tp_basicsize = sizeof(Signatures),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "The records of an open batch, as the fast path finds them.",
    .tp_new = signatures_make,
    .tp_dealloc = (destructor)signatures_dealloc,
    .tp_traverse = (traverseproc)signatures_traverse,
    .tp_clear = (inquiry)signatures_clear,
};
