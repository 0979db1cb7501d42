# The types of joining.py where it is compiled.
cimport cython
from gluonjit._fast cimport Value, new_value
from gluonjit.graph.values cimport Spec

@cython.final
cdef class Copied:
    cdef public object value

cpdef joined(values, mode)
cpdef copied(Value value)
cpdef Value same_rows(Value value, Spec spec, rows)
cdef seen_as(Value value, spec)
