# The types of hooks.py.
cimport cython
from cpython.object cimport PyObject
from gluonjit._fast cimport BatchRoom, CellSlots, StateNumbers
from gluonjit.native.capture cimport captured
from gluonjit.native.doors cimport operate
from gluonjit.native.items cimport entry_of_weight, slice_of
from gluonjit.native.modules cimport call_module, part_of
from gluonjit.native.names cimport (
    ADDRESS, Args, FrameworkNames, LEFT, Pointer, PyObject_Vectorcall, all_of, is_running, is_torch, item, items_of,
    mxnet, package, state_here, torch
)
from gluonjit.native.operators cimport call_block, call_operator, verified

ctypedef object (*Before)(object, Args, size_t, PyObject *)

cdef extern from "slots.h":
    ctypedef struct PyFrameObject:
        pass
    long long code_at(PyFrameObject *)
    object of_class(object kind, object name)
    void call_by(object kind, Py_ssize_t offset)
    void *exchange_call(object function, void *before)

cdef extern from "Python.h":
    int Py_EnterRecursiveCall(const char *where) except *
    void Py_LeaveRecursiveCall()
    Py_ssize_t PyVectorcall_NARGS(size_t) noexcept
    object PyObject_GenericGetAttr(object, object)
    object PyMethod_New(object, object)
    void PyEval_SetProfile(void *, PyObject *)
    bint PyFunction_Check(object)
    int PyTrace_CALL

ctypedef PyFrameObject *Frame

cdef class Hook:
    cdef Before _before
    cdef readonly object __wrapped__
    cdef object _func, _left, _method
    cdef int _way


cdef class Celled:
    cdef Before _before
    cdef public dict caches


cdef dict _passed_over
cdef object _behind
cdef tuple _WAYS
cdef int _before_line(object notice, Frame frame, int what, PyObject *arg) except -1
cdef Before _as_it_was
