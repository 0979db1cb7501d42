# The types of entries.py where it is compiled.
cimport cython
from gluonjit._fast cimport GraphRows, Value
from gluonjit.graph.values cimport Spec

cpdef tuple rows_of(GraphRows graph, dict entries, numbers)
cpdef entries_at(GraphRows graph, dict entries, numbers, Py_ssize_t size, Spec spec, bint taped)
cpdef whole(GraphRows graph, numbers)
cdef public object _whole "whole_number" (object given, object number)
cdef public object _into "numbers_into" (object given, object other, list numbers)
cpdef entries_value(GraphRows graph, tuple rows, Spec spec, bint taped, base=*)
