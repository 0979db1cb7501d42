"""Recordings of what calls of a block have captured, which know no places; see `reuse`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from sys import getrefcount
from typing import Any, NamedTuple

import numpy as np
from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet.cells import recorded
from gluonjit.engines.mxnet.history import is_learned
from gluonjit.engines.mxnet.lazy import Lazy, LazyArray
from gluonjit.engines.mxnet.lookups import Integers
from gluonjit.engines.mxnet.results import Imported
from gluonjit.graph import Kind, Leaf, Record, Value
from gluonjit.hybrid import Batch
from gluonjit.hybrid.capture.replaying import Node, packed, relocated, rows_in
from gluonjit.hybrid.capture.reuse import Apart, CaptureTemplate, Reference, Shared, Unfit, made

_PLAIN = (type(None), bool, int, float, str)


@dataclass(frozen=True)
class Plain:
    """Something that a call returns beside arrays."""

    value: Any


class Source(NamedTuple):
    """The source of an array that a call reads: the arguments (by place), an operator without operands (by what
    it was called with), or itself."""

    way: str
    what: Any


class _Kind(NamedTuple):
    """A signature that recordings have nodes of, and what they take for granted of its kind."""

    key: Any
    layout: tuple[Any, ...]
    mode: int
    name: str


class Here:
    """The open graph, as far as recordings of one block need to know it."""

    def __init__(self, batch: Batch, shared: Shared) -> None:
        self.records: dict[int, Record] = {}  # by the numbers of their kinds
        self.tables: dict[int, Any] = {}
        options, setting = batch.options, batch.setting
        scope = options.without, options.expand, setting.granularity, setting.sharing
        self.scope = shared.scopes.number(scope, scope)
        self.sources: dict[int, Any] = {}  # where each row of an input is from: (table, index), or a Leaf
        self._seen: dict[Any, int] = {}

    def resolve(self, batch: Batch, number: int, kind: _Kind) -> None:
        """Find the record of a kind. Raises Unfit where calls of this signature now are of another kind."""
        record = recorded(batch, kind.key, kind.mode)
        if record is None or _layout(record.kind) != kind.layout:
            raise Unfit("what it was recorded with is no more")
        self.records[number] = record

    def take_in(self, batch: Batch) -> None:
        """Note the inputs that have come since the last time."""
        graph = batch.graph
        for table, entries in graph.lookups.items():
            new = len(entries) - self._seen.get(table, 0)
            self._seen[table] = len(entries)
            self.sources.update([(row, (table, index)) for index, row in islice(reversed(entries.items()), new)])
        new = len(graph.leaves) - self._seen.get(Leaf, 0)
        self._seen[Leaf] = len(graph.leaves)
        for known in islice(reversed(graph.leaves.values()), new):
            self.sources.update(dict.fromkeys(range(known.base, known.base + known.spec.rows), known))


class TemplateMaker:
    """Makes a recording of a call with these arrays among its arguments."""

    def __init__(self, batch: Batch, shared: Shared, here: Here, arrays: list[NDArray]) -> None:
        self.batch = batch
        self.shared = shared
        self.here = here
        self.arrays = arrays

    def recording(self, apart: Apart, structure: Any, lazies: list[Any]) -> CaptureTemplate:
        """The recording of what was captured since, and of what these arrays are of it."""
        found, kinds = self._nodes(apart)
        values = [of for _, _, of, _ in found]
        own = {row: number for number, (base, rows, *_) in enumerate(found) for row in range(base, base + rows)}
        results = [_result(array._v, values, own) for array in lazies]
        reads = [rows for *_, node in found for rows in node.operands]
        reads += [result.rows for result in results if isinstance(result, Reference)]
        lookups, leaves, order, size = self._inputs([row for row in rows_in(reads) if row not in own])
        if _held(apart, lazies, results, values):
            raise Unfit("somebody holds a value that it has captured and does not return")
        local = {row: place for place, row in enumerate([*order, *own])}
        code = packed([node for *_, node in found], local)
        moved = tuple([_moved(result, local) for result in results])
        size += 500 + 4 * len(code) + 32 * len(order)
        return CaptureTemplate(code, lookups, leaves, moved, structure, kinds, size)

    def _nodes(self, apart: Apart) -> tuple[list[tuple[int, int, tuple[Value, ...], Node]], tuple[int, ...]]:
        """First row, number of rows, values and Node of each new node, in order of capture; and the kinds' numbers."""
        shared = self.shared
        found: list[tuple[int, int, tuple[Value, ...], Node]] = []
        kinds = []
        origins: dict[int, int] = {}
        for signature, record, first in apart.records():
            known = _Kind(signature, _layout(record.kind), record.mode, record.kind.name)
            number = shared.kinds.number(known[:2], known)
            kinds.append(number)
            calls = apart.calls(record)
            if not record.kind.pure or not record.kind.outputs:
                raise Unfit(f"{record.kind.name} draws at random, or changes something")
            for node in range(first, len(record)):
                origin = record.origins[node]
                place = origins.get(id(origin))
                if place is None:
                    place = shared.origins.number(origin and (id(origin[0]), origin[1]), origin)
                    origins[id(origin)] = place
                told = Node(number, calls, record.depth(node), place, record.operands_of(node))
                found.append((record.base(node), record.kind.rows, record.values(node), told))
                calls = 0
        found.sort(key=itemgetter(0))
        return found, tuple(sorted(kinds))  # the batch may have met them in another order

    def _inputs(self, rows: list[int]) -> tuple[Any, tuple[Source, ...], list[int], int]:
        """Look-ups and leaves of these rows, the rows in that order, and the bytes of arrays that are kept for them."""
        batch, tables = self.batch, self.shared.tables
        self.here.take_in(batch)
        found: dict[int, dict[int, int]] = {}  # by the number of a table: its entries by row
        arrays: dict[int, Leaf] = {}
        for row in rows:
            source = self.here.sources.get(row)
            if source is None:
                raise Unfit("it uses a value that was captured before it")
            if isinstance(source, Leaf):
                arrays[source.base] = source
                continue
            table, index = source
            host = isinstance(table, Integers)
            known = (None, table.dtype, table.device) if host else (table.weight, table.attrs, table.taped)
            number = tables.number((id(known[0]), *known[1:]), (known, batch.graph.lookup_specs[table]))
            found.setdefault(number, {})[row] = index
        lookups = tuple([(number, tuple(entries.values())) for number, entries in found.items()])
        order = [row for entries in found.values() for row in entries]
        leaves = [self._source(leaf.payload) for leaf in arrays.values()]
        order += [row for leaf in arrays.values() for row in range(leaf.base, leaf.base + leaf.spec.rows)]
        held = sum(leaf.spec.bytes for leaf, source in zip(arrays.values(), leaves) if source.way == "array")
        return lookups, tuple(leaves), order, held

    def _source(self, array: Any) -> Source:
        """Finds where later calls find an array that this one has read."""
        batch = self.batch
        if isinstance(array, Imported):
            raise Unfit("it uses a result of an earlier batch")
        for place, given in enumerate(self.arrays):
            if given is array:
                return Source("argument", place)
        for key, created in batch.created.items():
            if created is array:
                return Source("made", key)
        if id(array) not in batch.parameters and is_learned(array):
            raise Unfit("it uses an array with a gradient that is neither an argument nor a parameter")
        return Source("array", array)


def described(item: Any, graph: Any, lazies: list[Any]) -> Any:
    """The place of a result among those of a call, for one of mx.np what is left of -1 after it; or what it is."""
    if isinstance(item, _PLAIN):
        return Plain(item)
    if not isinstance(item, Lazy):
        raise Unfit(f"it returns a {type(item).__name__}, which is neither a captured value nor a plain constant")
    if item._v.graph is not graph or not item._v.depth or item._c is not None:
        raise Unfit("it returns a value that was there before it")
    lazies.append(item)
    return len(lazies) - 1 if isinstance(item, LazyArray) else -len(lazies)


def _result(value: Value, values: list[tuple[Value, ...]], own: dict[int, int]) -> Any:
    """Describes what a call returns: a value of a node, or a reference to rows of nodes."""
    nodes = tuple(sorted({own[row] for row in value.row_list() if row in own}))
    if not nodes:
        raise Unfit("it returns a value that was captured before it")
    of = values[nodes[0]]
    which = next((place for place in range(len(of)) if of[place] is value), None)
    return Reference(value.rows, value.spec, value.taped, nodes) if which is None else (nodes[0], which)


def _moved(result: Any, local: dict[int, int]) -> Any:
    return result._replace(rows=relocated((result.rows,), local)[0]) if isinstance(result, Reference) else result


def _held(apart: Apart, lazies: list[Any], results: list[Any], values: list[tuple[Value, ...]]) -> bool:
    """Tells whether somebody else than these arrays refers to new nodes."""
    for array in lazies:
        array._v = None
    _forget_bases(lazies)
    try:
        return any(record.held(first, len(record), 1) for _, record, first in apart.records())
    finally:
        table = range(apart.graph.rows)
        for array, result in zip(lazies, results):
            array._v = made(result, values, table, apart.graph)


def _forget_bases(views: list[Any]) -> None:
    """Let views go of what they are views of where nobody else holds that."""
    for view in views:
        base, view._b = view._b, None
        others = sum(other._b is base for other in views)
        if base is not None and getrefcount(base) - 2 > others:  # 2: of this function
            view._b = base


def _layout(kind: Kind) -> tuple[Any, ...]:
    """The layout of a kind: what a recording depends on."""
    return kind.operands, kind.outputs, kind.rows, kind.pure


def equal(one: CaptureTemplate, other: CaptureTemplate) -> bool:
    """Tells whether two calls captured the same."""
    if one._replace(leaves=(), bytes=0) != other._replace(leaves=(), bytes=0):
        return False
    alike = [
        way == other_way and _alike(what, known) for (way, what), (other_way, known) in zip(one.leaves, other.leaves)
    ]
    return len(one.leaves) == len(other.leaves) and all(alike)


def _alike(one: Any, other: Any) -> bool:
    """Tells whether two sources are the same; arrays may be made anew for each call."""
    if not isinstance(one, NDArray) or one is other:
        return one is other or bool(one == other)
    return one.shape == other.shape and one.dtype == other.dtype and np.array_equal(one.asnumpy(), other.asnumpy())
