# The types of frames.py where it is compiled.
cimport cython
from cpython.object cimport PyObject

cdef extern from "stack.h":
    ctypedef struct Frame:
        pass
    Frame *frame_here()
    Frame *frame_before(Frame *frame)
    PyObject *globals_of(Frame *frame)
    PyObject *code_of(Frame *frame)
    int offset_in(Frame *frame)

cpdef bint is_library(dict module) except -1
cdef dict _known
cdef list _places

cdef public object _user_line "user_line" ()
