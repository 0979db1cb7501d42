# cython: language_level=3, nonecheck=True, initializedcheck=False, boundscheck=False, wraparound=False, binding=False
"""Signatures: the records of an open batch by what the calls of one have in common, as addresses and numbers."""

from __future__ import annotations

import cython
from cython import Py_ssize_t, cfunc

__all__ = ["SignatureTable"]

_spare = None  # a call that has ended, to be used again


class SignatureEntry:
    """A signature's record and what of its kind a capture needs, or without a record what such calls give.

    steps: of a call that gives views, the ways to them, by result; () where they are none. first: that of all batches,
    which has them. apart: rows of its operands may lie otherwise than those of a call's arguments.
    """


@cfunc
def _filled(record: Record) -> SignatureEntry:
    """An entry of a record."""
    kind = record._kind
    entry: SignatureEntry = SignatureEntry.__new__(SignatureEntry)
    entry.pure, entry.operator, entry.apart = kind.pure is True, kind.operator is True, kind.apart is True
    entry.structure, entry.operands, entry.record = kind.structure, kind.operands, record
    return entry


class SignatureTable:
    """The records of an open batch, as the fast path finds them."""

    def __cinit__(self):
        self._table = [None] * 64

    def find(self, call):
        """The entry of a call's signature, or None."""
        table: list = self._table
        mask: Py_ssize_t = len(table) - 1
        hashed: cython.ulonglong = _hash(call)
        place: Py_ssize_t = hashed & mask
        while table[place] is not None:
            entry: SignatureEntry = cython.cast(SignatureEntry, table[place])
            if entry.hash == hashed and len(entry.parts) == 8 * call.count:
                if memcmp(PyBytes_AS_STRING(entry.parts), call.parts, 8 * call.count) == 0:
                    return entry
            place = (place + 1) & mask
        return None

    def add(self, call, record, key):
        """The new entry of a call's signature; `key` keeps alive what the parts point to."""
        entry: SignatureEntry = SignatureEntry.__new__(SignatureEntry) if record is None else _filled(record)
        entry.parts = PyBytes_FromStringAndSize(cython.cast(cython.p_char, call.parts), 8 * call.count)
        entry.hash = _hash(call)
        entry.key = key
        self.used += 1
        if 3 * self.used > 2 * len(self._table):
            old: list = self._table
            self._table = [None] * (2 * len(old))
            for other in old:
                if other is not None:
                    _put(self._table, other)
        _put(self._table, entry)
        return entry


@cfunc
def _put(table: list, entry: SignatureEntry) -> cython.void:
    """Puts an entry into a table, in place of one of the same parts."""
    mask: Py_ssize_t = len(table) - 1
    place: Py_ssize_t = entry.hash & mask
    while table[place] is not None and cython.cast(SignatureEntry, table[place]).parts is not entry.parts:
        place = (place + 1) & mask
    table[place] = entry


@cfunc
@cython.exceptval(check=False)
def _hash(call: SeenCall) -> cython.ulonglong:
    found: cython.ulonglong = call.count
    k: cython.int
    for k in range(call.count):
        found = (found ^ cython.cast(cython.ulonglong, call.parts[k])) * FACTOR
        found ^= found >> 29
    return found


@cfunc
def _holds(record: Record) -> cython.bint:
    """True if what a record has read of Python's state is so now."""
    return record.guards is None or (type(record.guards) is Guards and _hold(record.guards) > 0)


def current(call, entry):
    """The entry of a call with a record for what Python's state is now; None where Python has to see to it."""
    if _holds(entry.record):
        return entry
    record = None if entry.key is None else call.batch.records.get(entry.key)
    if type(record) is not Record or record is entry.record or not _holds(record):
        return None
    found: SignatureEntry = _filled(record)
    found.hash, found.parts, found.key, found.steps = entry.hash, entry.parts, entry.key, entry.steps
    _put(call.signatures._table, found)
    return found


class SeenCall:
    """The arguments of a call as they were looked at, and its signature so far.

    What it points to is kept alive by the arguments, until functions of Python are called: see `secure`.
    """


def opened(of, state, cell, what):
    """A call of this that can be one of the open batch; None where there is none, or no room."""
    batch: BatchRoom = state.batch
    if batch is None or batch.room < 0:
        return None
    global _spare
    call: SeenCall = SeenCall.__new__(SeenCall) if _spare is None else _spare
    _spare = None
    call.of, call.batch, call.graph, call.signatures = of, batch, batch.graph, batch.signatures
    call.cell = cython.cast(Pointer, cell)
    call.owner = call.laid = cython.cast(Pointer, None)
    call.arguments = call.itself = 0
    call.parts[0] = what
    call.count = 1
    return call


def close(call):
    """Lets go of what a call holds."""
    global _spare
    if call._held is not None:
        call._held = None
    call.batch = call.graph = call.signatures = None
    _spare = call


def begin(call, state):
    """Begins a signature with what comes before the arguments; tells whether it could: not under autocast."""
    if call.of is torch:
        if is_casting():
            return False
        append(call, 16 + (LEARNING if is_learning() else 0))
        if call.owner != cython.cast(Pointer, None):
            append(call, call.batch.changes)
    else:
        append(call, state.mode + (cython.cast(cython.longlong, state.numpy) << 8))
    return True


def finish(call):
    """Ends a signature: in PyTorch, with whether gradients go through the node. Tells whether it had room."""
    k: cython.int
    taped: cython.bint = False
    if call.of is not torch:
        return True
    for k in range(call.arguments):
        taped |= cython.cast(Value, call.values[k]).taped
    append(call, taped and (call.parts[1] & LEARNING) != 0)
    return call.count < MOST


def own(call, part):
    """Keeps something alive until the call is closed."""
    if call._held is None:
        call._held = []
    call._held.append(part)
    return cython.cast(Pointer, part)


def secure(call):
    """Keeps alive what a call points to, before functions of Python are called, which may change its arguments."""
    k: cython.int
    for k in range(call.arguments):
        own(call, cython.cast(object, call.values[k]))
        own(call, cython.cast(object, call.given[k]))
    return 0


def append_number(call, arg):
    """Appends a number, equal ones of which are found by what they are; tells whether it could."""
    overflow: cython.int = 0
    if type(arg) is int:
        number: cython.longlong = PyLong_AsLongLongAndOverflow(arg, cython.address(overflow))
        return not overflow and append_bits(call, NUMBER, number)
    if type(arg) is not float:
        return False
    real: cython.double = arg
    if real != real:  # no two of these are equal
        return False
    bits: cython.longlong = 0
    memcpy(cython.address(bits), cython.address(real), 8)
    return append_bits(call, REAL, bits)
