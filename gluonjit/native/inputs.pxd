# The types of inputs.py.
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.string cimport memcmp
from gluonjit._fast cimport BatchRoom, GraphRows, InputSlots, Leaf, StateNumbers, Value
from gluonjit.graph.entries cimport entries_value, rows_of
from gluonjit.graph.frames cimport Frame, code_of, frame_before, frame_here, globals_of, is_library
from gluonjit.graph.values cimport Spec
from gluonjit.native.bodies cimport tensor_of, value_in
from gluonjit.native.modes cimport is_learning
from gluonjit.native.names cimport ADDRESS, fill_slot, is_running, read_slot, slot_is, state_here, torch

cdef Value met(BatchRoom batch, GraphRows graph, object array)
