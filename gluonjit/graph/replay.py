# cython: language_level=3, initializedcheck=False, binding=False
"""Recordings of calls (see `hybrid.capture.reuse.replaying`), captured again without running the program.

In Cython's pure-Python mode, as `recorder` (`replay.pxd` has the types).
"""

from __future__ import annotations

from array import array

try:
    import cython
    from cython import Py_ssize_t, longlong
except ImportError:
    from gluonjit import standin as cython

if not cython.compiled:
    from gluonjit.graph.entries import rows_of
    from gluonjit.graph.inlined import number_at, set_number
    from gluonjit.graph.recorder import append_unread, code_of, find_equal, remember, value_at

_MOST: Py_ssize_t = 2**31 - 1  # rows of a graph: indices have 32 bits

OTHER, ARRAY, LAZY, LISTED, NAMED = range(5)
"""The ways of a class of arguments: no array, an array, one that was captured, a list or tuple, a dictionary."""


def gather(item, ways: dict, way_of, arrays: list):
    """Appends the arrays in nested arguments; returns False if one of them was captured.

    `ways` are those of the classes that were met, `way_of` finds that of another one.
    """
    kind = item.__class__
    found = ways.get(kind)
    if found is None:
        found = ways[kind] = way_of(kind)
    way: cython.int = found
    if way == 0:
        return True
    if way < 3:
        arrays.append(item)
        return way == 1
    known = True
    if cython.compiled:
        Py_EnterRecursiveCall(b" in arguments")
    try:
        for part in item if way == 3 else item.values():
            if not gather(part, ways, way_of, arrays):
                known = False
    finally:
        if cython.compiled:
            Py_LeaveRecursiveCall()
    return known


class Replay:
    """Holds what numbers of recordings stand for in one graph, and the rows of the recording that was begun last.

    `records` are by the numbers of kinds, `entries` (rows by index) by those of tables: None for what is not known yet.
    """

    def __init__(self, graph: GraphRows, origins: list):
        self.graph = graph
        self.origins = origins
        self.records = []
        self.entries = []
        self._count = 0  # of rows
        self._rows = array("q", bytes(8 * 64))
        self._nodes = array("q", bytes(8 * 64))  # the recording's nodes: the number of the kind, and of the node in it
        self._found = 0  # of nodes
        self._codes = array("q", bytes(8 * 64))  # of one node's operands

    def begin(self, kinds: tuple, lookups: tuple):
        """Begins a recording that has nodes of these kinds and first of all these rows: entries of tables, by number.

        Gives -1; or where it is not known what a number stands for, or a kind's guards do not hold, the place of that
        among the kinds and then the tables.
        """
        place: Py_ssize_t
        number: Py_ssize_t
        self._count = self._found = 0
        for place in range(len(kinds)):
            number = kinds[place]
            if not 0 <= number < len(self.records) or self.records[number] is None:
                return place
            record: Record = self.records[number]
            if record.guards is not None and not record.guards.hold():
                return place
        for place in range(len(lookups)):
            table: tuple = lookups[place]
            if len(table) != 2:
                raise ValueError(f"a look-up is a table and indices, not {table}")
            number = table[0]
            if not 0 <= number < len(self.entries) or self.entries[number] is None:
                return len(kinds) + place
            self._look_up(self.entries[number], table[1])
        return -1

    def capture(self, batch: BatchRoom, code: cython_array):
        """Captures the nodes of a recording: existing ones, and new ones. Raises ValueError if it is no recording."""
        at: Py_ssize_t = 0
        end: Py_ssize_t = len(code)
        deeper: longlong = 0  # how much the deepest of the nodes that were there is deeper than it was recorded
        depth: longlong
        node: Py_ssize_t
        head: Py_ssize_t
        sharing: cython.bint = batch.sharing
        if code.typecode != "i":
            raise TypeError(f"a recording is an array of 'i', not {code.typecode!r}")
        while at < end:
            head = at
            record: Record = self._record(_number(code, head))
            at = self._read(code, head, record)
            depth = _number(code, head + 2)
            codes = _pointer(self._codes, record.arity)
            node = find_equal(record, codes) if sharing else -1
            if node >= 0:
                deeper = max(deeper, number_at(record._depths, node) - depth)
            else:
                origin = self._origin(_number(code, head + 3))
                node = append_unread(record, self.graph, codes, depth + deeper, origin)
                batch.room -= record.share
                if sharing:
                    remember(record, node)
            record.calls += _number(code, head + 1)
            self._note(_number(code, head), node)
            self.add(number_at(record._bases, node), record.height)

    def row(self, number: Py_ssize_t):
        """The row that a number of the recording stands for."""
        if not 0 <= number < self._count:
            raise IndexError(f"a recording of {self._count} rows has no row {number}")
        return number_at(self._rows, number)

    def values(self, number: Py_ssize_t):
        """The values of a node of the recording."""
        if not 0 <= number < self._found:
            raise IndexError(f"a recording of {self._found} nodes has no node {number}")
        record: Record = self._record(number_at(self._nodes, 2 * number))
        return record.values(number_at(self._nodes, 2 * number + 1))

    def value(self, number: Py_ssize_t, k: Py_ssize_t):
        """The k-th value of a node of the recording."""
        if not 0 <= number < self._found:
            raise IndexError(f"a recording of {self._found} nodes has no node {number}")
        record: Record = self._record(number_at(self._nodes, 2 * number))
        if not 0 <= k < record.results:
            raise IndexError(f"a node of {record.results} values has no value {k}")
        return value_at(record, number_at(self._nodes, 2 * number + 1) * record.results + k)

    def add(self, row: longlong, count: Py_ssize_t) -> cython.int:
        """Makes this many rows from this one on the next ones of the recording."""
        k: Py_ssize_t
        if row < 0 or count < 0 or row + count > _MOST:
            raise OverflowError(f"a graph has no {count} rows from {row} on")
        if self._count + count > len(self._rows):
            self._rows = _longer(self._rows, self._count + count)
        for k in range(count):
            set_number(self._rows, self._count + k, row + k)
        self._count += count
        return 0

    def _look_up(self, entries: dict, indices: tuple):
        """Makes the rows of these entries of a table the next ones."""
        for row in rows_of(self.graph, entries, indices):
            self.add(row, 1)

    def _record(self, number: Py_ssize_t) -> Record:
        """The record of a kind."""
        if not 0 <= number < len(self.records) or self.records[number] is None:
            raise ValueError(f"a recording has nodes of a kind {number}, which has no record")
        return self.records[number]

    def _origin(self, number: Py_ssize_t):
        """The place in the program that a number stands for."""
        if not 0 <= number < len(self.origins):
            raise ValueError(f"a recording was called at place {number} of {len(self.origins)}")
        return self.origins[number]

    def _note(self, kind: longlong, node: Py_ssize_t) -> cython.int:
        """Notes the next node of the recording."""
        if 2 * self._found + 2 > len(self._nodes):
            self._nodes = _longer(self._nodes, 2 * self._found + 2)
        set_number(self._nodes, 2 * self._found, kind)
        set_number(self._nodes, 2 * self._found + 1, node)
        self._found += 1
        return 0

    def _read(self, code: cython_array, head: Py_ssize_t, record: Record) -> Py_ssize_t:
        """Reads the operands of a node, whose numbers begin at `head`; returns where those of the next one begin."""
        k: Py_ssize_t
        at: Py_ssize_t = head + 5
        number: longlong
        if at + record.arity > len(code) or _number(code, head + 4) != record.arity:
            raise ValueError("a recording is no list of nodes")
        if record.arity > len(self._codes):
            self._codes = _longer(self._codes, record.arity)
        for k in range(record.arity):
            if at >= len(code):
                raise ValueError("a recording ends within a node")
            number = _number(code, at)
            at += 1
            if number >= 0:
                if number >= self._count:
                    raise ValueError(f"a node reads row {number} of a recording that has {self._count}")
                number = number_at(self._rows, number)
            else:
                rows = self._listed(code, at, -number)
                at -= number
                number = code_of(record, rows)
            set_number(self._codes, k, number)
        return at

    def _listed(self, code: cython_array, at: Py_ssize_t, count: longlong) -> tuple:
        """Returns the rows that this many numbers from a place on stand for."""
        k: Py_ssize_t
        if at + count > len(code):
            raise ValueError("a recording ends within a node")
        found: list = []
        for k in range(at, at + count):
            number = _number(code, k)
            if not 0 <= number < self._count:
                raise ValueError(f"a node reads row {number} of a recording that has {self._count}")
            found.append(number_at(self._rows, number))
        return tuple(found)


@cython.cfunc
def _longer(numbers: cython_array, count: Py_ssize_t) -> cython_array:
    """Makes room for twice as many numbers, with those that are there."""
    return array("q", numbers.tobytes() + bytes(8 * (2 * count - len(numbers))))


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _number(code: cython_array, k: Py_ssize_t) -> longlong:
    """A number of a recording."""
    if cython.compiled:
        return code.data.as_ints[k]
    else:
        return code[k]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _pointer(codes: cython_array, count: Py_ssize_t) -> cython.p_longlong:
    """Returns the first numbers, as the functions of `recorder` take them."""
    if cython.compiled:
        return codes.data.as_longlongs
    else:
        return codes[:count]
