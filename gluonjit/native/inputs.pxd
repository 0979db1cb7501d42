# The types of inputs.py.
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.string cimport memcmp
from gluonjit._fast cimport BatchRoom, GraphRows, Value
from gluonjit.graph.entries cimport rows_of
from gluonjit.graph.values cimport Spec
from gluonjit.native.bodies cimport value_in
from gluonjit.native.modes cimport is_learning
from gluonjit.native.names cimport ADDRESS, read_slot, slot_is, state_here, torch

cdef Value met(BatchRoom batch, GraphRows graph, object array)
