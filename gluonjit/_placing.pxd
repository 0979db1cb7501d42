# The types of the classes in analysis/flat/placing.py where it is compiled.
cimport cython


@cython.final
@cython.freelist(64)
cdef class Place:
    cdef readonly Py_ssize_t arena
    cdef readonly Py_ssize_t begin
    cdef readonly Py_ssize_t end


@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class Gather:
    cdef readonly Place place
    cdef object _of
    cdef Py_ssize_t _begin
    cdef Py_ssize_t _end


@cython.final
cdef class Laid:
    cdef public object records
    cdef public object order
    cdef public object arities
    cdef public list cuts


@cython.final
cdef class Step:
    cdef readonly object kind
    cdef readonly int mode
    cdef readonly Py_ssize_t count
    cdef readonly tuple gathers
    cdef readonly tuple places
    cdef object _parts
    cdef Laid _laid
    cdef Py_ssize_t _first
    cdef Py_ssize_t _last
