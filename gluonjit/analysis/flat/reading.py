"""From lists of captured nodes to flat arrays of whole numbers.

In Cython's pure-Python mode: compiled where there was a compiler, and interpreted as it stands elsewhere. Node n is of
record `kinds[n]`; its result rows begin at `bases[n]`, and the rows that it reads are `operands` from `firsts[n]` on.
"""
# cython: language_level=3, wraparound=False, initializedcheck=False

from __future__ import annotations

from sys import getrefcount

try:
    import cython
except ImportError:
    from gluonjit import standin as cython

if cython.compiled:
    from cython.cimports.cpython.list import PyList_GET_ITEM
    from cython.cimports.cpython.object import PyObject
    from cython.cimports.cpython.tuple import PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE


@cython.cfunc
def _most_references(nodes: list, k: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The references to that one of the values of node k which has the most, with those that counting makes."""
    most: cython.Py_ssize_t = 0
    found: cython.Py_ssize_t
    i: cython.Py_ssize_t
    if cython.compiled:  # to hold each object meanwhile would be to write to all of them, which takes longer
        if not PyTuple_CheckExact(cython.cast(object, PyList_GET_ITEM(nodes, k))):
            raise TypeError("the values of a node are a tuple")
        for i in range(PyTuple_GET_SIZE(cython.cast(object, PyList_GET_ITEM(nodes, k)))):
            value = cython.declare(
                cython.pointer(PyObject), PyTuple_GET_ITEM(cython.cast(object, PyList_GET_ITEM(nodes, k)), i)
            )
            found = value.ob_refcnt
            if found > most:
                most = found
    else:
        for value in nodes[k]:
            found = getrefcount(value)
            if found > most:
                most = found
    return most


_UNREAD: cython.Py_ssize_t = _most_references([(object(),)], 0)
"""References to a value that nobody holds but its node's tuple, and those that counting makes."""


def held(values: list) -> bool:
    """Tells whether somebody outside the graph can read one of these nodes' values."""
    k: cython.Py_ssize_t
    for k in range(len(values)):
        if _most_references(values, k) > _UNREAD:
            return True
    return False


def read(
    records: list,
    sizes: list,
    number: cython.Py_ssize_t,
    n: cython.Py_ssize_t,
    at: cython.Py_ssize_t,
    kinds: cython.longlong[::1],
    bases: cython.longlong[::1],
    firsts: cython.longlong[::1],
    operands: cython.longlong[::1],
    alive: cython.longlong[::1],
) -> None:
    """Read the nodes of these records, the first of which has this number, from node n and operand `at` on.

    `sizes` has for each record the rows of each of its operands. A node is alive if somebody outside the graph can read
    one of its values. Raises ValueError for half a node, and for an operand that has not as many rows as it should.
    """
    k: cython.Py_ssize_t
    width: cython.Py_ssize_t
    for record, lengths in zip(records, sizes):
        given: list = record.operands
        values: list = record.values
        first_rows: list = record.bases
        if not len(given) == len(values) == len(first_rows):
            raise ValueError(f"half a node of {record.kind.name}")
        # List by list, as one is gone through faster than several at a time.
        width = sum(lengths)
        for k in range(len(given)):
            kinds[n + k] = number
            firsts[n + k] = at + k * width
        for k in range(len(given)):
            bases[n + k] = first_rows[k]
        for k in range(len(given)):
            alive[n + k] = _most_references(values, k) > _UNREAD
        at = _read_operands(given, lengths, at, operands)
        n += len(given)
        number += 1


@cython.cfunc
def _read_operands(
    given: list, sizes: tuple, at: cython.Py_ssize_t, operands: cython.longlong[::1]
) -> cython.Py_ssize_t:
    """Read the rows of the operands of one record's nodes; returns where they end."""
    k: cython.Py_ssize_t
    c: cython.Py_ssize_t
    i: cython.Py_ssize_t
    size: cython.longlong
    row: cython.longlong
    for k in range(len(given)):
        node: tuple = given[k]
        for c in range(len(sizes)):
            rows = node[c]
            size = sizes[c]
            if isinstance(rows, tuple):
                each: tuple = rows
                if len(each) != size:
                    raise ValueError(f"an operand has {len(each)} rows, not {size}")
                for i in range(size):
                    operands[at + i] = each[i]
            elif size == 1:
                operands[at] = rows
            else:
                row = rows
                for i in range(size):
                    operands[at + i] = row + i
            at += size
    return at
