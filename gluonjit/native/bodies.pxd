# The types of bodies.py.
cimport cython
from gluonjit._fast cimport Value
from gluonjit.graph.values cimport Spec
from gluonjit.native.names cimport LazyKind, fill_slot, mxnet, read_slot, slot_is, torch

cdef extern from "slots.h":
    int bodies
    object last_of(list)
    object allocate(object kind)
    object (*place_for)(object, object)
    object _keep "keep_bodies" (object lazy)

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(object)
    void PyObject_GC_Track(object)
    void PyObject_GC_UnTrack(object)

cdef enum:
    MOST_BODIES = 32768  # 16 MB: each takes 300 to 500 bytes

cdef object tensor_of(Value value)
cdef object wrap(LazyKind kind, Value value)
cdef int note_view(LazyKind kind, object view, object array, object key) except -1
cdef object _place_for(object value, object computed)


# Tells whether a tensor is a view of what has been written to since it was taken: Python takes it anew.
cdef inline bint is_stale(object tensor) except -1:
    cdef LazyKind kind = torch.lazy
    if slot_is(tensor, kind.b, None):
        return False
    base = read_slot(tensor, kind.b)
    return type(base) is not kind.kind or not slot_is(base, kind.n, read_slot(tensor, kind.n))


# The value of a lazy array; None where it has none yet, or an argument is something else.
cdef inline Value value_in(LazyKind kind, object array):
    if type(array) is not kind.kind:
        return None
    value = read_slot(array, kind.v)
    return <Value>value if type(value) is Value else None


# How the value of a lazy array looks, or None.
cdef inline Spec spec_of(LazyKind kind, object array):
    cdef Value value = value_in(kind, array)
    return <Spec>value.spec if value is not None and type(value.spec) is Spec else None
