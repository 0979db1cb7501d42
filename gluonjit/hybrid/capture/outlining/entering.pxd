# The types of entering.py where it is compiled.
cimport cython
from gluonjit._fast cimport BatchRoom, StateNumbers

cdef class AsWritten:
    cdef public Py_ssize_t depth

cdef class Entry:
    cdef public object local
    cdef public AsWritten as_written
    cdef public list methods
    cdef public list helpers
    cdef public object cells
    cdef object __weakref__

cdef class MadeCall:
    cdef public object cell
    cdef public object holder
    cdef public object quick
    cdef public object otherwise
    cdef public object grown
    cdef public object is_first
    cdef public object may
    cdef public object lazy
    cdef public Py_ssize_t calls
    cdef public Py_ssize_t signatures
    cdef public dict no_names
