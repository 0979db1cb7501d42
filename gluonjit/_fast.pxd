# The types of graph/recorder.py where it is compiled, and what it shares with the files of C beside it.
cimport cython
from cpython.array cimport array as cython_array, clone, resize_smart
from cpython.object cimport PyObject
from gluonjit.graph.inlined cimport UNREAD, number_at, references
from libc.string cimport memcpy

cdef extern object user_line()
cdef extern from "Python.h":
    void PyObject_GC_UnTrack(PyObject *)
    void PyObject_GC_Track(PyObject *)
    int PyObject_GC_IsTracked(PyObject *)


@cython.final
cdef class Leaf:
    cdef public Py_ssize_t base
    cdef public object spec
    cdef public object payload
    cdef public bint taped


@cython.no_gc
cdef class InputSlots:
    cdef public object tensor, _rows, raw, spec, first
    cdef public Py_ssize_t version, apart, users, written
    cdef public bint shared, taped, noted


cdef class GraphRows:
    cdef public Py_ssize_t rows
    cdef public dict leaves
    cdef public dict single_rows
    cdef public dict lookups
    cdef public double begun
    cdef public object clock
    cpdef Leaf add_leaf(self, key, payload, spec, bint taped=*)
    cpdef begin(self)


cdef class BatchRoom:
    cdef public double room
    cdef public Py_ssize_t changes
    cdef public object engine, signatures
    cdef public dict foreign, noted, operands, parameters, records, tables
    cdef public tuple repeats
    cdef public GraphRows graph
    cdef public bint sharing
    cdef public bint fine


cdef class StateNumbers:
    cdef public Py_ssize_t eagerly
    cdef public Py_ssize_t inside
    cdef public Py_ssize_t mode
    cdef public Py_ssize_t numpy
    cdef public Py_ssize_t paused
    cdef public Py_ssize_t spare
    cdef public Py_ssize_t spare_mode
    cdef public BatchRoom batch
    cdef public list explicit
    cdef public object spare_of, trace


cdef class CellSlots:
    cdef public object chooses, is_node, keys, laid, lookup, paces
    cdef public dict refused


cdef class Uncaptured:
    cdef public object local
    cdef public tuple back
    cdef Py_ssize_t mode


@cython.final
cdef class Value:
    cdef public object rows
    cdef public object spec
    cdef public object graph
    cdef public object base
    cdef object _result
    cdef public Py_ssize_t depth
    cdef public bint taped


@cython.final
cdef class Shares:
    cdef Py_ssize_t used
    cdef cython_array slots


@cython.final
cdef class Record:
    cdef object _kind
    cdef public object guards
    cdef public double share
    cdef public Py_ssize_t calls
    cdef public int mode
    cdef int results
    cdef int arity
    cdef Py_ssize_t height
    cdef list _specs
    cdef cython_array _offsets
    cdef cython_array _codes
    cdef cython_array _depths
    cdef cython_array _bases
    cdef list _origins
    cdef list _values
    cdef object _graph
    cdef list _lists
    cdef dict _numbers
    cdef Shares _shares
    cdef public object rows_read
    cdef public object base_rows


cdef cython_array _AT_BEGIN, _LONG, _INT
cdef long long _MOST, _MOST_ROWS
cdef Py_ssize_t find_equal(Record record, long long *codes) except? -2
cdef int remember(Record record, Py_ssize_t node) except? -1
cdef long long code_of(Record record, object rows) except? 0
cdef Value value_at(Record record, Py_ssize_t place)
cdef Value new_value(object rows, Py_ssize_t depth, object spec, object graph, bint taped, object base)
cdef Py_ssize_t append_unread(Record record, GraphRows graph, long long *codes, long long depth, object origin) except? -1
cdef Py_ssize_t new_node(BatchRoom batch, GraphRows graph, Record record, PyObject **given, int count, bint sharing) except -1
