# The types of signatures.py.
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from gluonjit._fast cimport BatchRoom, GraphRows, Record, StateNumbers, Value
from gluonjit.hybrid.capture.guards.facts cimport Guards, _hold
from gluonjit.native.modes cimport is_casting, is_learning
from gluonjit.native.names cimport ADDRESS, FrameworkNames, Pointer, torch
from libc.string cimport memcmp, memcpy

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object, int *) except? -1

cdef extern from "slots.h":
    unsigned long long FACTOR

cdef enum:
    LEARNING = 32
    MOST = 96  # parts of a signature; calls with more are left to Python

# Before parts that are no addresses, or in place of a plain None or an end.
cdef enum:
    NO_ARGUMENT = 1, NAMED, SLICE, NUMBER, REAL, CONSTANT, DEVICE, END, OPERATOR, TEXT, PARAMETER


@cython.final
cdef class SignatureEntry:
    cdef unsigned long long hash
    cdef bytes parts
    cdef object key  # keeps what the parts point to alive
    cdef object structure, steps
    cdef SignatureEntry first
    cdef Record record
    cdef tuple operands
    cdef bint pure, operator, apart


@cython.final
cdef class SignatureTable:
    cdef list _table
    cdef Py_ssize_t used
    cdef SignatureEntry find(self, SeenCall call)
    cdef SignatureEntry add(self, SeenCall call, Record record, object key)


@cython.final
cdef class SeenCall:
    cdef FrameworkNames of
    cdef BatchRoom batch
    cdef GraphRows graph
    cdef Pointer cell, owner  # borrowed, as is
    cdef Pointer laid  # how arguments lie that are plain tensors, where that is not the natural way
    cdef SignatureTable signatures
    cdef long long parts[MOST]
    cdef Pointer values[MOST]
    cdef Pointer operands[MOST]  # the same as the operands of its kind lie
    cdef Pointer given[MOST]  # in PyTorch, the arrays that they are of
    cdef int count, arguments
    cdef list _held  # what the call itself keeps alive, or None
    cdef bint itself  # whether it returns its arguments themselves, not others of the same value


cdef SeenCall _spare
cdef SeenCall opened(FrameworkNames of, StateNumbers state, object cell, long long what)
cdef void close(SeenCall call) noexcept
cdef bint begin(SeenCall call, StateNumbers state) except -1
cdef Pointer own(SeenCall call, object part) except NULL
cdef int secure(SeenCall call) except -1
cdef bint append_number(SeenCall call, object arg) except -1
cdef bint finish(SeenCall call) except -1
cdef SignatureEntry current(SeenCall call, SignatureEntry entry)


cdef inline void append(SeenCall call, long long part) noexcept:  # who calls it has looked whether there is room
    call.parts[call.count] = part
    call.count += 1


cdef inline bint append_bits(SeenCall call, long long sort, long long bits) noexcept:  # no address, after what they are
    append(call, sort)
    append(call, bits)
    return True


# Appends the value of an array, with this spec or its own; tells whether it is one of this graph.
cdef inline bint take(SeenCall call, object array, object value, object spec) noexcept:
    if type(value) is not Value or (<Value>value).graph is not call.graph:
        return False
    call.values[call.arguments] = call.operands[call.arguments] = <Pointer>value
    call.given[call.arguments] = <Pointer>array
    call.arguments += 1
    append(call, ADDRESS((<Value>value).spec if spec is None else spec))
    return True
