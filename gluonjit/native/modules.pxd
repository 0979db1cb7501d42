# The types of modules.py.
cimport cython
from cpython.object cimport PyObject
from gluonjit._fast cimport BatchRoom, CellSlots, GraphRows, StateNumbers, Value
from gluonjit.graph.entries cimport entries_at
from gluonjit.native.bodies cimport tensor_of
from gluonjit.native.capture cimport captured
from gluonjit.native.doors cimport known_numbers
from gluonjit.native.modes cimport is_learning
from gluonjit.native.names cimport (
    ADDRESS, Args, FrameworkNames, LEFT, PyObject_Vectorcall, PyObject_VectorcallMethod, all_of, is_running, is_torch,
    item, state_here, torch
)

cdef extern from "Python.h":
    object PyObject_GenericGetAttr(object, object)
    object PyMethod_New(object, object)
    bint PyFunction_Check(object)

cdef extern from "slots.h":
    object dict_of(object)
    object of_class(object kind, object name)
    void find_by(object kind, object base, void *finder)

cdef tuple _PARTS, _HOOKS

cdef dict own_dict(object module)
cdef bint unhooked(dict own, object name)
cdef object part_of(object module, object name)
cdef object run_module(Args args, Py_ssize_t count, PyObject *keywords)
cdef object spare_call(FrameworkNames of, StateNumbers state, CellSlots cell, int mode, Args args, Py_ssize_t count)
cdef object call_module(Args args, Py_ssize_t count, PyObject *keywords)
