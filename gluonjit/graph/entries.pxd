# The types of entries.py where it is compiled.
cimport cython
from gluonjit._fast cimport GraphRows, new_value
from gluonjit.graph.values cimport Spec

cpdef tuple rows_of(GraphRows graph, dict entries, numbers)
cpdef entries_at(GraphRows graph, dict entries, numbers, Py_ssize_t size, Spec spec, bint taped)
cpdef bint is_exact(number) except -1
cpdef number_in(GraphRows graph, tuple known, number)
cpdef entries_value(GraphRows graph, tuple rows, Spec spec, bint taped, base=*)
