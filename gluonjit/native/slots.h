/* Slots of instances, and what else of Python's interface Cython has no words for. */

#ifndef GLUONJIT_SLOTS_H
#define GLUONJIT_SLOTS_H

#include <Python.h>
#include <structmember.h>

#if PY_VERSION_HEX < 0x030A0000
static inline PyObject *Py_XNewRef(PyObject *object) {
    Py_XINCREF(object);
    return object;
}
#define Py_NewRef Py_XNewRef
#endif

#define ADDRESS(object) ((long long)(size_t)(object))
#define FACTOR 0x9E3779B97F4A7C15ull /* of hashes: 2 ** 64 by the golden ratio */
#define SLOT(object, offset) (*(PyObject **)((char *)(object) + (offset)))

/* An exception: a slot holds nothing. Gives NULL. */
static inline PyObject *no_such_slot(void) {
    PyErr_SetString(PyExc_TypeError, "a slot of a lazy array holds nothing; nobody but gluonjit writes to it");
    return NULL;
}

/* What a slot holds: a new reference. */
static inline PyObject *read_slot(PyObject *object, Py_ssize_t offset) {
    PyObject *content = SLOT(object, offset);
    return content ? Py_NewRef(content) : no_such_slot();
}

static inline int slot_is(PyObject *object, Py_ssize_t offset, PyObject *content) { return SLOT(object, offset) == content; }

/* The last item of a list that has some, out of it; the list keeps its room. */
static inline PyObject *last_of(PyObject *list) {
    Py_ssize_t count = PyList_GET_SIZE(list) - 1;
    Py_SET_SIZE((PyVarObject *)list, count);
    return PyList_GET_ITEM(list, count);
}

/* Put an object into a slot. */
static inline void fill_slot(PyObject *object, Py_ssize_t offset, PyObject *content) {
    PyObject *old = SLOT(object, offset);
    SLOT(object, offset) = Py_NewRef(content);
    Py_XDECREF(old);
}

/* The place of a slot, given what a class has under its name: -1 and an exception where that is none. */
static inline Py_ssize_t offset_of(PyObject *member) {
    if (Py_IS_TYPE(member, &PyMemberDescr_Type)) return ((PyMemberDescrObject *)member)->d_member->offset;
    PyErr_Format(PyExc_TypeError, "%R is no slot", member);
    return -1;
}

/* What a class and its bases have under a name, or None: a new reference. */
static inline PyObject *of_class(PyObject *type, PyObject *name) {
    PyObject *found = _PyType_Lookup((PyTypeObject *)type, name);
    return Py_NewRef(found ? found : Py_None);
}

static inline PyObject *allocate(PyObject *type) { return PyType_GenericAlloc((PyTypeObject *)type, 0); }

/* An object's `__dict__`, or None where it has none: a new reference. */
static inline PyObject *dict_of(PyObject *object) {
    PyObject *found = PyObject_GenericGetDict(object, NULL);
    if (found) return found;
    PyErr_Clear();
    return Py_NewRef(Py_None);
}

static inline PyObject **items_of(PyObject *tuple) { return ((PyTupleObject *)tuple)->ob_item; }

/* A version that every change of a dict or a class changes: 0 where there is none. */
static inline int64_t version_of(PyObject *container) {
    if (PyType_Check(container) && PyType_HasFeature((PyTypeObject *)container, Py_TPFLAGS_VALID_VERSION_TAG))
        return (int64_t)((PyTypeObject *)container)->tp_version_tag;
#if PY_VERSION_HEX < 0x030C0000
    if (PyDict_Check(container)) return (int64_t)((PyDictObject *)container)->ma_version_tag;
#endif
    return 0;
}

/* Put another function before calls of a function of Python. Gives what was there. */
static inline vectorcallfunc exchange_call(PyObject *given, vectorcallfunc before) {
    PyFunctionObject *function = (PyFunctionObject *)given;
    vectorcallfunc old = function->vectorcall;
#if PY_VERSION_HEX >= 0x030C0000
    PyFunction_SetVectorcall(function, before);
#else
#if PY_VERSION_HEX >= 0x030B0000
    function->func_version = 0; /* calls of it that know it by its version look again */
#endif
    function->vectorcall = before;
#endif
    return old;
}

/* Let instances of a class be called by what lies at an offset of theirs. */
static inline void call_by(PyObject *type, Py_ssize_t offset) {
    PyTypeObject *changed = (PyTypeObject *)type;
    if (offset) changed->tp_vectorcall_offset = offset;
    if (offset) changed->tp_call = PyVectorcall_Call;
    changed->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
    PyType_Modified(changed);
}

/* The address of the code that a frame runs. */
static inline long long code_at(PyFrameObject *frame) {
    PyCodeObject *code = PyFrame_GetCode(frame);
    Py_DECREF(code); /* which the frame has as well */
    return ADDRESS(code);
}

/* Let a class with items be no sequence to C. */
static inline void never_listed(PyObject *type) { ((PyTypeObject *)type)->tp_as_sequence = NULL; }

/* Let a class find attributes by a function of C where it does so as another, before Python 3.12: from there on that gains
   nothing. */
static inline void find_by(PyObject *type, PyObject *base, void *finder) {
#if PY_VERSION_HEX < 0x030C0000
    PyTypeObject *changed = (PyTypeObject *)type;
    if (PyType_HasFeature(changed, Py_TPFLAGS_HEAPTYPE) && changed->tp_getattro == ((PyTypeObject *)base)->tp_getattro)
        changed->tp_getattro = (getattrofunc)finder;
#endif
}

/* tensors.c */

typedef struct {
    PyTypeObject *type;
    Py_ssize_t v, c, b, k, n; /* of its slots: see engines/torch/values/lazy.py */
} Tensors;

extern Tensors tensors;
extern int bodies; /* that lie ready, of all specs */

/* native/bodies.py: the list for a tensor that had this value and stood for this, or None where it is not to be kept */
extern PyObject *(*place_for)(PyObject *value, PyObject *computed);

PyObject *keep_bodies(PyObject *lazy);

#endif
