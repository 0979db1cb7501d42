# The types of doors.py.
cimport cython
from gluonjit._fast cimport BatchRoom, GraphRows, StateNumbers, Value
from gluonjit.graph.joining cimport copied, joined
from gluonjit.graph.slices cimport _picked
from gluonjit.graph.values cimport Spec
from gluonjit.native.bodies cimport is_stale, spec_of, tensor_of, value_in
from gluonjit.native.capture cimport captured, outside
from gluonjit.native.inputs cimport met
from gluonjit.native.modes cimport is_learning, is_overridden
from gluonjit.native.names cimport (
    Args, LEFT, LazyKind, PyObject_Vectorcall, all_of, fill_slot, is_running, is_torch, item, items_of, read_slot, slot_is, state_here,
    torch
)

cdef extern from "Python.h":
    int Py_EnterRecursiveCall(const char *where) except *
    void Py_LeaveRecursiveCall()

# As in engines/torch/capture/doors.py: a node always; for some arguments a reference, of known numbers rows; a write.
cdef enum:
    FREE, SUM, COPY, ROWS, STACK, VIEW, DETACH, PICK, WRITE

cdef object known_whole(object key)
cdef list known_numbers(object key)
cdef object through(object func, Args args, Py_ssize_t count, dict kwargs)
cdef object operate(object func, object method, Args args, Py_ssize_t count)
