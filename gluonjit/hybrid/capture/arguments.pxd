# The types of arguments.py where it is compiled.

cdef class LentArguments:
    cdef public list args
    cdef dict _own
    cdef list _lent
