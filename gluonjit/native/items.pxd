# The types of items.py.
cimport cython
from cpython.object cimport PyObject, PyTypeObject
from gluonjit._fast cimport BatchRoom, GraphRows, StateNumbers, Value
from gluonjit.graph.slices cimport _picked, sliced
from gluonjit.graph.values cimport Spec
from gluonjit.native.bodies cimport is_stale, note_view, spec_of, tensor_of, value_in, wrap
from gluonjit.native.doors cimport known_numbers, through
from gluonjit.native.modes cimport is_learning, is_overridden
from gluonjit.native.names cimport Args, LEFT, LazyKind, is_running, mxnet, package, read_slot, state_here, torch

cdef extern from "slots.h":
    void never_listed(object kind)


cdef class Items:
    pass


cdef class Silent:
    pass


cdef object slice_of(LazyKind kind, object array, object key)
