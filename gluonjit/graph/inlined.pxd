# Functions that are compiled into each file that uses them; inlined.py has them for interpretation.
from cpython.array cimport array as cython_array
from cpython.list cimport PyList_GET_ITEM
from cpython.object cimport PyObject

cdef enum:
    UNREAD = 1


cdef inline long long number_at(cython_array of, Py_ssize_t k) noexcept:
    return of.data.as_longlongs[k]


cdef inline void set_number(cython_array of, Py_ssize_t k, long long number) noexcept:
    of.data.as_longlongs[k] = number


cdef inline Py_ssize_t references(list values, Py_ssize_t k) noexcept:
    cdef PyObject *found = PyList_GET_ITEM(values, k)  # to hold the object meanwhile would be to write to it
    return 0 if found == <PyObject *>None else found.ob_refcnt


cdef inline bint is_held(list values, Py_ssize_t k) noexcept:
    return references(values, k) > UNREAD
