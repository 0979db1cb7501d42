# The types of slices.py where it is compiled.
cimport cython
from cpython.object cimport PyObject
from gluonjit._fast cimport GraphRows, Value, new_value
from gluonjit.graph.values cimport Spec

cdef extern from "Python.h":
    Py_ssize_t PyNumber_AsSsize_t(object number, PyObject *error)


@cython.final
cdef class Key:
    cdef public object key


cpdef sliced(Value value, key)
cdef _picked(Value value, list numbers)
