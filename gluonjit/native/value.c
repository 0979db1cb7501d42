/* Value: one captured array. The same attributes as the class in gluonjit/graph/values.py. */

#include "fast.h"

PyObject *value_new(PyObject *rows, Py_ssize_t depth, PyObject *spec, PyObject *graph, char taped, PyObject *base) {
    Value *self;
    if (rows == NULL) return NULL;
    self = PyObject_GC_New(Value, &ValueType);
    if (self == NULL) {
        Py_DECREF(rows);
        return NULL;
    }
    self->rows = rows;
    self->spec = Py_NewRef(spec);
    self->graph = Py_NewRef(graph);
    self->base = Py_NewRef(base);
    self->result = Py_NewRef(Py_None);
    self->depth = depth;
    self->taped = taped;
    return (PyObject *)self; /* not tracked: see tracked() and add_node() */
}

PyObject *tracked(PyObject *value) {
    if (value != NULL && !PyObject_GC_IsTracked(value)) PyObject_GC_Track(value);
    return value;
}

static PyObject *value_make(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *keywords[] = {"rows", "depth", "spec", "graph", "taped", "base", NULL};
    PyObject *rows, *spec, *graph, *base = Py_None;
    Py_ssize_t depth;
    int taped;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OnOOp|O:Value", keywords, &rows, &depth, &spec, &graph, &taped,
                                     &base))
        return NULL;
    return tracked(value_new(Py_NewRef(rows), depth, spec, graph, (char)taped, base));
}

static int value_traverse(Value *self, visitproc visit, void *arg) {
    Py_VISIT(self->rows);
    Py_VISIT(self->spec);
    Py_VISIT(self->graph);
    Py_VISIT(self->base);
    Py_VISIT(self->result);
    return 0;
}

/* Nothing in a value is ever NULL: others read it without a look. */
static int value_clear(Value *self) {
    Py_XSETREF(self->rows, Py_NewRef(Py_None));
    Py_XSETREF(self->spec, Py_NewRef(Py_None));
    Py_XSETREF(self->graph, Py_NewRef(Py_None));
    Py_XSETREF(self->base, Py_NewRef(Py_None));
    Py_XSETREF(self->result, Py_NewRef(Py_None));
    return 0;
}

static void value_dealloc(Value *self) {
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, value_dealloc)
    Py_DECREF(self->rows);
    Py_DECREF(self->spec);
    Py_DECREF(self->graph);
    Py_DECREF(self->base);
    Py_DECREF(self->result);
    PyObject_GC_Del(self);
    Py_TRASHCAN_END
}

static PyObject *value_row_list(Value *self, PyObject *ignored) {
    PyObject *list, *count, *spec;
    Py_ssize_t first, rows, k;
    if (PyTuple_Check(self->rows)) return PySequence_List(self->rows);
    if (!PyLong_Check(self->rows)) return PyErr_Format(PyExc_TypeError, "rows is %R, no number and no tuple", self->rows);
    first = PyLong_AsSsize_t(self->rows);
    if (first == -1 && PyErr_Occurred()) return NULL;
    spec = Py_NewRef(self->spec); /* the attribute may be a program's */
    count = PyObject_GetAttr(spec, str_rows_mode);
    Py_DECREF(spec);
    if (count == NULL) return NULL;
    rows = PyLong_AsSsize_t(count);
    Py_DECREF(count);
    if (rows == -1 && PyErr_Occurred()) return NULL;
    if (rows > MOST_ROWS || first > PY_SSIZE_T_MAX - MOST_ROWS)
        return PyErr_Format(PyExc_OverflowError, "a graph has no %zd rows from %zd on", rows, first);
    list = PyList_New(rows < 0 ? 0 : rows);
    for (k = 0; list != NULL && k < rows; k++) {
        PyObject *number = PyLong_FromSsize_t(first + k);
        if (number == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, k, number);
    }
    return list;
}

/* Read-only: the interpreter reads such slots without a call. What is put there value_set looks at. */
#define SLOT_OF(name) {#name, T_OBJECT_EX, offsetof(Value, name), READONLY, NULL}

static PyMemberDef value_members[] = {
    SLOT_OF(result),
    SLOT_OF(base),
    SLOT_OF(graph),
    SLOT_OF(rows),
    SLOT_OF(spec),
    {"depth", T_PYSSIZET, offsetof(Value, depth), 0, NULL},
    {"taped", T_BOOL, offsetof(Value, taped), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static int value_set(PyObject *self, PyObject *name, PyObject *content) {
    PyMemberDef *member = value_members;
    PyObject **place, *old;
    while (member->type == T_OBJECT_EX && PyUnicode_CompareWithASCIIString(name, member->name) != 0) member++;
    if (member->type != T_OBJECT_EX) return PyObject_GenericSetAttr(self, name, content);
    if (content == NULL) {
        PyErr_SetString(PyExc_AttributeError, "nothing of a Value can be deleted");
        return -1;
    }
    place = (PyObject **)((char *)self + member->offset);
    old = *place;
    *place = Py_NewRef(content);
    /* Who has a result is left by its graph, and may be a part of any circle from then on. */
    if (member == value_members) tracked(self);
    Py_DECREF(old);
    return 0;
}

static PyMethodDef value_methods[] = {
    {"row_list", (PyCFunction)value_row_list, METH_NOARGS, "The numbers of the rows, one by one."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject ValueType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "gluonjit._fast.Value",
    .tp_basicsize = sizeof(Value),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "One captured array: see gluonjit/graph/values.py.",
    .tp_new = value_make,
    .tp_dealloc = (destructor)value_dealloc,
    .tp_setattro = value_set,
    .tp_traverse = (traverseproc)value_traverse,
    .tp_clear = (inquiry)value_clear,
    .tp_members = value_members,
    .tp_methods = value_methods,
};
