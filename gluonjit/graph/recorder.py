# cython: language_level=3, initializedcheck=False, binding=False
"""Values, and the nodes of one signature as flat arrays of whole numbers: what captures append to, and find again.

In Cython's pure-Python mode: with the files of `native/` it is the module `gluonjit._fast` where there was a compiler
(`_fast.pxd` has the types), and interpreted as it stands elsewhere.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from copy import copy

try:
    import cython
    from cython import Py_ssize_t, bint, cfunc, longlong
except ImportError:
    from gluonjit import standin as cython
    from gluonjit.standin import cfunc

if cython.compiled:
    from cython.cimports.cpython.object import PyObject
else:
    from gluonjit.graph.frames import user_line
    from gluonjit.graph.inlined import UNREAD, number_at, references

_MOST_ROWS = 2**31 - 1  # of a graph: indices have 32 bits
_MOST = 256  # operands of a node that is captured in C


class GraphRows:
    """The number of rows of a graph, and the tables by which they are found: a base of graphs, for compiled code.

    begun: what `clock` said at the first capture, 0 before it.
    """

    __slots__ = ("begun", "clock", "leaves", "lookups", "rows", "single_rows")

    def add_leaf(self, key, payload, spec, taped: bint = False) -> Leaf:
        """The leaf of this key, made when the key is new. `payload` keeps an address used as key from being reused."""
        leaf: Leaf = self.leaves.get(key)
        if leaf is None:
            self.begin()
            leaf = Leaf(self.rows, spec, payload, taped)
            self.rows += spec.rows  # before it is known: an interrupt must not give its rows to others
            self.leaves[key] = leaf
        return leaf

    def begin(self):
        """Notes the time of the first capture."""
        if not self.begun:
            self.begun = self.clock()


class BatchRoom:
    """The counts of a batch that change by the call, or with models: a base of batches, as above.

    fine: whether operators are its nodes, and modules run as they are. repeats: of the last sample the cell of its
    model, whether gradients were recorded, and how the model trained and how often modules had changed. operands: by
    the cell, weights that are operands of its calls, and numbers by what they stand beside.
    """

    __slots__ = (
        "changes",
        "engine",
        "fine",
        "foreign",
        "graph",
        "noted",
        "operands",
        "parameters",
        "records",
        "repeats",
        "room",
        "sharing",
        "signatures",
        "tables",
    )


class StateNumbers:
    """The counts of a state: a base of states, as above."""

    __slots__ = (
        "batch",
        "eagerly",
        "explicit",
        "inside",
        "mode",
        "numpy",
        "paused",
        "spare",
        "spare_mode",
        "spare_of",
        "trace",
    )


class CellSlots:
    """Slots that compiled code reads of a cell: a base of cells, as above."""

    __slots__ = ("chooses", "is_node", "keys", "laid", "lookup", "paces", "refused")


class Uncaptured:
    """A region for `with` in which the thread that enters it captures nothing; `local.state` is the thread's.

    An engine's has more: `ways()` returns what is called when it is entered, and what when it is left. Compiled, no
    signal comes between these and what is counted: an exception of its handler, as Ctrl-C's, would leave them for good.
    """

    __slots__ = ("back", "local", "mode")

    def __init__(self, local):
        self.local = local

    def __enter__(self):
        state: StateNumbers = self.local.state
        if self.__class__ is not Uncaptured:
            self.mode = state.mode  # functions of the framework that are called inside may set it
            there, self.back = self.ways()
            for set_flag in there:
                set_flag()
        state.paused += 1

    def __exit__(self, *error):
        state: StateNumbers = self.local.state
        state.paused -= 1
        if self.__class__ is not Uncaptured:
            state.mode = self.mode
            for set_flag in self.back:
                set_flag()


@cython.freelist(1024)
@cython.no_gc
@cython.cclass
class Leaf:
    """An array that existed before the batch: its first row, its spec, and the engine's payload.

    `taped` says that it was met under recording. The collector of circles skips leaves: graphs drop them when they run.
    """

    __slots__ = ("base", "payload", "spec", "taped")

    def __init__(self, base: Py_ssize_t, spec, payload, taped: bint):
        self.base = base
        self.spec = spec
        self.payload = payload
        self.taped = taped


class InputSlots:
    """An array of the program's as a batch has captured it: a base of payloads of leaves, for compiled code.

    raw: the numbers of a small one, which looks like `spec`; shared: whether other arrays have the same ones; first:
    the payload of the first of these, which counts them, and those that the program has written to since; noted:
    whether this one is among them; taped: whether its rows are a copy of an array that learns; apart: the number of the
    call that was recorded meanwhile, or 0: there each array is a leaf of its own.
    """

    __slots__ = (
        "_rows",
        "apart",
        "first",
        "noted",
        "raw",
        "shared",
        "spec",
        "taped",
        "tensor",
        "users",
        "version",
        "written",
    )

    def __init__(self, tensor, version: Py_ssize_t, rows, raw=None, spec=None, apart: Py_ssize_t = 0):
        self.tensor = tensor
        self.version = version
        self._rows = rows
        self.raw = raw
        self.spec = spec
        self.apart = apart
        self.first = None
        self.shared = self.taped = self.noted = False
        self.users, self.written = 1, 0


@cython.freelist(32768)
@cython.trashcan(True)
@cython.cclass
class Value:
    """One captured array: its rows in `graph`, and after the flush where its result lies.

    `rows` is the first of `Spec.rows` consecutive rows, or a tuple of rows. `depth` is one more than the deepest
    operand's (leaves: 0). `taped` says that it was computed under recording, directly or by reference. `base` keeps
    alive what a reference refers to.
    """

    __slots__ = ("_result", "base", "depth", "graph", "rows", "spec", "taped")

    def __init__(self, rows, depth: Py_ssize_t, spec, graph, taped: bint, base=None):
        self.rows = rows
        self.depth = depth
        self.spec = spec
        self.graph = graph
        self.taped = taped
        self.base = base
        self._result = None

    @property
    def result(self):
        """The place of its result, once its batch has run."""
        return self._result

    @result.setter
    def result(self, found):
        self._result = found
        # Who has a result is left by its graph, and may be a part of any circle from then on.
        if cython.compiled and not PyObject_GC_IsTracked(cython.cast(cython.pointer(PyObject), self)):
            PyObject_GC_Track(cython.cast(cython.pointer(PyObject), self))

    def row_list(self):
        """The numbers of the rows, one by one."""
        if isinstance(self.rows, tuple):
            return list(self.rows)
        first: longlong = _whole(self.rows)
        count: longlong = _whole(self.spec.rows)
        if count > _MOST_ROWS or first > _MOST_ROWS:
            raise OverflowError(f"a graph has no {count} rows from {first} on")
        return list(range(first, first + count))


@cfunc
def _zeros(like: cython_array, count: Py_ssize_t) -> cython_array:
    """Makes an array of this many zeros that the garbage collector skips: it refers to nothing."""
    if cython.compiled:
        found: cython_array = clone(like, count, count > 0)  # an empty one has no memory to be set
        PyObject_GC_UnTrack(cython.cast(cython.pointer(PyObject), found))
        return found
    else:
        return array(like.typecode, bytes(count * like.itemsize))


_LONG = array("q")
_INT = array("i")


_AT_BEGIN = array("q", [0])


@cython.freelist(1024)
@cython.cclass
class Shares:
    """The nodes of a record that equal calls find, by their operands.

    Compiled it is an open table of node numbers, one more than each; interpreted a dictionary.
    """

    def __init__(self):
        self.used = 0
        self.slots = _zeros(_INT, 16) if cython.compiled else {}
        if cython.compiled:  # it refers to nothing but that
            PyObject_GC_UnTrack(cython.cast(cython.pointer(PyObject), self))


@cython.freelist(1024)
@cython.cclass
class Record:
    """All nodes of one signature in one graph.

    Node k reads `operands_of(k)`, has depth `depth(k)` and first result row `base(k)`, and was called at `origin(k)`.
    An equal call on equal operands finds the node that is there, unless that was forgotten. `share` is the part of a
    batch's room that a node takes, `guards` what has to hold for a call to be one of these, where something has to.
    """

    def __init__(self, kind, mode: cython.int, share: cython.double):
        self.kind = kind
        self.mode = mode
        self.share = share
        self.guards = None
        self.calls = 0
        self.rows_read = None  # the analysis's operands, row by row and node by node, of nodes made of calls
        self.base_rows = None  # the analysis's copy of `bases`, so that a step costs only its own nodes
        self._codes = _zeros(_LONG, 0)  # of operands: a first row, or ~k for the rows _lists[k]
        self._depths = _zeros(_LONG, 0)
        self._bases = _zeros(_LONG, 0)
        self._origins = []
        self._values = []  # of all nodes, one after the other; None for one that nobody has asked for
        self._graph = None  # whose such values are
        self._lists = self._numbers = None  # before an operand has such rows
        self._shares = Shares()

    @property
    def kind(self):
        """The kind that its nodes have in common."""
        return self._kind

    @kind.setter
    def kind(self, kind):
        rows: Py_ssize_t = kind.rows
        if rows < 0 or rows > _MOST_ROWS or any([not 0 <= output.offset <= _MOST_ROWS for output in kind.outputs]):
            raise ValueError(f"a node of {kind.name} has no {rows} rows")
        self._kind = kind
        self._specs = [output.spec for output in kind.outputs]
        offsets = [output.offset for output in kind.outputs]
        self._offsets = _AT_BEGIN if offsets == [0] else array("q", offsets)
        self.results = len(self._specs)
        self.arity = len(kind.operands)
        self.height = rows

    def __len__(self):
        return len(self._bases)

    def complete(self):
        """Forgets half a node, left by an interrupt (Ctrl-C) in the middle of a capture."""
        whole = min(len(self._bases), len(self._origins), len(self._depths))
        if self.results:
            whole = min(whole, len(self._values) // self.results)
        if self.arity:
            whole = min(whole, len(self._codes) // self.arity)
        self.truncate(whole)

    def truncate(self, count: Py_ssize_t):
        """Forgets all nodes but this many. Values go first: an interrupt leaves none of them as nodes."""
        del self._values[count * self.results :], self._origins[count:]
        del self._bases[count:], self._depths[count:], self._codes[count * self.arity :]
        self.base_rows = None

    def release(self):
        """Releases all values; numbers remain."""
        self._values = []
        self._graph = None
        self._shares = Shares()

    @property
    def operands(self):
        """The rows of the operands of each node, a list of tuples."""
        return [self.operands_of(node) for node in range(len(self._bases))]

    def operands_of(self, node: Py_ssize_t):
        """The rows of each operand of a node."""
        self._check(node)
        codes = self._codes[node * self.arity : (node + 1) * self.arity]
        return tuple([code if code >= 0 else self._lists[~code] for code in codes])

    @property
    def bases(self):
        """The first result row of each node, a list."""
        return self._bases.tolist()

    @bases.setter
    def bases(self, rows):
        self._bases = array("q", memoryview(rows).tobytes())  # an array of 64 bits a number, of numpy for one

    def until(self, row: longlong):
        """The number of nodes whose results begin at this row or before it."""
        return bisect_right(self._bases, row)

    @property
    def depths(self):
        """The depth of each node, a list."""
        return self._depths.tolist()

    @property
    def origins(self):
        """The place that called each node."""
        return self._origins

    def base(self, node: Py_ssize_t):
        """The first result row of a node."""
        self._check(node)
        return self._bases[node]

    def depth(self, node: Py_ssize_t):
        """The depth of a node."""
        self._check(node)
        return self._depths[node]

    def values(self, node: Py_ssize_t):
        """The values of a node."""
        self._check(node)
        return tuple([value_at(self, k) for k in range(node * self.results, (node + 1) * self.results)])

    def _check(self, node: Py_ssize_t):
        if not 0 <= node < len(self._bases):
            raise IndexError(f"there is no node {node} among {len(self._bases)}")

    def held(self, begin: Py_ssize_t, end: Py_ssize_t, own: Py_ssize_t = 0):
        """True if a value of nodes from `begin` to `end` can be read outside of the graph.

        `own` are the caller's references to each value, which do not count.
        """
        k: Py_ssize_t
        for k in range(max(begin, 0) * self.results, min(end * self.results, len(self._values))):
            if references(self._values, k) > UNREAD + own:
                return True
        return False

    def append(self, graph: GraphRows, operands: tuple, depth: longlong, origin):
        """Appends a node that was called at `origin`, and returns its values."""
        codes = self._coded(operands)
        return self.values(_append(self, graph, _numbers_in(codes), depth, origin))

    def capture(self, batch: BatchRoom, graph: GraphRows, operands: tuple, depth: longlong, sharing):
        """Returns the values of the node on these operands: an existing one, or a new one at the user's line.

        Only nodes of pure kinds are shared.
        """
        codes = self._coded(operands)
        shared: bint = sharing and self._kind.pure
        node: Py_ssize_t = find_equal(self, _numbers_in(codes)) if shared else -1
        if node < 0:
            node = _append(self, graph, _numbers_in(codes), depth, user_line())
            batch.room -= self.share
            if shared:
                remember(self, node)
        self.calls += 1
        return self.values(node)

    def put(self, operands: tuple, depth: longlong, base: longlong, origin, values: tuple):
        """Appends a node that has its rows and values already."""
        if len(values) != self.results:
            raise ValueError(f"a node of {self._kind.name} has {self.results} values, not {len(values)}")
        codes = self._coded(operands)
        _put(self, _numbers_in(codes), depth, base, origin)
        self._values.extend(values)

    def like(self, kind):
        """Makes a record of another kind for the same calls, with the same depths, origins and values."""
        found = Record(kind, self.mode, 0.0)
        found.calls, found._depths, found._bases = self.calls, self._depths, self._bases
        found._origins, found._values, found._graph = self._origins, self._values, self._graph
        return found

    def forget(self, node: Py_ssize_t):
        """Makes equal calls separate nodes from now on."""
        self._check(node)
        kept = [each for each in _known(self) if each != node]
        self._shares = Shares()
        for each in kept:
            remember(self, each)

    def set_aside(self):
        """Hides the present nodes from equal calls; returns the argument of `put_back`."""
        found, self._shares = self._shares, Shares()
        return found

    def put_back(self, shares: Shares, keep: bint):
        """Lets equal calls find the hidden nodes again; with `keep` also those that came since."""
        since = _known(self) if keep else []
        self._shares = shares
        for node in since:
            codes = self._codes[node * self.arity : (node + 1) * self.arity]
            if find_equal(self, _numbers_in(codes)) < 0:
                remember(self, node)

    def _coded(self, operands: tuple):
        """The operands as numbers."""
        if len(operands) != self.arity:
            raise ValueError(f"a node of {self._kind.name} has {self.arity} operands, not {len(operands)}")
        return array("q", [code_of(self, rows) for rows in operands])


@cfunc
@cython.inline
@cython.exceptval(-1)
def _whole(rows) -> longlong:
    """A number of rows."""
    if not isinstance(rows, int):
        raise TypeError(f"rows is {rows!r}, no number and no tuple")
    return rows


@cfunc
def _numbers_in(codes) -> cython.p_longlong:
    """The numbers of an array."""
    if cython.compiled:
        return cython.cast(cython_array, codes).data.as_longlongs
    else:
        return codes


@cfunc
@cython.exceptval(0, check=True)
def code_of(record: Record, rows) -> longlong:
    """The number that stands for the rows of an operand."""
    number: longlong
    if isinstance(rows, tuple):
        if record._numbers is None:
            record._lists, record._numbers = [], {}
        found = record._numbers.get(rows)
        if found is None:
            found = record._numbers[rows] = len(record._lists)
            record._lists.append(rows)
        number = found
        return -1 - number
    number = _whole(rows)
    if number < 0:
        raise ValueError(f"a graph has no row {number}")
    return number


@cfunc
@cython.inline
@cython.exceptval(-1)
def _push(to: cython_array, number: longlong) -> cython.int:
    """Appends a number."""
    if cython.compiled:
        count: Py_ssize_t = len(to)
        resize_smart(to, count + 1)
        to.data.as_longlongs[count] = number
    else:
        to.append(number)
    return 0


@cfunc
@cython.exceptval(-1)
def _put(record: Record, codes: cython.p_longlong, depth: longlong, base: longlong, origin) -> cython.int:
    """Appends a node but for its values."""
    if not record.arity:
        pass
    elif cython.compiled:
        count: Py_ssize_t = len(record._codes)
        resize_smart(record._codes, count + record.arity)
        memcpy(record._codes.data.as_longlongs + count, codes, record.arity * cython.sizeof(cython.longlong))
    else:
        record._codes.extend(codes)
    _push(record._depths, depth)
    _push(record._bases, base)
    record._origins.append(origin)
    return 0


@cfunc
def new_value(rows, depth: Py_ssize_t, spec, graph, taped: bint, base) -> Value:
    """A value, as `Value()` makes it."""
    if cython.compiled:  # without a look at the names of arguments
        value: Value = Value.__new__(Value)
        value.rows = rows
        value.depth = depth
        value.spec = spec
        value.graph = graph
        value.taped = taped
        value.base = base
        return value
    else:
        return Value(rows, depth, spec, graph, taped, base)


@cfunc
@cython.inline
@cython.exceptval(-1)
def _begin(record: Record, graph: GraphRows) -> cython.int:
    """Takes the rows of a new node. Interpreted, an interrupt (Ctrl-C) may have left half a node before it."""
    if not cython.compiled and len(record._values) != len(record._origins) * record.results:
        record.complete()
    graph.rows += record.height
    return 0


@cfunc
@cython.exceptval(-1)
def _append(record: Record, graph: GraphRows, codes: cython.p_longlong, depth: longlong, origin) -> Py_ssize_t:
    """Appends a node: its number.

    The collector of garbage does not look at its values, of which there are very many: they are in no circle but that
    with their graph, and a graph is always released (Batch.flush, Batch.discard, State.__del__).
    """
    k: Py_ssize_t
    base: Py_ssize_t = graph.rows
    taped: bint = record.mode >= 2
    if base < 0 or base > _MOST_ROWS - record.height:
        raise OverflowError(f"a batch has no {record.height} rows after {base}")
    _begin(record, graph)
    first: Py_ssize_t = len(record._values)
    for k in range(record.results):
        value = new_value(base + number_at(record._offsets, k), depth, record._specs[k], graph, taped, None)
        if cython.compiled:
            PyObject_GC_UnTrack(cython.cast(cython.pointer(PyObject), value))
        record._values.append(value)
    _put(record, codes, depth, base, origin)
    if record.results == 1:  # to divide takes long
        return first
    return first // record.results if record.results else len(record._bases) - 1


@cfunc
def value_at(record: Record, place: Py_ssize_t) -> Value:
    """Returns the value at a place among those of all nodes; it is made at the first request."""
    if not 0 <= place < len(record._values):
        raise IndexError(f"there is no value {place} among {len(record._values)}")
    if record._values[place] is None:
        node: Py_ssize_t = place // record.results
        k: Py_ssize_t = place - node * record.results
        if node >= len(record._bases) or node >= len(record._depths):
            raise IndexError(f"there is half a node {node}")
        row = number_at(record._bases, node) + number_at(record._offsets, k)
        depth = number_at(record._depths, node)
        value = new_value(row, depth, record._specs[k], record._graph, record.mode >= 2, None)
        if cython.compiled:  # see _append
            PyObject_GC_UnTrack(cython.cast(cython.pointer(PyObject), value))
        record._values[place] = value
    return record._values[place]


@cfunc
@cython.exceptval(-1)
def append_unread(record: Record, graph: GraphRows, codes: cython.p_longlong, depth: longlong, origin) -> Py_ssize_t:
    """Appends a node whose values nobody has requested yet; returns its number."""
    base: Py_ssize_t = graph.rows
    if base < 0 or base > _MOST_ROWS - record.height:
        raise OverflowError(f"a batch has no {record.height} rows after {base}")
    _begin(record, graph)
    record._graph = graph
    for _ in range(record.results):
        record._values.append(None)
    _put(record, codes, depth, base, origin)
    return len(record._bases) - 1


@cfunc
@cython.inline
@cython.exceptval(check=False)
def _hash(codes: cython.p_longlong, count: Py_ssize_t) -> cython.ulonglong:
    """A number that equal operands have in common."""
    k: Py_ssize_t
    found: cython.ulonglong = 0
    for k in range(count):
        found = (found ^ cython.cast(cython.ulonglong, codes[k])) * cython.cast(cython.ulonglong, 0x9E3779B97F4A7C15)
        found ^= found >> 29
    return found


@cfunc
@cython.exceptval(-2)
def find_equal(record: Record, codes: cython.p_longlong) -> Py_ssize_t:
    """The node that reads what these numbers stand for, or -1."""
    if not cython.compiled:
        return record._shares.slots.get(tuple(codes), -1)
    else:
        slots: cython.p_int = record._shares.slots.data.as_ints
        own: cython.p_longlong = record._codes.data.as_longlongs
        arity: Py_ssize_t = record.arity
        last: Py_ssize_t = len(record._shares.slots) - 1
        at: Py_ssize_t = _hash(codes, arity) & last
        k: Py_ssize_t
        node: Py_ssize_t
        while slots[at]:
            node = slots[at] - 1
            for k in range(arity):
                if own[node * arity + k] != codes[k]:
                    break
            else:
                return node
            at = (at + 1) & last
        return -1


@cfunc
@cython.exceptval(-1)
def remember(record: Record, node: Py_ssize_t) -> cython.int:
    """Lets equal calls find a node from now on."""
    shares: Shares = record._shares
    if not cython.compiled:
        shares.slots[tuple(record._codes[node * record.arity : (node + 1) * record.arity])] = node
    else:
        if 3 * (shares.used + 1) > 2 * len(shares.slots):
            _grow(record)
        _enter(record, shares.slots, node)
        shares.used += 1
    return 0


@cfunc
@cython.exceptval(-1)
def _enter(record: Record, table: cython_array, node: Py_ssize_t) -> cython.int:
    """Puts a node into a table that has room."""
    slots: cython.p_int = table.data.as_ints
    last: Py_ssize_t = len(table) - 1
    at: Py_ssize_t = _hash(record._codes.data.as_longlongs + node * record.arity, record.arity) & last
    while slots[at]:
        at = (at + 1) & last
    slots[at] = node + 1
    return 0


@cfunc
@cython.exceptval(-1)
def _grow(record: Record) -> cython.int:
    """Lets a table have twice the places."""
    old: cython_array = record._shares.slots
    new: cython_array = _zeros(_INT, 2 * len(old))
    k: Py_ssize_t
    for k in range(len(old)):
        if old.data.as_ints[k]:
            _enter(record, new, old.data.as_ints[k] - 1)
    record._shares.slots = new
    return 0


@cfunc
def _known(record: Record) -> list:
    """The nodes that equal calls find."""
    slots = record._shares.slots
    if cython.compiled:
        return [number - 1 for number in slots if number]
    else:
        return list(slots.values())


def give_results(record: Record, nodes: list, arena, position, find, give):
    """Gives values of nodes that have run their results.

    arena, position: of each row of the graph; find(arena, position): the place that a row is in, and what values there
    have in common; give(that, place, rows in it): the results of values that begin at these.
    """
    k: Py_ssize_t
    row: longlong
    begin: longlong
    end: longlong
    for k in range(record.results):
        number, place, found = -1, None, None
        begin = end = 0
        values, rows = [], []
        for node in nodes:
            value = value_at(record, node * record.results + k)
            row = position[value.rows]
            if number != arena[value.rows] or row < begin or row >= end:
                if values:
                    _give(values, give(found, place, rows))
                values, rows = [], []
                number = arena[value.rows]
                place, found = find(number, row)
                _, begin, end = place
            values.append(value)
            rows.append(row - begin)
        if values:
            _give(values, give(found, place, rows))


@cfunc
@cython.exceptval(-1)
def _give(values: list, results) -> cython.int:
    """Gives these values their results; they leave their graph."""
    value: Value
    for value, result in zip(values, results):
        value.result = result
        value.graph = None
    return 0


def mapped(item, visit):
    """Applies `visit` to a structure's leaves but numbers, strings and None; returns `item` if nothing changes.

    Structures are nested lists, tuples, named or not, and dictionaries.
    """
    kind = type(item)
    if kind is int or kind is str or kind is float or kind is bool or item is None:
        return item
    if isinstance(item, dict):
        values = _mapped_parts([*item.values()], visit)
        if values is None:
            return item
        table = copy(item)  # a defaultdict is none that its class makes of pairs
        table.update(zip(item, values))
        return table
    if kind is not list and kind is not tuple:
        if not isinstance(item, tuple) or not (hasattr(kind, "_make") or hasattr(kind, "n_sequence_fields")):
            return visit(item)
    made: list = _mapped_parts(item, visit)
    if made is None or kind is list:
        return item if made is None else made
    return kind._make(made) if hasattr(kind, "_make") else kind(made)


@cfunc
def _mapped_parts(items, visit) -> list:
    """Returns a list of these, mapped; None if nothing changes."""
    k: Py_ssize_t = 0
    made: list = None
    for part in items:
        found = mapped(part, visit)
        if made is None and found is not part:
            made = list(items[:k])
        if made is not None:
            made.append(found)
        k += 1
    return made


# What the files of `native` call.


def new_node(batch, graph, record, given, count, sharing) -> Py_ssize_t:
    """Returns the node of a record on these values: an existing one, or a new one at the user's line."""
    codes: cython.longlong[256]
    depth: Py_ssize_t = 0
    node: Py_ssize_t = -1
    k: Py_ssize_t
    value: Value
    if count != record.arity or count > _MOST:
        raise ValueError(f"a node of {record._kind.name} has {record.arity} operands, not {count}")
    for k in range(count):
        value = cython.cast(Value, given[k])
        codes[k] = code_of(record, value.rows)
        if value.depth > depth:
            depth = value.depth
    if sharing:
        node = find_equal(record, codes)
    if node < 0:
        node = _append(record, graph, codes, depth + 1, user_line())
        batch.room -= record.share
        if sharing:
            remember(record, node)
    record.calls += 1
    return node
