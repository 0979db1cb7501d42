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
        if (!entry) return NULL;
        if (entry->hash == hash && entry->count == count &&
            memcmp(entry->parts, parts, sizeof(void *) * (size_t)count) == 0)
            return entry;
    }
}

void entry_free(Entry *entry) {
    if (!entry) return;
    Py_XDECREF(entry->key);
    Py_XDECREF(entry->record);
    Py_XDECREF(entry->structure);
    Py_XDECREF(entry->steps);
    Py_XDECREF(entry->operands);
    PyMem_Free(entry->parts);
    PyMem_Free(entry);
}

/* The truth of an attribute of a kind: 1 or 0, or -1 and an exception. */
static int truth(PyObject *kind, const char *name) {
    PyObject *found = PyObject_GetAttrString(kind, name);
    int is_true = !found ? -1 : found == Py_True;
    Py_XDECREF(found);
    return is_true;
}

/* The record and what of its kind a capture needs. */
static Entry *entry_new(PyObject *record) {
    Entry *entry = PyMem_Calloc(1, sizeof(Entry));
    PyObject *kind = Py_NewRef(((Record *)record)->kind); /* what is asked of it may be a program's */
    int pure = truth(kind, "pure"), operator = pure < 0 ? -1 : truth(kind, "operator");
    int apart = operator < 0 ? -1 : truth(kind, "apart");
    PyObject *structure = apart < 0 ? NULL : PyObject_GetAttrString(kind, "structure");
    PyObject *operands = !structure ? NULL : PyObject_GetAttrString(kind, "operands");
    Py_DECREF(kind);
    if (operands && !PyTuple_CheckExact(operands)) Py_CLEAR(operands);
    if (!entry || !operands) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a kind has no tuple of operands, or there is no memory");
        PyMem_Free(entry);
        Py_XDECREF(structure);
        Py_XDECREF(operands);
        return NULL;
    }
    entry->record = Py_NewRef(record);
    entry->structure = structure;
    entry->operands = operands;
    entry->pure = (char)pure;
    entry->operator = (char)operator;
    entry->apart = (char)apart;
    return entry;
}

/* Tells whether what a record has read of Python's state is so now. */
static int holds(PyObject *record) {
    PyObject *guards = ((Record *)record)->guards;
    if (guards == Py_None) return 1;
    return (PyObject *)Py_TYPE(guards) == core.guards_type ? guards_hold(guards) : 0;
}

/* Let an entry be that of another record, which Python has found for its signature. */
static int exchange(Entry *entry, PyObject *record) {
    Entry *other = entry_new(record), old;
    if (!other) return -1;
    if (entry->busy) { /* a call further out is at it */
        entry_free(other);
        return 0;
    }
    old = *entry;
    *entry = *other;
    entry->hash = old.hash;
    entry->count = old.count;
    entry->parts = old.parts;
    entry->key = old.key;
    entry->steps = old.steps;
    old.parts = NULL;
    old.key = old.steps = NULL;
    *other = old;
    entry_free(other);
    return 1;
}

int signatures_current(Entry *entry, PyObject *batch) {
    PyObject *records, *record;
    int held;
    if (((Record *)entry->record)->guards == Py_None) return 1;
    held = holds(entry->record);
    if (held || !entry->key) return held;
    records = dict_at(batch, names.batch_records);
    if (!records) return -1;
    record = Py_XNewRef(PyDict_GetItemWithError(records, entry->key));
    if (record && record != entry->record && Py_TYPE(record) == core.record_type) held = holds(record);
    if (held > 0) held = exchange(entry, record);
    Py_XDECREF(record);
    return PyErr_Occurred() ? -1 : held;
}

static int grow(Signatures *self) {
    Py_ssize_t size = self->size ? 2 * self->size : 64, k;
    Entry **table = PyMem_Calloc((size_t)size, sizeof(Entry *));
    if (!table) {
        PyErr_NoMemory();
        return -1;
    }
    for (k = 0; k < self->size; k++) {
        Entry *entry = self->table[k];
        if (entry) {
            size_t place = (size_t)entry->hash & (size_t)(size - 1);
            while (table[place]) place = (place + 1) & (size_t)(size - 1);
            table[place] = entry;
        }
    }
    PyMem_Free(self->table);
    self->table = table;
    self->size = size;
    return 0;
}

Entry *signatures_add(Signatures *self, PyObject *record, PyObject *key, const void **parts, int count, Py_hash_t hash) {
    Entry *entry;
    size_t place;
    entry = !record ? PyMem_Calloc(1, sizeof(Entry)) : entry_new(record);
    if (!entry) return !record ? (Entry *)PyErr_NoMemory() : NULL;
    entry->parts = PyMem_Malloc(sizeof(void *) * (size_t)count);
    if (!entry->parts) {
        PyErr_NoMemory();
        goto fail;
    }
    memcpy(entry->parts, parts, sizeof(void *) * (size_t)count);
    entry->count = count;
    entry->hash = hash;
    entry->key = Py_NewRef(key);
    if (3 * (self->used + 1) > 2 * self->size && grow(self) < 0) goto fail;
    place = (size_t)hash & (size_t)(self->size - 1);
    while (self->table[place]) place = (place + 1) & (size_t)(self->size - 1);
    self->table[place] = entry;
    self->used++;
    return entry;
fail:
    entry_free(entry);
    return NULL;
}

static PyObject *signatures_make(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    return type->tp_alloc(type, 0); /* all zero */
}

static int entry_traverse(Entry *entry, visitproc visit, void *arg) {
    Py_VISIT(entry->key);
    Py_VISIT(entry->record);
    Py_VISIT(entry->structure);
    Py_VISIT(entry->steps);
    Py_VISIT(entry->operands);
    return 0;
}

static int signatures_traverse(Signatures *self, visitproc visit, void *arg) {
    Py_ssize_t k;
    for (k = 0; k < self->size; k++) {
        if (self->table[k]) {
            int stop = entry_traverse(self->table[k], visit, arg);
            if (stop) return stop;
        }
    }
    return 0;
}

static int signatures_clear(Signatures *self) {
    Py_ssize_t k, size = self->size;
    Entry **table = self->table;
    self->table = NULL;
    self->size = self->used = 0;
    for (k = 0; k < size; k++) entry_free(table[k]);
    PyMem_Free(table);
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
