# The types of slices.py where it is compiled.
cimport cython
from cpython.object cimport PyObject
from gluonjit._fast cimport GraphRows, Value, core
from gluonjit.graph.values cimport Spec

cdef extern from "Python.h":
    Py_ssize_t PyNumber_AsSsize_t(object number, PyObject *error)

cdef public object _sliced "rows_by" (object given, object key)
cdef public object _picked "rows_at" (object given, list numbers)
