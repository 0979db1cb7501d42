/* The ends of lazy tensors. To make a tensor takes PyTorch most of a microsecond, and nearly all lazy ones end as soon as
   the program has passed them on: what ends is kept, with the spec that says how it looks, and is used again. */

#include "slots.h"

Tensors tensors;
int bodies;
static destructor end_tensor; /* PyTorch's own */

PyObject *(*place_for)(PyObject *value, PyObject *computed);

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

/* Let go of what the slots of a tensor hold, once they hold this instead. */
static void exchange(PyObject *tensor, PyObject *computed, PyObject *others) {
    const Py_ssize_t slots[] = {tensors.c, tensors.v, tensors.b, tensors.k, tensors.n};
    PyObject *old[5];
    int k;
    for (k = 0; k < 5; k++) {
        old[k] = SLOT(tensor, slots[k]);
        SLOT(tensor, slots[k]) = Py_XNewRef(k ? others : computed);
    }
    for (k = 5; k-- > 0;) Py_XDECREF(old[k]); /* only now: their ends may take it into use, or keep its spec alive */
}

/* Keep a tensor that has ended: 1 where that was done. The collector does not look at it while it lies ready. */
static int keep(PyObject *tensor) {
    PyObject *value = SLOT(tensor, tensors.v), *computed = SLOT(tensor, tensors.c), *kept;
    int failed;
    if (!value || !computed || PyErr_Occurred()) return 0;
    kept = place_for(value, computed);
    Py_SET_REFCNT(tensor, 1);
    failed = !kept || kept == Py_None || !is_bare(tensor) || PyList_Append(kept, tensor) < 0;
    Py_XDECREF(kept);
    if (failed) {
        PyErr_Clear();
        Py_SET_REFCNT(tensor, 0);
        return 0;
    }
    bodies++;
    PyObject_GC_UnTrack(tensor);
    Py_SET_REFCNT(tensor, 1); /* the list's */
    exchange(tensor, Py_Ellipsis, Py_None); /* lies ready */
    return 1;
}

/* Let go of whatever a tensor refers to, after which its end runs no code of the program's. */
static void strip(PyObject *tensor) {
    PyObject *dict, *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyObject_GC_UnTrack(tensor);
    if (Py_TYPE(tensor)->tp_weaklistoffset) PyObject_ClearWeakRefs(tensor);
    Py_SET_REFCNT(tensor, 1);
    exchange(tensor, NULL, NULL);
    dict = PyObject_GenericGetDict(tensor, NULL);
    if (dict && Py_REFCNT(dict) == 2) PyDict_Clear(dict); /* nobody else has it */
    Py_XDECREF(dict);
    Py_SET_REFCNT(tensor, 0);
    PyErr_Restore(type, error, trace);
}

static void end(PyObject *tensor) {
    int ready = SLOT(tensor, tensors.c) == Py_Ellipsis;
    if (ready) bodies--;
    if (!ready && keep(tensor)) return;
    strip(tensor);
    tensors.type->tp_dealloc = end_tensor; /* it looks for itself in the class and its bases, to know where it began */
    end_tensor(tensor);
    tensors.type->tp_dealloc = end;
}

/* From now on tensors of the class of lazy ones are kept when they end. There is one such class. */
PyObject *keep_bodies(PyObject *lazy) {
#ifndef Py_GIL_DISABLED
    destructor *dealloc = &((PyTypeObject *)lazy)->tp_dealloc;
    if ((PyTypeObject *)lazy != tensors.type)
        return PyErr_Format(PyExc_TypeError, "keep_bodies() takes the class of lazy tensors, not %R", lazy);
    if (*dealloc != end) {
        if (end_tensor) return PyErr_Format(PyExc_TypeError, "there is a class of lazy tensors already");
        end_tensor = *dealloc;
        *dealloc = end;
    }
#endif
    Py_RETURN_NONE;
}
