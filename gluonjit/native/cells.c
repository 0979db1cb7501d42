/* Functions and methods that are cells: gluonjit.hybrid.capture.functions.CellFunction.__call__, for calls inside of a
   sample whose first array or block is of the framework of the open batch. */

#include "fast.h"

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *caches; /* what each engine knows about it */
} Celled;

static PyObject *behind; /* CellFunction.__call__ */

/* The block or module of a method's call: borrowed; None of a function's; NULL where Python has to look whose call it is. */
static PyObject *owner_of(const Framework *of, PyObject *const *args, Py_ssize_t count) {
    PyTypeObject *type = count > 0 ? Py_TYPE(args[0]) : NULL;
    if (!type) return NULL;
    if (type == of->lazy[0] || (of->lazy[1] && type == of->lazy[1])) return Py_None;
    return PyType_IsSubtype(type, of->block_type) ? args[0] : NULL;
}

static PyObject *quick(Celled *self, PyObject *const *args, Py_ssize_t count) {
    PyObject *state, *batch, *owner, *cell = NULL, *result = NULL;
    const Framework *of;
    if (!names.local || !self->caches || !PyDict_CheckExact(self->caches)) return NULL;
    state = state_here();
    if (!state) return NULL;
    batch = SLOT(state, names.state_batch);
    if (!is_running(state) || numbers_of(state)->inside <= 0 || Py_TYPE(batch) != names.batch_type) goto done;
    of = names.engine && SLOT(batch, names.batch_engine) == names.engine ? &names.torch : &names.mxnet;
    if (!of->cell_type) goto done;
    owner = owner_of(of, args, count);
    if (owner) cell = Py_XNewRef(PyDict_GetItemWithError(self->caches, of == &names.torch ? str_torch : str_mxnet));
    if (cell && Py_TYPE(cell) == of->cell_type && SLOT(cell, of->cell_lookup) == Py_None)
        result = capture(of, state, cell, owner, args, count, NULL);
    Py_XDECREF(cell);
done:
    Py_DECREF(state);
    return result;
}

static PyObject *call(PyObject *self, PyObject *const *args, size_t flags, PyObject *keywords) {
    Py_ssize_t count = PyVectorcall_NARGS(flags), all = count + (!keywords ? 0 : PyTuple_GET_SIZE(keywords)), k;
    PyObject *function = _PyType_Lookup(Py_TYPE(self), str_call), *few[8], **given = few, *result = NULL;
    if (!function) return PyErr_Format(PyExc_TypeError, "%R cannot be called", self);
    if (!keywords && function == behind) {
        result = quick((Celled *)self, args, count);
        if (result || PyErr_Occurred()) return result;
    }
    if (all >= 8) given = PyMem_Malloc(sizeof(PyObject *) * (size_t)(all + 1));
    if (!given) return PyErr_NoMemory();
    given[0] = self;
    for (k = 0; k < all; k++) given[k + 1] = args[k];
    Py_INCREF(function);
    if (Py_EnterRecursiveCall(" in a cell") == 0) {
        result = PyObject_Vectorcall(function, given, (size_t)count + 1, keywords);
        Py_LeaveRecursiveCall();
    }
    Py_DECREF(function);
    if (given != few) PyMem_Free(given);
    return result;
}

/* quick_cells(type): let calls of what is of this class, which derives from the one below, try the fast path first. */
PyObject *quick_cells(PyObject *module, PyObject *type) {
    PyObject *function;
    if (!PyType_Check(type) || !PyType_IsSubtype((PyTypeObject *)type, &CelledType) || type == (PyObject *)&CelledType)
        return PyErr_Format(PyExc_TypeError, "quick_cells() takes a class that derives from Celled");
    function = _PyType_Lookup((PyTypeObject *)type, str_call);
    if (!function) return PyErr_Format(PyExc_TypeError, "%R has no __call__", type);
    Py_XSETREF(behind, Py_NewRef(function));
    ((PyTypeObject *)type)->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
    PyType_Modified((PyTypeObject *)type);
    Py_RETURN_NONE;
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    Celled *self = (Celled *)type->tp_alloc(type, 0);
    if (self) self->vectorcall = call;
    return (PyObject *)self;
}

static PyObject *bind(PyObject *self, PyObject *object, PyObject *type) {
    if (!object || object == Py_None) return Py_NewRef(self);
    return PyMethod_New(self, object);
}

static int traverse(Celled *self, visitproc visit, void *arg) {
    Py_VISIT(self->caches);
    return 0;
}

static int clear(Celled *self) {
    Py_CLEAR(self->caches);
    return 0;
}

static void end(Celled *self) {
    PyObject_GC_UnTrack(self);
    Py_CLEAR(self->caches);
    Py_TYPE(self)->tp_free(self);
}

static PyMemberDef members[] = {
    {"caches", T_OBJECT_EX, offsetof(Celled, caches), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject CelledType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "gluonjit._fast.Celled",
    .tp_basicsize = sizeof(Celled),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .tp_doc = "A function whose calls are captured: a base of what is declared a cell.",
    .tp_new = make,
    .tp_vectorcall_offset = offsetof(Celled, vectorcall),
    .tp_descr_get = bind,
    .tp_dealloc = (destructor)end,
    .tp_traverse = (traverseproc)traverse,
    .tp_clear = (inquiry)clear,
    .tp_members = members,
};
