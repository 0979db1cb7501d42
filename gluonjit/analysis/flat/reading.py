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
    from cython.cimports.cpython.ref import Py_REFCNT


def most_references(values: tuple) -> cython.Py_ssize_t:
    """The references to that one of some values which has the most, with those that counting makes."""
    most: cython.Py_ssize_t = 0
    found: cython.Py_ssize_t
    k: cython.Py_ssize_t
    for k in range(len(values)):
        if cython.compiled:
            found = Py_REFCNT(values[k])
        else:
            found = getrefcount(values[k])
        if found > most:
            most = found
    return most


UNREAD: cython.Py_ssize_t = most_references((object(),))
"""References to a value that nobody holds but its node's tuple, and those that counting makes."""


def held(values: list) -> bool:
    """Tells whether somebody outside the graph can read one of these nodes' values."""
    k: cython.Py_ssize_t
    for k in range(len(values)):
        if most_references(values[k]) > UNREAD:
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
    one of its values. Raises ValueError for an operand that has not as many rows as it should.
    """
    k: cython.Py_ssize_t
    c: cython.Py_ssize_t
    i: cython.Py_ssize_t
    width: cython.Py_ssize_t
    size: cython.longlong
    row: cython.longlong
    for record, of_record in zip(records, sizes):
        given: list = record.operands
        values: list = record.values
        first_rows: list = record.bases
        lengths: tuple = of_record
        width = len(lengths)
        for k in range(len(given)):
            kinds[n] = number
            bases[n] = first_rows[k]
            firsts[n] = at
            alive[n] = most_references(values[k]) > UNREAD
            n += 1
            node: tuple = given[k]
            for c in range(width):
                rows = node[c]
                size = lengths[c]
                if isinstance(rows, tuple):
                    each: tuple = rows
                    if len(each) != size:
                        raise ValueError(f"an operand of {record.kind.name} has {len(each)} rows, not {size}")
                    for i in range(size):
                        operands[at + i] = each[i]
                elif size == 1:
                    operands[at] = rows
                else:
                    row = rows
                    for i in range(size):
                        operands[at + i] = row + i
                at += size
        number += 1
