# The types of joining.py where it is compiled.
cimport cython
from gluonjit._fast cimport Value
from gluonjit.graph.values cimport Spec

@cython.final
cdef class Copied:
    cdef public object value

cpdef joined(values, mode)
cpdef copied(Value value)
cdef shown_as(Value value, spec)
cdef seen_as(Value value, spec)
