/* Hook: what stands in the place of a function in a class, and calls it where the fast path does not apply. */

#include "fast.h"

typedef PyObject *(*Quick)(PyObject *const *args, Py_ssize_t count);

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    Quick quick; /* NULL: it is a door */
#define FIELDS(X) \
    X(function) /* what it stands for */ \
    X(func)     /* of a method of lazy tensors, what PyTorch calls __torch_function__ with */ \
    X(left)     /* of a reflected sign, where both are tensors: what PyTorch calls it with, and PyTorch's method */ \
    X(method)
    FIELDS(OBJECT_FIELD)
} Hook;

/* Tells whether a block has no hooks of either kind in its __dict__. */
int unhooked(PyObject *dict, PyObject *name) {
    PyObject *hooks = PyDict_GetItemWithError(dict, name);
    return hooks && PyDict_Check(hooks) && PyDict_GET_SIZE(hooks) == 0;
}

/* Tells whether no argument is an array that has to become lazy. */
static int are_lazy(PyObject *const *args, Py_ssize_t count) {
    Py_ssize_t k;
    for (k = 1; k < count; k++)
        if (Py_TYPE(args[k]) == names.mxnet.plain[0] || Py_TYPE(args[k]) == names.mxnet.plain[1]) return 0;
    return 1;
}

/* A block that is no node, inside of a sample: its forward, whose calls are captured. */
static PyObject *forward(PyObject *state, PyObject *dict, PyObject *const *args, Py_ssize_t count) {
    PyObject *result, *rest;
    numbers_of(state)->inside++;
    result = PyObject_VectorcallMethod(str_forward, args, (size_t)count, NULL);
    if (result && (!unhooked(dict, str_hooks) || numbers_of(state)->numpy != 0)) {
        rest = tuple_from(args + 1, count - 1); /* forward has registered a hook, or arrays are those of mx.np */
        if (!rest) {
            Py_CLEAR(result);
        } else {
            PyObject *done = PyObject_CallFunctionObjArgs(names.after, args[0], rest, result, NULL);
            Py_DECREF(rest);
            if (!done) Py_CLEAR(result);
            Py_XDECREF(done);
        }
    }
    numbers_of(state)->inside--;
    return result;
}

/* A call outside of all samples, such as that of a loss: the time it took is noted. */
static PyObject *outside(PyObject *state, PyObject *cell, PyObject *const *args, Py_ssize_t count) {
    PyObject *begin, *batch = SLOT(state, names.state_batch), *result;
    if (!batch || batch == Py_None) return NULL;
    Py_INCREF(batch);
    begin = PyObject_CallNoArgs(names.clock);
    if (!begin) {
        Py_DECREF(batch);
        return NULL;
    }
    result = capture(&names.mxnet, state, cell, args[0], args + 1, count - 1, NULL);
    if (result) {
        PyObject *noted = PyObject_CallFunctionObjArgs(names.note, batch, cell, begin, NULL);
        if (!noted) Py_CLEAR(result);
        Py_XDECREF(noted);
    }
    Py_DECREF(batch);
    Py_DECREF(begin);
    return result;
}

/* A call of a cell that is nothing but a look-up. */
static PyObject *look_up(PyObject *state, PyObject *cell, PyObject *indices) {
    PyObject *batch = SLOT(state, names.state_batch), *mode, *value, *result = NULL;
    if (!batch || Py_TYPE(batch) != names.batch_type || !has_room(batch)) return NULL;
    if (names.engine && SLOT(batch, names.batch_engine) == names.engine) return NULL; /* of the other framework */
    mode = PyLong_FromSsize_t(numbers_of(state)->mode);
    if (!mode) return NULL;
    value = PyObject_CallFunctionObjArgs(names.mxnet.look_up, cell, batch, indices, mode, NULL);
    Py_DECREF(mode);
    if (value && Py_TYPE(value) == core.value_type)
        result = wrap(&names.mxnet, PyObject_TypeCheck(indices, names.mxnet.plain[1]), value);
    Py_XDECREF(value);
    return result;
}

/* The cell of a block that nobody hybridized: a new reference, or NULL. */
static PyObject *automatic(PyObject *state, PyObject *const *args, Py_ssize_t count) {
    PyObject *rest, *cell;
    if (!names.hybrid_type || SLOT(state, names.state_batch) == Py_None || !PyObject_TypeCheck(args[0], names.hybrid_type)) return NULL;
    rest = tuple_from(args + 1, count - 1);
    if (!rest) return NULL;
    cell = PyObject_CallFunctionObjArgs(names.automatic, args[0], rest, NULL);
    Py_DECREF(rest);
    return cell;
}

/* gluon.Block.__call__ */
static PyObject *quick_call(PyObject *const *args, Py_ssize_t count) {
    PyObject *state, *dict = NULL, *cell = NULL, *result = NULL;
    int inside;
    if (!names.mxnet.cell_type) return NULL;
    state = state_here();
    if (!state) return NULL;
    if (numbers_of(state)->paused > 0 && SLOT(state, names.state_trace) == Py_None) {
        Py_DECREF(state); /* what runs eagerly costs no more than this */
        return PyObject_Vectorcall(names.mxnet.original, args, (size_t)count, NULL);
    }
    if (!is_running(state)) goto done;
    inside = numbers_of(state)->inside > 0;
    dict = PyObject_GenericGetDict(args[0], NULL);
    if (!dict) {
        PyErr_Clear();
        goto done;
    }
    cell = Py_XNewRef(PyDict_GetItemWithError(dict, names.key));
    if (!cell && !PyErr_Occurred()) cell = automatic(state, args, count);
    if (!cell || Py_TYPE(cell) != names.mxnet.cell_type) goto done;
    if (!inside && SLOT(cell, names.cell_chooses) == Py_True) {
        result = spare_call(&names.mxnet, state, cell, (int)(numbers_of(state)->mode & 2), args, count);
        goto done;
    }
    if (!unhooked(dict, str_hooks) || !unhooked(dict, str_pre_hooks)) goto done;
    if (SLOT(cell, names.cell_is_node) != Py_True)
        result = inside && are_lazy(args, count) ? forward(state, dict, args, count) : NULL;
    else if (SLOT(cell, names.mxnet.cell_lookup) != Py_None)
        result = count == 2 ? look_up(state, cell, args[1]) : NULL;
    else if (is_fine(state, args[0]))
        result = inside ? forward(state, dict, args, count) : NULL;
    else if (inside)
        result = capture(&names.mxnet, state, cell, args[0], args + 1, count - 1, NULL);
    else
        result = outside(state, cell, args, count);
done:
    Py_XDECREF(cell);
    Py_XDECREF(dict);
    Py_DECREF(state);
    return result;
}

static PyObject *quick_item(PyObject *const *args, Py_ssize_t count) {
    return count == 2 ? slice_of(&names.mxnet, 0, args[0], args[1]) : NULL;
}

static PyObject *quick_numpy_item(PyObject *const *args, Py_ssize_t count) {
    return count == 2 ? slice_of(&names.mxnet, 1, args[0], args[1]) : NULL;
}

/* A method of lazy tensors, which goes by PyTorch's parser of arguments. */
static PyObject *door(Hook *hook, PyObject *const *args, Py_ssize_t count) {
    if (hook->left != Py_None && count == 2 && Py_TYPE(args[1]) == names.torch.plain[0]) {
        PyObject *turned[2] = {args[1], args[0]}; /* Python asks the right one first, as its class is the other's and more */
        return operate(hook->left, hook->method, turned, 2);
    }
    return operate(hook->func, hook->function, args, count);
}

static struct {
    const char *name;
    Quick quick;
} kinds[] = {
    {"call", quick_call},
    {"item", quick_item},
    {"numpy_item", quick_numpy_item},
    {"operator", quick_operator},
    {"verify", quick_verify},
    {"numpy_verify", quick_numpy_verify},
    {"door", NULL},
};

static PyObject *hook_call(PyObject *self, PyObject *const *args, size_t flags, PyObject *keywords) {
    Hook *hook = (Hook *)self;
    Py_ssize_t count = PyVectorcall_NARGS(flags);
    PyObject *result = NULL;
    if (!keywords && count > 0 && names.local) {
        result = !hook->quick ? door(hook, args, count) : hook->quick(args, count);
        if (result || PyErr_Occurred()) return result;
    }
    if (Py_EnterRecursiveCall(" in a hook")) return NULL; /* of a hook of a hook */
    result = PyObject_Vectorcall(hook->function, args, flags, keywords);
    Py_LeaveRecursiveCall();
    return result;
}

static PyObject *hook_make(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    const char *name;
    PyObject *function, *func = Py_None, *left = Py_None, *method = Py_None;
    size_t k;
    if (!PyArg_ParseTuple(args, "sO|OOO:Hook", &name, &function, &func, &left, &method)) return NULL;
    for (k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        if (strcmp(kinds[k].name, name) == 0) {
            Hook *self = (Hook *)type->tp_alloc(type, 0);
            if (!self) return NULL;
            self->vectorcall = hook_call;
            self->quick = kinds[k].quick;
#define FILLED(name) self->name = Py_NewRef(name);
            FIELDS(FILLED)
            return (PyObject *)self;
        }
    }
    PyErr_Format(PyExc_ValueError, "there is no fast path %s", name);
    return NULL;
}

static PyObject *hook_bind(PyObject *self, PyObject *object, PyObject *type) {
    if (!object || object == Py_None) return Py_NewRef(self);
    return PyMethod_New(self, object);
}

/* Whatever else is asked for is the function's: its name, its documentation, its code. */
static PyObject *hook_attribute(PyObject *self, PyObject *name) {
    PyObject *found = PyObject_GenericGetAttr(self, name);
    if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
    PyErr_Clear();
    if (Py_EnterRecursiveCall(" in an attribute of a hook")) return NULL;
    found = PyObject_GetAttr(((Hook *)self)->function, name);
    Py_LeaveRecursiveCall();
    return found;
}

static PyObject *hook_doc(PyObject *self, void *ignored) {
    PyObject *found;
    if (Py_EnterRecursiveCall(" in the documentation of a hook")) return NULL;
    found = PyObject_GetAttrString(((Hook *)self)->function, "__doc__");
    Py_LeaveRecursiveCall();
    return found;
}

static int hook_traverse(Hook *self, visitproc visit, void *arg) {
#define VISITED(name) Py_VISIT(self->name);
    FIELDS(VISITED)
    return 0;
}

static int hook_clear(Hook *self) {
#define EMPTIED(name) Py_XSETREF(self->name, Py_NewRef(Py_None)); /* which may still be called */
    FIELDS(EMPTIED)
    return 0;
}

static void hook_dealloc(Hook *self) {
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, hook_dealloc)
#define ENDED(name) Py_XDECREF(self->name);
    FIELDS(ENDED)
    Py_TYPE(self)->tp_free(self);
    Py_TRASHCAN_END
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
