/* Lazy tensors of values. To make a tensor takes PyTorch most of a microsecond, and nearly all lazy ones end as soon as
   the program has passed them on: what ends is kept, with the spec that says how it looks, and is used again. */

#include "fast.h"

#define MOST_BODIES 32768 /* 16 MB: each takes 300 to 500 bytes */

static destructor end_tensor; /* PyTorch's own */
static int bodies;            /* that lie ready, of all specs */

/* Tells whether a tensor is a view of what has been written to since it was taken: Python takes it anew. */
int is_stale(PyObject *tensor) {
    PyObject *base = SLOT(tensor, names.torch.lazy_b[0]);
    if (base == Py_None) return 0;
    if (!base || Py_TYPE(base) != names.torch.lazy[0]) return 1; /* Python says what is wrong */
    return SLOT(base, names.torch.lazy_n) != SLOT(tensor, names.torch.lazy_n);
}

/* Tells whether nobody has put anything on a tensor that ends with it, or refers to it. */
static int is_bare(PyObject *tensor) {
    PyTypeObject *type = Py_TYPE(tensor);
    int bare;
    if (type->tp_weaklistoffset && *(PyObject **)((char *)tensor + type->tp_weaklistoffset) != NULL) return 0;
#if PY_VERSION_HEX < 0x030D0000
    PyObject **place = _PyObject_GetDictPtr(tensor); /* once asked for it is there for good */
    if (place && *place != NULL && Py_REFCNT(*place) > 1) Py_CLEAR(*place); /* that of an input, too */
    bare = place && (*place == NULL || (PyDict_GET_SIZE(*place) == 0 && Py_REFCNT(*place) == 1));
#else
    PyObject *dict = PyObject_GenericGetDict(tensor, NULL);
    if (!dict) {
        PyErr_Clear();
        return 0;
    }
    bare = PyDict_GET_SIZE(dict) == 0 && Py_REFCNT(dict) == 2;
    Py_DECREF(dict);
#endif
    return bare;
}

/* Keep a tensor that has ended: 1 where that was done. The collector does not look at it while it lies ready. */
static int keep(PyObject *tensor) {
    PyObject *value = SLOT(tensor, names.torch.lazy_v[0]), *computed = SLOT(tensor, names.torch.lazy_c[0]), *spec, *kept;
    PyObject *base, *key, *count;
    int failed;
    if (!value || Py_TYPE(value) != core.value_type || !computed || PyErr_Occurred()) return 0;
    if (computed != Py_None && computed != ((Value *)value)->base) return 0; /* nor does it stand for an input */
    spec = ((Value *)value)->spec;
    if (!spec || bodies >= MOST_BODIES || Py_TYPE(spec) != names.spec_type) return 0; /* NULL: in garbage */
    kept = ((Spec *)spec)->bodies;
    if (!kept || (kept != Py_None && !PyList_CheckExact(kept))) return 0;
    Py_SET_REFCNT(tensor, 1);
    if (!is_bare(tensor)) {
        Py_SET_REFCNT(tensor, 0);
        return 0;
    }
    if (kept == Py_None) {
        kept = PyList_New(0);
        if (kept) set_slot(spec, offsetof(Spec, bodies), kept);
    }
    failed = !kept || PyList_Append(kept, tensor) < 0;
    if (failed) {
        PyErr_Clear();
        Py_SET_REFCNT(tensor, 0);
        return 0;
    }
    bodies++;
    PyObject_GC_UnTrack(tensor);
    Py_SET_REFCNT(tensor, 1); /* the list's */
    SLOT(tensor, names.torch.lazy_c[0]) = Py_NewRef(Py_Ellipsis); /* lies ready */
    SLOT(tensor, names.torch.lazy_v[0]) = Py_NewRef(Py_None);
    base = SLOT(tensor, names.torch.lazy_b[0]);
    key = SLOT(tensor, names.torch.lazy_k[0]);
    count = SLOT(tensor, names.torch.lazy_n);
    SLOT(tensor, names.torch.lazy_b[0]) = Py_NewRef(Py_None);
    SLOT(tensor, names.torch.lazy_k[0]) = Py_NewRef(Py_None);
    SLOT(tensor, names.torch.lazy_n) = Py_NewRef(Py_None);
    Py_XDECREF(key); /* only now: their ends may take the tensor into use, or be what keeps the spec alive, and with it it */
    Py_XDECREF(count);
    Py_XDECREF(base);
    Py_DECREF(computed);
    Py_DECREF(value);
    return 1;
}

/* Let go of whatever a tensor refers to, after which its end runs no code of the program's. */
static void strip(PyObject *tensor) {
    PyObject *value = SLOT(tensor, names.torch.lazy_v[0]), *computed = SLOT(tensor, names.torch.lazy_c[0]), *dict;
    PyObject *base = SLOT(tensor, names.torch.lazy_b[0]), *key = SLOT(tensor, names.torch.lazy_k[0]);
    PyObject *count = SLOT(tensor, names.torch.lazy_n), *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyObject_GC_UnTrack(tensor);
    if (Py_TYPE(tensor)->tp_weaklistoffset) PyObject_ClearWeakRefs(tensor);
    Py_SET_REFCNT(tensor, 1);
    SLOT(tensor, names.torch.lazy_v[0]) = SLOT(tensor, names.torch.lazy_c[0]) = NULL;
    SLOT(tensor, names.torch.lazy_b[0]) = SLOT(tensor, names.torch.lazy_k[0]) = SLOT(tensor, names.torch.lazy_n) = NULL;
    Py_XDECREF(value);
    Py_XDECREF(computed);
    Py_XDECREF(base);
    Py_XDECREF(key);
    Py_XDECREF(count);
    dict = PyObject_GenericGetDict(tensor, NULL);
    if (dict && Py_REFCNT(dict) == 2) PyDict_Clear(dict); /* nobody else has it */
    Py_XDECREF(dict);
    Py_SET_REFCNT(tensor, 0);
    PyErr_Restore(type, error, trace);
}

static void end(PyObject *tensor) {
    PyTypeObject *lazy = names.torch.lazy[0];
    int ready = SLOT(tensor, names.torch.lazy_c[0]) == Py_Ellipsis;
    if (ready) bodies--;
    if (!ready && keep(tensor)) return;
    strip(tensor);
    lazy->tp_dealloc = end_tensor; /* it looks for itself in the class and its bases, to know where it began */
    end_tensor(tensor);
    lazy->tp_dealloc = end;
}

/* From now on tensors of this class are kept when they end. There is one such class. */
PyObject *keep_bodies(PyObject *module, PyObject *lazy) {
#ifndef Py_GIL_DISABLED
    destructor *dealloc;
    if ((PyTypeObject *)lazy != names.torch.lazy[0])
        return PyErr_Format(PyExc_TypeError, "keep_bodies() takes the class of lazy tensors, not %R", lazy);
    dealloc = &((PyTypeObject *)lazy)->tp_dealloc;
    if (*dealloc != end) {
        if (end_tensor) return PyErr_Format(PyExc_TypeError, "there is a class of lazy tensors already");
        end_tensor = *dealloc;
        *dealloc = end;
    }
#endif
    Py_RETURN_NONE;
}

/* Tells whether this is a tensor that lies ready, and that nobody has got hold of. */
static inline int is_ready(PyObject *tensor) {
    return Py_TYPE(tensor) == names.torch.lazy[0] && Py_REFCNT(tensor) == 1 &&
           SLOT(tensor, names.torch.lazy_c[0]) == Py_Ellipsis;
}

PyObject *tensor_of(PyObject *value) {
    PyObject *spec = ((Value *)value)->spec, *kept, *tensor;
    Py_ssize_t count;
    if (Py_TYPE(spec) != names.spec_type) return no_such_slot(spec, names.spec_type);
    kept = ((Spec *)spec)->bodies;
    count = !kept || !PyList_CheckExact(kept) ? 0 : PyList_GET_SIZE(kept);
    if (count == 0 || !is_ready(PyList_GET_ITEM(kept, count - 1))) return PyObject_CallOneArg(names.make, value);
    tensor = PyList_GET_ITEM(kept, count - 1); /* with the list's reference */
    Py_SET_SIZE((PyVarObject *)kept, count - 1);
    bodies--;
    set_slot(tensor, names.torch.lazy_v[0], Py_NewRef(value));
    set_slot(tensor, names.torch.lazy_c[0], Py_NewRef(Py_None));
    PyObject_GC_Track(tensor);
    return tensor;
}

PyObject *tensor(PyObject *module, PyObject *value) {
    if (!names.make || Py_TYPE(value) != core.value_type || Py_TYPE(((Value *)value)->spec) != names.spec_type)
        return PyErr_Format(PyExc_TypeError, "tensor() takes a Value");
    return tensor_of(value);
}

PyObject *spare_bodies(PyObject *module, PyObject *ignored) { return PyLong_FromLong(bodies); }

PyObject *wrap(const Framework *of, int interface, PyObject *value) {
    PyTypeObject *type = of->lazy[interface];
    PyObject *array;
    if (of == &names.torch) return tensor_of(value);
    array = type->tp_alloc(type, 0);
    if (!array) return NULL;
    PyObject_GC_UnTrack(array); /* nothing refers to a lazy array that it refers to: it is in no circle */
    SLOT(array, of->lazy_c[interface]) = Py_NewRef(Py_None);
    SLOT(array, of->lazy_b[interface]) = Py_NewRef(Py_None);
    SLOT(array, of->lazy_k[interface]) = Py_NewRef(Py_None);
    Py_INCREF(value);
    SLOT(array, of->lazy_v[interface]) = value;
    return array;
}
