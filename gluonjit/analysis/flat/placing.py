# cython: language_level=3, wraparound=False, initializedcheck=False
"""The place of each row, how the operands of each step are put together, and the steps.

In Cython's pure-Python mode (`_placing.pxd` has the types of its classes: objects of numbers alone are nothing to
Python's collector). The arrays are those of `reading` and `ordering`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

try:
    import cython
    from cython import bint, cfunc
except ImportError:
    from gluonjit import standin as cython
    from gluonjit.standin import cfunc

if cython.compiled:
    from cython.cimports.gluonjit._arrays import Number, Numbers, Size
else:
    from gluonjit.standin import Number, Numbers, Size


class Part(NamedTuple):
    """Some nodes of one record: `nodes` are their positions in the record's lists."""

    record: Any
    nodes: Any


class Place:
    """Rows [begin, end) of an arena."""

    __slots__ = ("arena", "begin", "end")

    def __init__(self, arena: Size, begin: Size, end: Size) -> None:
        self.arena = arena
        self.begin = begin
        self.end = end

    def __iter__(self) -> Any:
        return iter((self.arena, self.begin, self.end))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Place):
            return False
        that: Place = other
        return self.arena == that.arena and self.begin == that.begin and self.end == that.end

    def __hash__(self) -> Any:
        return hash((self.arena, self.begin, self.end))

    def __repr__(self) -> str:
        return f"Place({self.arena}, {self.begin}, {self.end})"


@cython.no_gc
@cython.cclass
class Gather:
    """Rows of an arena: those of `index`, or without one all of `place`."""

    __slots__ = ("_begin", "_end", "_of", "place")

    def __init__(self, place: Place, index: Any) -> None:
        self.place = place
        self._of = index
        self._begin = -1  # the index is all of this
        self._end = 0

    @property
    def index(self) -> Any:
        """The rows, or None."""
        if self._begin >= 0:
            self._of = self._of[0][self._begin : self._end]
            self._begin = -1
        return self._of

    @property
    def is_copied(self) -> bool:
        """True if there is an index: rows that lie together are not copied."""
        return self._of is not None

    @property
    def rows(self) -> Any:
        """The number of rows."""
        if self._of is None:
            return self.place.end - self.place.begin
        return self._end - self._begin if self._begin >= 0 else len(self._of)


class Laid:
    """Arrays that all steps of a plan share: the parts of each, and its children, are read from them.

    records: of the nodes, or what gives these when somebody asks; order: nodes, counted from the first of their record;
    cuts: for each part its record, and from where to where in `order` its nodes are; arities: the children of each node
    in `order`.
    """

    __slots__ = ("arities", "cuts", "order", "records")

    def __init__(self, records: Any) -> None:
        self.records = records
        self.order: Any = None
        self.arities: Any = None
        self.cuts: list = []

    def found(self) -> Any:
        """The records."""
        if callable(self.records):
            self.records = self.records()
        return self.records


class Step:
    """One batched launch: nodes of one kind (or family of kinds) and mode.

    parts: which nodes; gathers: one a group of operands; places: one a result; arities: how many children each node
    has, where their number may differ.
    """

    __slots__ = ("_first", "_laid", "_last", "_parts", "count", "gathers", "kind", "mode", "places")

    def __init__(self, kind: Any, mode: cython.int, parts: Any, count: Size, gathers: tuple, places: tuple) -> None:
        self.kind = kind
        self.mode = mode
        self.count = count
        self.gathers = gathers
        self.places = places
        self._parts = parts
        self._laid: Any = None
        self._first = self._last = 0

    @property
    def parts(self) -> Any:
        """Its nodes, record by record."""
        if self._parts is None:
            cuts, laid, records = self._laid.cuts, self._laid, self._laid.found()
            self._parts = tuple(
                [
                    Part(records[cuts[k]], laid.order[cuts[k + 1] : cuts[k + 2]])
                    for k in range(3 * self._first, 3 * self._last, 3)
                ]
            )
        return self._parts

    @property
    def numbers(self) -> Any:
        """The number of the record of each part; None if a step was made separately."""
        if self._laid is None:
            return None
        return [self._laid.cuts[k] for k in range(3 * self._first, 3 * self._last, 3)]

    @property
    def arities(self) -> Any:
        """The children of each node, or None."""
        if self._laid is None or not self.kind.children:
            return None
        begin = self._laid.cuts[3 * self._first + 1]
        return self._laid.arities[begin : begin + self.count]

    def operands(self) -> Any:
        """The number of each operand's gather, and the range of its rows in that, node by node.

        Not of a kind whose nodes have any number of children, which come one after the other.
        """
        found = [(0, 0, 0)] * len(self.kind.operands)
        for number, (group, gather) in enumerate(zip(self.kind.groups, self.gathers)):
            each = gather.rows // len(group)
            for place, (operand,) in enumerate(group):
                found[operand] = number, place * each, (place + 1) * each
        return found

    @property
    def owners(self) -> Any:
        """The node that each child belongs to, where nodes have any number of children."""
        return np.repeat(np.arange(self.count), self.arities)


def place_inputs(
    given: list,
    sizes: Numbers,
    arena: Numbers,
    position: Numbers,
) -> None:
    """Gives places to rows from before the batch: `given` has pairs of an arena and a list of rows."""
    number: Number
    row: Number
    k: Size
    place: Number
    for number, listed in given:
        rows: list = listed
        place = sizes[number]
        for k in range(len(rows)):
            row = rows[k]
            arena[row] = number
            position[row] = place
            place += 1
        sizes[number] = place


def first_records(starts: list, order: Numbers, kinds: Numbers) -> dict:
    """Finds the records of steps' first nodes, in order, and the number of steps of each."""
    step: Size
    begin: Size
    found: dict = {}
    for step in range(len(starts) - 1):
        begin = starts[step]
        number = kinds[order[begin]]
        found[number] = found.get(number, 0) + 1
    return found


def lay_out(
    starts: list,
    order: Numbers,
    begins: Numbers,
    kinds: Numbers,
    bases: Numbers,
    firsts: Numbers,
    operands: Numbers,
    forms: Numbers,
    form_at: Numbers,
    arenas: list,
    sizes: Numbers,
    arena: Numbers,
    position: Numbers,
    indices: Numbers,
    arities: Numbers,
    laid: Laid,
    index: list,
) -> tuple:
    """Gives places to the results of all steps, finds the rows that each step reads, and returns the steps.

    Step k has the nodes from `starts[k]` to `starts[k + 1]` of `order`. Of each record `arenas` says in which arena
    each of its results lies, where it is the first of a step, and `forms` has, from `form_at` on, the numbers of
    its `KindForm`, and before them its arity, which goes into `arities` for each node in `order`. `sizes` are the
    rows in each arena so far. Rows that a step reads, and that do not lie together, go into `indices`. From then on
    nodes in `order` are counted from the first of their record. What steps read later, `laid` and one item of
    `index` (`indices` as an array of numpy), is put there by who calls this.
    """
    step: Size
    number: Size
    begin: Size
    end: Size
    used: Size = 0
    place: Number
    own: Number
    record: Number
    found: list = []
    for step in range(len(starts) - 1):
        begin, end = starts[step], starts[step + 1]
        record = kinds[order[begin]]
        gathers: list = []
        for number in range(forms[form_at[record]]):
            filled = _gather(number, begin, end, order, kinds, firsts, operands, forms, form_at, indices, used)
            gather = _gathered(used, filled, indices, arena, position, index)
            gathers.append(gather)
            if gather._of is not None:
                used = filled
        places: list = []
        of: tuple = arenas[record]
        for number in range(len(of)):
            own = of[number]
            place = _place(number, begin, end, order, kinds, bases, forms, form_at, own, sizes, arena, position)
            places.append(_new_place(own, place, sizes[own]))
        first = len(laid.cuts) // 3
        _cut(begin, end, order, kinds, begins, forms, form_at, arities, laid.cuts)
        of_first = laid.records[record]
        made = _new_step(of_first.kind, of_first.mode, end - begin, tuple(gathers), tuple(places), laid)
        made._first, made._last = first, len(laid.cuts) // 3
        found.append(made)
    return tuple(found)


@cfunc
def _gathered(
    begin: Size,
    end: Size,
    indices: Numbers,
    arena: Numbers,
    position: Numbers,
    index: list,
) -> Gather:
    """The gather of the rows in a part of `indices`, which their positions replace: with an index unless together."""
    if end == begin:
        raise ValueError("a step reads nothing where it should read rows")
    own: Number = arena[indices[begin]]
    together: bint = _position(indices, begin, end, position)
    where = _new_place(own, indices[begin], indices[end - 1] + 1)
    return _new_gather(where, None, -1, 0) if together else _new_gather(where, index, begin, end)


@cfunc
def _new_place(arena: Number, begin: Number, end: Number) -> Place:
    found: Place = Place.__new__(Place)
    found.arena, found.begin, found.end = arena, begin, end
    return found


@cfunc
def _new_gather(place: Place, of: object, begin: Size, end: Size) -> Gather:
    found: Gather = Gather.__new__(Gather)
    found.place, found._of, found._begin, found._end = place, of, begin, end
    return found


@cfunc
def _new_step(kind: object, mode: cython.int, count: Size, gathers: tuple, places: tuple, laid: Laid) -> Step:
    found: Step = Step.__new__(Step)
    found.kind, found.mode, found.count = kind, mode, count
    found.gathers, found.places = gathers, places
    found._parts, found._laid = None, laid
    return found


@cfunc
def _cut(
    begin: Size,
    end: Size,
    order: Numbers,
    kinds: Numbers,
    begins: Numbers,
    forms: Numbers,
    form_at: Numbers,
    arities: Numbers,
    cuts: list,
) -> None:
    """Counts the nodes of a step from the first of their record, and notes in `cuts` where those of each record are."""
    i: Size
    first: Number
    arity: Number
    kind: Number
    while begin < end:
        kind = kinds[order[begin]]
        first, arity = begins[kind], forms[form_at[kind] - 1]
        i = begin
        while i < end and kinds[order[i]] == kind:
            order[i] -= first
            arities[i] = arity
            i += 1
        cuts += (kind, begin, i)
        begin = i


def again(steps: tuple, kinds: list, laid: Laid) -> tuple:
    """Makes the same steps of other records of the same structure: `laid` has these, `kinds` the kind of each."""
    k: Size
    found: list = []
    cuts: list = laid.cuts
    for k in range(len(steps)):
        old: Step = steps[k]
        made = _new_step(kinds[cuts[3 * old._first]], old.mode, old.count, old.gathers, old.places, laid)
        made._first, made._last = old._first, old._last
        found.append(made)
    return tuple(found)


def living(
    begins: Numbers,
    alive: Numbers,
    keep: Numbers,
    found: Numbers,
) -> list:
    """Finds the nodes to `keep` that are alive, counted from the first of their record, in `found`.

    Returns for each record that has any (record, from where in `found`, to where).
    """
    record: Size
    n: Size
    begin: Size
    used: Size = 0
    parts: list = []
    for record in range(len(begins) - 1):
        begin = used
        for n in range(begins[record], begins[record + 1]):
            if alive[n] and keep[n]:
                found[used] = n - begins[record]
                used += 1
        if used > begin:
            parts.append((record, begin, used))
    return parts


@cfunc
def _gather(
    number: Size,
    begin: Size,
    end: Size,
    order: Numbers,
    kinds: Numbers,
    firsts: Numbers,
    operands: Numbers,
    forms: Numbers,
    form_at: Numbers,
    indices: Numbers,
    used: Size,
) -> Size:
    """Appends the rows of a group of operands to `indices`, role by role; returns where they end."""
    role: Size
    i: Size
    c: Size
    first: Number
    columns: Number = 0
    at: Number = form_at[kinds[order[begin]]]
    width: Number = 0
    kind: Number
    for role in range(forms[at + forms[at + 2 + number]]):
        kind = -1
        for i in range(begin, end):
            if kinds[order[i]] != kind:
                kind = kinds[order[i]]
                at = form_at[kind]
                columns = at + forms[at + forms[at + 2 + number] + 1 + role]
                width = forms[columns]
            first = firsts[order[i]]
            if width == 1:
                indices[used] = operands[first + forms[columns + 1]]
                used += 1
            else:
                for c in range(width):
                    indices[used] = operands[first + forms[columns + 1 + c]]
                    used += 1
    return used


@cfunc
def _position(indices: Numbers, begin: Size, end: Size, position: Numbers) -> bint:
    """Replaces rows by their positions; tells whether these increase one by one."""
    i: Size
    place: Number
    expected: Number = position[indices[begin]]
    together: bint = True
    for i in range(begin, end):
        place = position[indices[i]]
        indices[i] = place
        if place != expected:
            together = False
        expected += 1
    return together


@cfunc
def _place(
    number: Size,
    begin: Size,
    end: Size,
    order: Numbers,
    kinds: Numbers,
    bases: Numbers,
    forms: Numbers,
    form_at: Numbers,
    own: Number,
    sizes: Numbers,
    arena: Numbers,
    position: Numbers,
) -> Number:
    """Gives places in an arena to one result of a step's nodes; returns the first."""
    i: Size
    row: Number
    at: Number
    first: Number
    place: Number = sizes[own]
    for i in range(begin, end):
        at = form_at[kinds[order[i]]]
        at += 2 + forms[at] + 2 * number
        first = bases[order[i]] + forms[at]
        for row in range(first, first + forms[at + 1]):
            arena[row] = own
            position[row] = place
            place += 1
    first = sizes[own]
    sizes[own] = place
    return first
