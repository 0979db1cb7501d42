/* Hook: what stands in the place of a Python function in a class, and calls it where the fast path does not apply. */

#include "fast.h"

typedef struct Hook Hook;
typedef PyObject *(*Quick)(PyObject *const *args, Py_ssize_t count);

struct Hook {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *function;
    Quick quick;
};

/* Whether a block has no hooks of either kind in its __dict__. */
static int unhooked(PyObject *dict, PyObject *name) {
    PyObject *hooks = PyDict_GetItemWithError(dict, name);
    return hooks != NULL && PyDict_Check(hooks) && PyDict_GET_SIZE(hooks) == 0;
}

/* gluon.Block.__call__ of a block that is one node. */
static PyObject *quick_call(PyObject *const *args, Py_ssize_t count) {
    PyObject *state = state_here(), *dict, *cell, *result = NULL, *paused;
    if (state == NULL) return NULL;
    paused = SLOT(state, names.state_paused);
    if (SLOT(state, names.state_trace) != Py_None || !PyLong_Check(paused) || PyLong_AsLong(paused) != 0) goto done;
    if (PyLong_AsLong(SLOT(state, names.state_inside)) <= 0) goto done; /* else the call is a sample of its own */
    dict = PyObject_GenericGetDict(args[0], NULL);
    if (dict == NULL) {
        PyErr_Clear();
        goto done;
    }
    cell = PyDict_GetItemWithError(dict, names.key);
    if (cell != NULL && Py_TYPE(cell) == names.cell_type && SLOT(cell, names.cell_is_node) == Py_True &&
        SLOT(cell, names.cell_lookup) == Py_None && unhooked(dict, str_hooks) && unhooked(dict, str_pre_hooks)) {
        Py_INCREF(cell);
        result = capture(state, cell, args[0], args + 1, count - 1);
        Py_DECREF(cell);
    }
    Py_DECREF(dict);
done:
    Py_DECREF(state);
    return result;
}

static PyObject *quick_item(PyObject *const *args, Py_ssize_t count) {
    return count == 2 ? slice_of(0, args[0], args[1]) : NULL;
}

static PyObject *quick_numpy_item(PyObject *const *args, Py_ssize_t count) {
    return count == 2 ? slice_of(1, args[0], args[1]) : NULL;
}

static struct {
    const char *name;
    Quick quick;
} kinds[] = {{"call", quick_call}, {"item", quick_item}, {"numpy_item", quick_numpy_item}};

static PyObject *hook_call(PyObject *self, PyObject *const *args, size_t flags, PyObject *keywords) {
    Hook *hook = (Hook *)self;
    Py_ssize_t count = PyVectorcall_NARGS(flags);
    if (keywords == NULL && count > 0 && names.local != NULL) {
        PyObject *result = hook->quick(args, count);
        if (result != NULL || PyErr_Occurred()) return result;
    }
    return PyObject_Vectorcall(hook->function, args, flags, keywords);
}

static PyObject *hook_make(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    const char *name;
    PyObject *function;
    size_t k;
    if (!PyArg_ParseTuple(args, "sO:Hook", &name, &function)) return NULL;
    for (k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        if (strcmp(kinds[k].name, name) == 0) {
            Hook *self = (Hook *)type->tp_alloc(type, 0);
            if (self == NULL) return NULL;
            self->vectorcall = hook_call;
            self->function = Py_NewRef(function);
            self->quick = kinds[k].quick;
            return (PyObject *)self;
        }
    }
    PyErr_Format(PyExc_ValueError, "there is no fast path %s", name);
    return NULL;
}

static PyObject *hook_bind(PyObject *self, PyObject *object, PyObject *type) {
    if (object == NULL || object == Py_None) return Py_NewRef(self);
    return PyMethod_New(self, object);
}

/* Whatever else is asked for is the function's: its name, its documentation, its code. */
static PyObject *hook_attribute(PyObject *self, PyObject *name) {
    PyObject *found = PyObject_GenericGetAttr(self, name);
    if (found != NULL || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
    PyErr_Clear();
    return PyObject_GetAttr(((Hook *)self)->function, name);
}

static PyObject *hook_doc(PyObject *self, void *ignored) {
    return PyObject_GetAttrString(((Hook *)self)->function, "__doc__");
}

static int hook_traverse(Hook *self, visitproc visit, void *arg) {
    Py_VISIT(self->function);
    return 0;
}

static int hook_clear(Hook *self) {
    Py_CLEAR(self->function);
    return 0;
}

static void hook_dealloc(Hook *self) {
    PyObject_GC_UnTrack(self);
    hook_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyMemberDef hook_members[] = {
    {"__wrapped__", T_OBJECT, offsetof(Hook, function), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef hook_getset[] = {
    {"__doc__", hook_doc, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject HookType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "gluonjit._fast.Hook",
    .tp_basicsize = sizeof(Hook),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_new = hook_make,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Hook, vectorcall),
    .tp_descr_get = hook_bind,
    .tp_getattro = hook_attribute,
    .tp_dealloc = (destructor)hook_dealloc,
    .tp_traverse = (traverseproc)hook_traverse,
    .tp_clear = (inquiry)hook_clear,
    .tp_members = hook_members,
    .tp_getset = hook_getset,
};

/* A base of lazy arrays: nothing to free when one ends, where NDArray would call a function of Python. */
static void silent_end(PyObject *self) {}

PyTypeObject SilentType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "gluonjit._fast.Silent",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_doc = "What ends without a word: a base of lazy arrays.",
    .tp_new = NULL,
    .tp_finalize = silent_end,
};
