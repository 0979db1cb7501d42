# The types of facts.py where it is compiled.
cimport cython
from cpython.array cimport array as cython_array
from cpython.object cimport PyObject, PyTypeObject

cdef extern from "slots.h":
    long long version_of(object container)

cdef extern from "string.h":
    int memcmp(const void *, const void *, size_t)

cdef extern from "Python.h":
    PyObject *_PyType_Lookup(PyTypeObject *kind, object name)
    bint PyCell_Check(object)
    PyObject *PyCell_GET(object)
    bint PyFunction_Check(object)
    PyObject *PyFunction_GetCode(object)
    object PyObject_GenericGetDict(object, void *)
    int Py_EnterRecursiveCall(const char *where) except *
    void Py_LeaveRecursiveCall()

cpdef enum:
    ENTRY, ITEM, SIZE, CELL, CLASS, DEFAULTS, CONTENTS, SLOT, KIND, CODE, OF_LIBRARY


@cython.final
cdef class Guards:
    cdef tuple _facts
    cdef cython_array _versions  # of the dicts and classes, when they were last seen to hold; 0 where that is not known

@cython.final
cdef class Fingerprint:
    cdef list _kept
    cdef cython_array _seen
    cdef Py_ssize_t _count

cpdef bint is_plain(object value) except -1
cpdef bint alike(object one, object other) except -1
cpdef object read_at(int way, object container, object key)
cpdef object class_attribute(object kind, object name)
cdef int _hold(object guards) except -1
