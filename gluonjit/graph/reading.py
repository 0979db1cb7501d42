# cython: language_level=3, initializedcheck=False, binding=False
"""The nodes of a graph: read into flat arrays for plans, and into bytes by which equal graphs are found; looked up.

In Cython's pure-Python mode, as `recorder` (`reading.pxd` has the types).
"""

from __future__ import annotations

from array import array

try:
    import cython
    from cython import Py_ssize_t, longlong
except ImportError:
    from gluonjit import standin as cython

if not cython.compiled:
    from gluonjit.graph.inlined import is_held, number_at, set_number

_LONG = array("q")


def read(
    records: list,
    sizes: list,
    number: Py_ssize_t,
    n: Py_ssize_t,
    at: Py_ssize_t,
    kinds: cython_array,
    bases: cython_array,
    firsts: cython_array,
    operands: cython_array,
    alive: cython_array,
):
    """Reads the nodes of these records, the first of which has this number, from node n and operand `at` on.

    `sizes` has for each record the rows of each of its operands. A node is alive if somebody outside the graph can read
    one of its values. Raises ValueError for half a node, and for an operand that has not as many rows as it should.
    """
    k: Py_ssize_t
    i: Py_ssize_t
    count: Py_ssize_t
    width: Py_ssize_t
    for each, lengths in zip(records, sizes):
        record: Record = each
        count = len(record._bases)
        width = sum(lengths)
        if len(record._values) != count * record.results or len(record._codes) != count * record.arity:
            raise ValueError(f"half a node of {record._kind.name}")
        if len(lengths) != record.arity or n + count > len(kinds) or at + count * width > len(operands):
            raise ValueError(f"there is no room for {count} nodes of {record._kind.name}")
        for k in range(count):
            set_number(kinds, n + k, number)
            set_number(firsts, n + k, at + k * width)
            set_number(bases, n + k, number_at(record._bases, k))
        for k in range(count):
            for i in range(k * record.results, (k + 1) * record.results):
                if is_held(record._values, i):
                    set_number(alive, n + k, 1)
                    break
            else:
                set_number(alive, n + k, 0)
        _read_operands(record, lengths, width, at, operands)
        at += count * width
        n += count
        number += 1


def likeness(records: list, most: Py_ssize_t):
    """Returns numbers that are equal for graphs of equal structure, given their records; at most `most` nodes.

    They are in bytes, and in tuples of rows that operands are put together of. None where there are more nodes, or half
    a node.
    """
    k: Py_ssize_t
    i: Py_ssize_t
    count: Py_ssize_t
    size: Py_ssize_t = 0
    at: Py_ssize_t = 0
    record: Record
    lists: list = []
    for each in records:
        record = each
        count = len(record._bases)
        most -= count
        if most < 0 or len(record._values) != count * record.results or len(record._codes) != count * record.arity:
            return None
        size += 3 + count * (2 + record.arity)
    found: cython_array = clone(_LONG, size, size > 0) if cython.compiled else array("q", bytes(8 * size))
    for each in records:
        record = each
        count = len(record._bases)
        set_number(found, at, record._kind.number)
        set_number(found, at + 1, record.mode)
        set_number(found, at + 2, count)
        at += 3
        for k in range(count):
            set_number(found, at, number_at(record._bases, k))
            for i in range(k * record.results, (k + 1) * record.results):
                if is_held(record._values, i):
                    set_number(found, at + 1, 1)
                    break
            at += 2
        for k in range(count * record.arity):
            set_number(found, at + k, number_at(record._codes, k))
        at += count * record.arity
        if record._lists is not None:
            lists.append(tuple(record._lists))
    return found.tobytes(), tuple(lists)


def node_at(records: dict, row: longlong):
    """Returns the record and the number of the node that a row is a result of; None if it is of no node."""
    k: Py_ssize_t
    for each in records.values():
        record: Record = each
        k = len(record._bases) - 1
        if k < 0 or row < number_at(record._bases, 0):
            continue
        if row < number_at(record._bases, k):
            k = _until(record, row) - 1
        if row < number_at(record._bases, k) + cython.cast(cython.longlong, record._kind.rows):
            return record, k
    return None


def joined_of(copies: list, first: longlong, end: longlong):
    """Returns which of these collections of rows have one from `first` on and before `end`."""
    row: longlong
    found: list = []
    for joined in copies:
        for each in joined:
            row = each
            if first <= row < end:
                found.append(joined)
                break
    return found


@cython.cfunc
@cython.exceptval(-1)
def _until(record: Record, row: longlong) -> Py_ssize_t:
    """The number of nodes whose results begin at this row or before it."""
    middle: Py_ssize_t
    begin: Py_ssize_t = 0
    end: Py_ssize_t = len(record._bases)
    while begin < end:
        middle = (begin + end) // 2
        if number_at(record._bases, middle) <= row:
            begin = middle + 1
        else:
            end = middle
    return begin


@cython.cfunc
@cython.exceptval(-1)
def _read_operands(
    record: Record, sizes: tuple, width: Py_ssize_t, begin: Py_ssize_t, operands: cython_array
) -> cython.int:
    """Reads the rows of the operands of a record's nodes, operand by operand."""
    c: Py_ssize_t
    i: Py_ssize_t
    k: Py_ssize_t
    at: Py_ssize_t
    size: Py_ssize_t
    code: longlong
    for c in range(record.arity):
        size = sizes[c]
        at = begin
        for k in range(len(record._bases)):
            code = number_at(record._codes, k * record.arity + c)
            if code >= 0:
                for i in range(size):
                    set_number(operands, at + i, code + i)
            else:
                rows: tuple = record._lists[-1 - code]
                if len(rows) != size:
                    raise ValueError(f"an operand has {len(rows)} rows, not {size}")
                for i in range(size):
                    set_number(operands, at + i, rows[i])
            at += width
        begin += size
    return 0
