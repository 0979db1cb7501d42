# The types of replay.py where it is compiled.
cimport cython
from cpython.array cimport array as cython_array
from gluonjit._fast cimport BatchRoom, GraphRows, Record, append_unread, code_of, find_equal, remember, value_at
from gluonjit.graph.entries cimport rows_of
from gluonjit.graph.inlined cimport number_at, set_number

cdef extern from "Python.h":
    int Py_EnterRecursiveCall(const char *where) except *
    void Py_LeaveRecursiveCall()


@cython.final
cdef class Replay:
    cdef GraphRows graph
    cdef list origins
    cdef public list records
    cdef public list entries
    cdef cython_array _rows
    cdef cython_array _nodes
    cdef cython_array _codes
    cdef Py_ssize_t _count
    cdef Py_ssize_t _found

    cpdef int add(self, long long row, Py_ssize_t count) except? -1
    cdef _look_up(self, dict entries, tuple indices)
    cdef Record _record(self, Py_ssize_t number)
    cdef _origin(self, Py_ssize_t number)
    cdef int _note(self, long long kind, Py_ssize_t node) except? -1
    cdef Py_ssize_t _read(self, cython_array code, Py_ssize_t head, Record record) except? -1
    cdef tuple _listed(self, cython_array code, Py_ssize_t at, long long count)
