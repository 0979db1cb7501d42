# The types of items.py.
cimport cython
from gluonjit._fast cimport BatchRoom, GraphRows, StateNumbers, Value
from gluonjit.graph.entries cimport entries_at
from gluonjit.graph.slices cimport Key, _picked, sliced
from gluonjit.graph.values cimport Spec
from gluonjit.native.bodies cimport is_stale, note_view, tensor_of, value_in, wrap
from gluonjit.native.capture cimport captured
from gluonjit.native.doors cimport known_whole, through
from gluonjit.native.modes cimport is_learning, is_overridden
from gluonjit.native.names cimport (
    ADDRESS, LEFT, LazyKind, fill_slot, is_running, is_torch, items_of, package, read_slot, slot_is, state_here, torch
)

cdef extern from "slots.h":
    void never_listed(object kind)


cdef class Items:
    pass


cdef class Silent:
    pass


cdef object slice_of(LazyKind kind, object array, object key)
cdef object entry_of_weight(object weight, object key)
