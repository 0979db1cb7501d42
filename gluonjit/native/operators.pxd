# The types of operators.py.
cimport cython
from gluonjit._fast cimport BatchRoom, CellSlots, Record, StateNumbers, Value
from gluonjit.graph.joining cimport joined, seen_as
from gluonjit.graph.values cimport Spec
from gluonjit.native.bodies cimport wrap
from gluonjit.native.capture cimport captured, is_fine, lay, node_of, outside, wrapped, wrapped_all
from gluonjit.native.modules cimport own_dict, spare_call, unhooked
from gluonjit.native.names cimport (
    ADDRESS, Args, LEFT, LazyKind, PyObject_Vectorcall, PyObject_VectorcallMethod, all_of, is_running, is_torch, item,
    mxnet, read_slot, slot_is, state_here
)
from gluonjit.native.signatures cimport (
    MOST, NO_ARGUMENT, OPERATOR, PARAMETER, TEXT, SeenCall, SignatureEntry, append, append_bits, append_number, begin,
    close, opened, take
)

cdef extern from "Python.h":
    bint PyUnicode_CHECK_INTERNED(object)

cdef object call_operator(Args args, Py_ssize_t count)
cdef object verified(Args args, Py_ssize_t count, bint numpy)
cdef object call_block(Args args, Py_ssize_t count)
