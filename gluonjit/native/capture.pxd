# The types of capture.py.
cimport cython
from gluonjit._fast cimport BatchRoom, CellSlots, Record, StateNumbers, Value, new_node, value_at
from gluonjit.graph.entries cimport number_in
from gluonjit.graph.joining cimport same_rows
from gluonjit.graph.values cimport Spec
from gluonjit.native.bodies cimport is_stale, note_view, spec_of, tensor_of, value_in, wrap
from gluonjit.native.inputs cimport met
from gluonjit.native.modes cimport is_learning
from gluonjit.native.names cimport (
    ADDRESS, Args, FrameworkNames, LEFT, LazyKind, Pointer, all_of, is_running, is_torch, item, items_of, mxnet,
    package, read_slot, slot_is, state_here, torch
)
from gluonjit.native.signatures cimport (
    CONSTANT, DEVICE, END, MOST, NAMED, NO_ARGUMENT, SLICE, SeenCall, SignatureEntry, SignatureTable, append,
    append_bits, append_number, begin, close, current, finish, opened, own, secure, take
)

cdef extern from "Python.h":
    bint PyUnicode_CHECK_INTERNED(object)
    bint PyModule_CheckExact(object)

cdef long _found

cdef enum:
    EVERY = 1000  # as in hybrid/capture/guards/variants.py
    MOST_KEYS = 1024
    CHANGES = 2  # the part of a signature that says how often modules have changed

cdef object wrapped(LazyKind kind, Record record, Py_ssize_t node, Py_ssize_t k)
cdef object wrapped_all(LazyKind kind, Record record, Py_ssize_t node, bint listed)
cdef bint lay(SeenCall call, StateNumbers state, tuple operands) except -1
cdef Py_ssize_t node_of(SeenCall call, SignatureEntry entry, bint sharing) except -1
cdef bint is_fine(StateNumbers state, object block) except -1
cdef object captured(
    FrameworkNames of, StateNumbers state, object cell, object owner, object viewing, Args args, Py_ssize_t count, dict named
)
cdef object outside(
    FrameworkNames of, StateNumbers state, object cell, object owner, object viewing, Args args, Py_ssize_t count, dict named
)
