# The types of joining.py where it is compiled.
cimport cython
from gluonjit._fast cimport Value
from gluonjit.graph.values cimport Spec

@cython.final
cdef class Copied:
    cdef public object value

cdef public object _joined "joined_rows" (object given, object mode)
cdef public object _copied "copied_rows" (object given)
cdef public object _shown_as "rows_shown_as" (object given, object spec)
cdef public object _seen_as "rows_seen_as" (object given, object spec)
