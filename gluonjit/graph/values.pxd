# The types of values.py where it is compiled.
cimport cython


@cython.final
cdef class Spec:
    cdef public object shape
    cdef public object dtype
    cdef public object device
    cdef public object mode
    cdef public tuple row_shape
    cdef public dict of_rows
    cdef public object bodies
    cdef public object bytes
    cdef public Py_ssize_t rows
    cdef public bint floats
    cdef public Spec row
