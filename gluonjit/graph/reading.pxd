# The types of reading.py where it is compiled.
cimport cython
from cpython.array cimport array as cython_array, clone
from gluonjit._fast cimport Record
from gluonjit.graph.inlined cimport is_held, number_at, set_number

cdef cython_array _LONG
