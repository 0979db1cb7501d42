/* What has to hold for a traced call to be that of now: gluonjit.hybrid.capture.guards.facts.PlainGuards. */

#include "fast.h"

/* As in facts.py. What C does not look up itself Python does. */
enum { ENTRY, ITEM, SIZE, CELL, CLASS, DEFAULTS, CONTENTS, OTHER };

typedef struct {
    int way;
    PyObject *number; /* the way as Python has it */
    PyObject *container, *key, *found;
    Py_ssize_t index; /* of an item, or how many there are */
    uint64_t version; /* of the dict or the class, when it was last seen to hold; 0 where that is not known */
} Fact;

typedef struct {
    PyObject_HEAD
    Fact *facts;
    Py_ssize_t count;
    PyObject *look, *alike, *absent;
} Guards;

/* Whether two objects cannot be told apart by type and content: 1, 0, or -1 and an exception. */
static int same(Guards *self, PyObject *now, PyObject *found) {
    PyObject *answer;
    int truth;
    if (now == found) return 1;
    if (Py_TYPE(now) != Py_TYPE(found) || now == Py_None || PyBool_Check(now)) return 0;
    if (PyFloat_CheckExact(now)) {
        double one = PyFloat_AS_DOUBLE(now), other = PyFloat_AS_DOUBLE(found);
        return memcmp(&one, &other, sizeof(double)) == 0;
    }
    if (PyLong_CheckExact(now) || PyUnicode_CheckExact(now)) return PyObject_RichCompareBool(now, found, Py_EQ);
    answer = PyObject_CallFunctionObjArgs(self->alike, now, found, NULL);
    if (answer == NULL) return -1;
    truth = PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return truth;
}

static int same_items(Guards *self, PyObject *list, PyObject *found) {
    Py_ssize_t k;
    if (PyList_GET_SIZE(list) != PyTuple_GET_SIZE(found)) return 0;
    for (k = 0; k < PyList_GET_SIZE(list) && k < PyTuple_GET_SIZE(found); k++) { /* read anew: it may change */
        PyObject *item = Py_NewRef(PyList_GET_ITEM(list, k));
        int holds = same(self, item, PyTuple_GET_ITEM(found, k));
        Py_DECREF(item);
        if (holds <= 0) return holds;
    }
    return 1;
}

/* What is there now: a new reference, or NULL with or without an exception. */
static PyObject *look_up(Guards *self, Fact *fact) {
    PyObject *now = NULL;
    switch (fact->way) {
    case ENTRY:
        now = PyDict_GetItemWithError(fact->container, fact->key);
        break;
    case ITEM: {
        Py_ssize_t size = PyList_GET_SIZE(fact->container), index = fact->index < 0 ? fact->index + size : fact->index;
        if (index >= 0 && index < size) now = PyList_GET_ITEM(fact->container, index);
        break;
    }
    case CELL:
        now = PyCell_GET(fact->container);
        break;
    case CLASS:
        now = _PyType_Lookup((PyTypeObject *)fact->container, fact->key);
        break;
    case DEFAULTS:
        now = fact->index ? PyFunction_GET_KW_DEFAULTS(fact->container) : PyFunction_GET_DEFAULTS(fact->container);
        if (now == NULL) now = Py_None;
        break;
    default:
        return PyObject_CallFunctionObjArgs(self->look, fact->number, fact->container, fact->key, NULL);
    }
    if (now == NULL && !PyErr_Occurred()) now = self->absent;
    return Py_XNewRef(now);
}

/* What every change of a dict or a class changes: 0 where there is nothing of the sort. */
static uint64_t version_of(Fact *fact) {
    if (fact->way == CLASS) {
        PyTypeObject *type = (PyTypeObject *)fact->container;
        return PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG) ? type->tp_version_tag : 0;
    }
#if PY_VERSION_HEX < 0x030C0000
    if (fact->way == ENTRY) return ((PyDictObject *)fact->container)->ma_version_tag;
#endif
    return 0;
}

/* 1, 0, or -1 and an exception. */
int guards_hold(PyObject *guards) {
    Guards *self = (Guards *)guards;
    Py_ssize_t k;
    int holds = 1;
    Py_INCREF(self);
    for (k = 0; k < self->count && holds > 0; k++) {
        Fact *fact = &self->facts[k];
        PyObject *now;
        if (fact->way == SIZE) {
            Py_ssize_t size = PyObject_Size(fact->container);
            holds = size < 0 ? -1 : size == fact->index;
            continue;
        }
        if (fact->way == CONTENTS) {
            holds = same_items(self, fact->container, fact->found);
            continue;
        }
        if (fact->version != 0 && fact->version == version_of(fact)) continue;
        now = look_up(self, fact);
        holds = now == NULL ? -1 : same(self, now, fact->found);
        fact->version = now == fact->found ? version_of(fact) : 0; /* the same object: nothing has run since */
        Py_XDECREF(now);
    }
    Py_DECREF(self);
    return holds;
}

static int is_known(Fact *fact) {
    PyObject *container = fact->container;
    switch (fact->way) {
    case ENTRY: return PyDict_Check(container);
    case ITEM:
    case SIZE: {
        PyObject *number = fact->way == ITEM ? fact->key : fact->found;
        if (!PyLong_Check(number) || (fact->way == ITEM && !PyList_Check(container))) return 0;
        fact->index = PyLong_AsSsize_t(number);
        if (fact->index == -1 && PyErr_Occurred()) {
            PyErr_Clear();
            return 0;
        }
        return 1;
    }
    case CELL: return PyCell_Check(container);
    case CLASS: return PyType_Check(container) && PyUnicode_Check(fact->key);
    case DEFAULTS:
        if (!PyFunction_Check(container) || !PyUnicode_Check(fact->key)) return 0;
        fact->index = PyUnicode_CompareWithASCIIString(fact->key, "__kwdefaults__") == 0;
        return 1;
    case CONTENTS: return PyList_CheckExact(container) && PyTuple_CheckExact(fact->found);
    default: return 0;
    }
}

static int fill(Guards *self, PyObject *facts) {
    Py_ssize_t k, size = PyTuple_GET_SIZE(facts);
    self->facts = PyMem_Calloc((size_t)size + 1, sizeof(Fact));
    if (self->facts == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (k = 0; k < size; k++) {
        PyObject *given = PyTuple_GET_ITEM(facts, k);
        Fact *fact = &self->facts[k];
        if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != 4 || !PyLong_Check(PyTuple_GET_ITEM(given, 0))) {
            PyErr_SetString(PyExc_TypeError, "Guards(): a fact is (way, container, key, found)");
            return -1;
        }
        fact->number = Py_NewRef(PyTuple_GET_ITEM(given, 0));
        fact->container = Py_NewRef(PyTuple_GET_ITEM(given, 1));
        fact->key = Py_NewRef(PyTuple_GET_ITEM(given, 2));
        fact->found = Py_NewRef(PyTuple_GET_ITEM(given, 3));
        self->count = k + 1;
        fact->way = (int)PyLong_AsLong(fact->number);
        if (PyErr_Occurred()) return -1;
        if (!is_known(fact)) fact->way = OTHER;
    }
    return 0;
}

static PyObject *guards_make(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *facts, *look, *alike, *absent;
    Guards *self;
    if (!PyArg_ParseTuple(args, "O!OOO:Guards", &PyTuple_Type, &facts, &look, &alike, &absent)) return NULL;
    self = (Guards *)type->tp_alloc(type, 0);
    if (self == NULL) return NULL;
    self->look = Py_NewRef(look);
    self->alike = Py_NewRef(alike);
    self->absent = Py_NewRef(absent);
    if (fill(self, facts) < 0) Py_CLEAR(self);
    return (PyObject *)self;
}

static PyObject *hold(PyObject *self, PyObject *ignored) {
    int holds = guards_hold(self);
    return holds < 0 ? NULL : PyBool_FromLong(holds);
}

static int guards_traverse(Guards *self, visitproc visit, void *arg) {
    Py_ssize_t k;
    for (k = 0; k < self->count; k++) {
        Py_VISIT(self->facts[k].number);
        Py_VISIT(self->facts[k].container);
        Py_VISIT(self->facts[k].key);
        Py_VISIT(self->facts[k].found);
    }
    Py_VISIT(self->look);
    Py_VISIT(self->alike);
    Py_VISIT(self->absent);
    return 0;
}

static int guards_clear(Guards *self) {
    Py_ssize_t k, count = self->count;
    Fact *facts = self->facts;
    self->facts = NULL;
    self->count = 0;
    for (k = 0; k < count; k++) {
        Py_XDECREF(facts[k].number);
        Py_XDECREF(facts[k].container);
        Py_XDECREF(facts[k].key);
        Py_XDECREF(facts[k].found);
    }
    PyMem_Free(facts);
    Py_CLEAR(self->look); /* nothing asks them where there is no fact */
    Py_CLEAR(self->alike);
    Py_CLEAR(self->absent);
    return 0;
}

static void guards_dealloc(Guards *self) {
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, guards_dealloc)
    guards_clear(self);
    Py_TYPE(self)->tp_free(self);
    Py_TRASHCAN_END
}

static PyMethodDef guards_methods[] = {
    {"hold", hold, METH_NOARGS, "Whether everything is as it was."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject GuardsType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "gluonjit._fast.Guards",
    .tp_basicsize = sizeof(Guards),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "What has to hold for a traced call to be that of now.",
    .tp_new = guards_make,
    .tp_dealloc = (destructor)guards_dealloc,
    .tp_traverse = (traverseproc)guards_traverse,
    .tp_clear = (inquiry)guards_clear,
    .tp_methods = guards_methods,
};
