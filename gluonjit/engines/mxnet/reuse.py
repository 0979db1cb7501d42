"""Calls of a block with the option `reuse`: captured once, and from then on captured again without running the block.

The first call of a key is captured apart from all others, so that nothing but what it captured and read is seen; that
is taken back, and captured again from its recording, as later calls are. A call that cannot be done so stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, zip_longest
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from mxnet import gluon
from mxnet.ndarray import NDArray

from gluonjit.analysis.liveness import held
from gluonjit.engines.mxnet.arrays import spec_of
from gluonjit.engines.mxnet.cell import Cell
from gluonjit.engines.mxnet.cells import recorded
from gluonjit.engines.mxnet.dynamic import blocks_of
from gluonjit.engines.mxnet.history import is_learned
from gluonjit.engines.mxnet.lazy import Lazy, LazyArray, wrap
from gluonjit.engines.mxnet.lazy_np import wrap_np
from gluonjit.engines.mxnet.lookups import Integers, host_table, table_of
from gluonjit.engines.mxnet.operands import leaf
from gluonjit.engines.mxnet.ops import made_from_nothing
from gluonjit.engines.mxnet.session import Imported
from gluonjit.engines.mxnet.trace import map_structure
from gluonjit.errors import OptionError, ReuseError
from gluonjit.graph import Kind, Leaf, Record, Value, line_of
from gluonjit.hybrid import FULL, LOCAL, Batch
from gluonjit.hybrid.replaying import Node, entry_of, packed, relocated, replayed, rows_in, unpacked
from gluonjit.hybrid.reuse import Apart, Recording, Recordings, Reference, Refusal, Unfit, made

MISSED = object()
"""What is given for a call that has to run."""

_PLAIN = (type(None), bool, int, float, str)


@dataclass(frozen=True)
class Plain:
    """Something that a call returns beside arrays."""

    value: Any


class Source(NamedTuple):
    """Where an array comes from that a call reads: the arguments (by place), an operator without operands (by what
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
    """What recordings of one block need to know of the open graph."""

    def __init__(self, batch: Batch, cache: Recordings) -> None:
        self.records: dict[int, Record] = {}  # by the numbers of their kinds
        self.entries: dict[int, Any] = {}  # the same for C
        self.tables: dict[int, Any] = {}
        options, setting = batch.options, batch.setting
        scope = options.without, options.expand, setting.granularity, setting.sharing
        self.scope = cache.scopes.number(scope, scope)
        self.sources: dict[int, Any] = {}  # where each row of an input is from: (table, index), or a Leaf
        self._seen: dict[Any, int] = {}

    def resolve(self, batch: Batch, number: int, kind: _Kind) -> None:
        """Find the record of a kind. Raises Unfit where calls of this signature now are of another kind."""
        record = recorded(batch, kind.key, kind.mode)
        if record is None or _layout(record.kind) != kind.layout:
            raise Unfit("what it was recorded with is no more")
        self.records[number], self.entries[number] = record, entry_of(record)

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


class Call:
    """One call that may be reused."""

    def __init__(self, block: gluon.Block, cell: Cell, args: tuple[Any, ...], key: Any) -> None:
        self.block, self.cache = block, cell.recordings
        self.arrays: list[NDArray] = []
        self.lazy = not _gather(args, self.arrays)
        self.name = key
        self.known: Recording | None = None  # to compare with
        self.apart: Apart | None = None

    def begin(self, batch: Batch) -> Any:
        """What the call gives, captured from its recording; or MISSED, and what it captures is recorded."""
        if batch.room < 0:
            batch.flush(FULL)
        state, cache, report = LOCAL.state, self.cache, batch.report.reuse
        self.batch = batch
        self.here = batch.reused.get(cache.kinds) or batch.reused.setdefault(cache.kinds, Here(batch, cache))
        specs = [spec_of(array) for array in self.arrays]
        self.mode = state.mode
        self.key = (self.name, state.mode, state.numpy, self.here.scope, *specs)
        if self.lazy:
            return self._refused("an argument is a captured value")
        try:
            known = cache.get(self.key)
        except TypeError as error:
            raise OptionError(f"reuse gave the key {self.name!r}, which can be none: {error}") from error
        if isinstance(known, Refusal):
            return self._refused(known.reason)
        if known is not None:
            if cache.due():
                self.known = known
                report.checked += 1
            else:
                try:
                    values, table = self._replay(known)
                except Unfit:  # what it was recorded with is no more
                    cache.drop(self.key)
                else:
                    report.hits += 1
                    found = [made(result, values, table, batch.graph) for result in known.results]
                    return map_structure(known.structure, lambda place: _wrapped(place, found))
        self.apart = Apart(batch)
        return MISSED

    def end(self, out: Any) -> Any:
        """Record what the call has captured, as it returns `out`; gives what the call gives."""
        apart, report = self.apart, self.batch.report.reuse
        if apart is None:
            return out
        lazies: list[Any] = []
        try:
            if apart.ran:
                raise Unfit(f"the batch ran in the middle of it: {self.batch.reason}")
            structure = map_structure(out, lambda item: _described(item, apart.graph, lazies))
            new = self._recorded(apart, structure, lazies)
        except Unfit as unfit:
            apart.keep()
            if self.batch.reason != FULL or not apart.ran:
                self.cache.put(self.key, Refusal(str(unfit)))
            self._refused(str(unfit))
            return out
        if self.known is not None and not _equal(new, self.known):
            apart.keep()
            self.cache.drop(self.key)
            raise ReuseError(
                f"reuse: calls with the key {self.name!r} capture different things: {self._difference(new)}. Let the "
                f"key tell apart all that a call depends on but parameters, or give None for what is not to be reused."
            )
        apart.undo()
        values, table = self._replay(new)
        for array, result in zip(lazies, new.results):
            array._v = made(result, values, table, self.batch.graph)
        if self.known is None:
            report.misses += 1
            self.cache.put(self.key, new)
        else:
            report.hits += 1
        return out

    def close(self) -> None:
        """The call has ended, be it by an exception."""
        if self.apart is not None:
            self.apart.keep()

    def _refused(self, reason: str) -> Any:
        refused = self.batch.report.reuse.refused
        refused[reason] = refused.get(reason, 0) + 1
        return MISSED

    def _recorded(self, apart: Apart, structure: Any, lazies: list[Any]) -> Recording:
        """The recording of what was captured since, and of what these arrays are of it."""
        if apart.reason or LOCAL.state.mode != self.mode:
            raise Unfit(apart.reason or "it changes whether autograd records or trains")
        if any(inner._forward_hooks or inner._forward_pre_hooks for inner in blocks_of(self.block)):
            raise Unfit("a block in it has forward hooks, which run for each call")
        found, kinds = self._nodes(apart)
        values = [of for _, _, of, _ in found]
        own = {row: number for number, (base, rows, *_) in enumerate(found) for row in range(base, base + rows)}
        results = [_result(array._v, values, own) for array in lazies]
        reads = [rows for *_, node in found for rows in node.key]
        reads += [result.rows for result in results if isinstance(result, Reference)]
        lookups, leaves, order, size = self._inputs([row for row in rows_in(reads) if row not in own])
        if _held(apart, lazies, results, values):
            raise Unfit("somebody holds a value that it has captured and does not return")
        local = {row: place for place, row in enumerate([*order, *own])}
        code = packed([node for *_, node in found], local)
        moved = tuple([_moved(result, local) for result in results])
        size += 500 + 4 * len(code) + 32 * len(order)
        return Recording(code, lookups, leaves, moved, structure, kinds, size)

    def _nodes(self, apart: Apart) -> tuple[list[tuple[int, int, tuple[Value, ...], Node]], tuple[int, ...]]:
        """First row, number of rows, values and Node of each new node, in order of capture; and the kinds' numbers."""
        batch, cache = self.batch, self.cache
        found: list[tuple[int, int, tuple[Value, ...], Node]] = []
        kinds = []
        origins: dict[int, int] = {}
        for signature, record, first in apart.records():
            known = _Kind(signature, _layout(record.kind), record.mode, record.kind.name)
            number = cache.kinds.number(known[:2], known)
            kinds.append(number)
            product = len(signature) == 2 and isinstance(signature[0], Kind)
            calls = -1 if product else apart.calls(record)
            keys = _keys(batch, record, first)
            parts = record.bases, record.values, record.depths, record.origins, record.operands
            for base, of, depth, origin, operands, key in zip(*[part[first:] for part in parts], keys):
                place = origins.get(id(origin))
                if place is None:
                    place = cache.origins.number(origin and (id(origin[0]), origin[1]), origin)
                    origins[id(origin)] = place
                node = Node(number, calls, depth, place, key, None if key == operands else operands)
                found.append((base, record.kind.rows, of, node))
                calls = calls if product else 0
        found.sort(key=itemgetter(0))
        return found, tuple(kinds)

    def _inputs(self, rows: list[int]) -> tuple[Any, tuple[Source, ...], list[int], int]:
        """Look-ups and leaves of these rows, the rows in that order, and the bytes of arrays that are kept for them."""
        batch, tables = self.batch, self.cache.tables
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
        """Where later calls find an array that this one has read."""
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

    def _replay(self, recording: Recording) -> tuple[list[tuple[Value, ...]], list[int]]:
        """Capture a recording: the values of its nodes, and the rows that its numbers stand for."""
        batch, here, cache = self.batch, self.here, self.cache
        for number in recording.kinds:
            if number not in here.records:
                here.resolve(batch, number, cache.kinds.things[number])
        table: list[int] = []
        for number, indices in recording.lookups:
            if number not in here.tables:
                (weight, *rest), spec = cache.tables.things[number]
                found = host_table(batch, *rest) if weight is None else table_of(batch, weight, *rest)
                here.tables[number] = found, spec
            known, spec = here.tables[number]
            table.extend(batch.graph.lookup_rows(known, spec, indices))
        for way, what in recording.leaves:
            array = self.arrays[what] if way == "argument" else what
            value = leaf(batch, made_from_nothing(batch, what) if way == "made" else array)
            assert isinstance(value.rows, int)
            table.extend(range(value.rows, value.rows + value.spec.rows))
        origins = cache.origins.things
        return replayed(batch, here.records, here.entries, origins, recording.code, table), table

    def _difference(self, new: Recording) -> str:
        """Where a recording first differs from that which would have been reused."""
        assert self.known is not None
        for number, (was, now) in enumerate(zip_longest(unpacked(self.known.code), unpacked(new.code))):
            if was != now:
                return f"node {number} was {self._told(was)}, and now is {self._told(now)}"
        return "they look up other entries, read other arrays, or return something else"

    def _told(self, node: Node | None) -> str:
        if node is None:
            return "not there"
        line = line_of(self.cache.origins.things[node.origin])
        return f"{self.cache.kinds.things[node.record].name} of {node.key}" + (f" at {line}" if line else "")


def _gather(item: Any, arrays: list[NDArray]) -> bool:
    """Append the arrays in nested arguments; False where one of them was captured."""
    if isinstance(item, NDArray):
        arrays.append(item)
        return not isinstance(item, Lazy)
    if isinstance(item, dict):
        item = tuple(item.values())
    return not isinstance(item, (list, tuple)) or all([_gather(part, arrays) for part in item])


def _described(item: Any, graph: Any, lazies: list[Any]) -> Any:
    """The place of a result among those of a call, for one of mx.np what is left of -1 after it; or what it is."""
    if isinstance(item, _PLAIN):
        return Plain(item)
    if not isinstance(item, Lazy):
        raise Unfit(f"it returns a {type(item).__name__}, which is neither a captured value nor a plain constant")
    if item._v.graph is not graph or not item._v.depth or item._c is not None:
        raise Unfit("it returns a value that was there before it")
    lazies.append(item)
    return len(lazies) - 1 if isinstance(item, LazyArray) else -len(lazies)


def _wrapped(place: Any, values: list[Value]) -> Any:
    if isinstance(place, Plain):
        return place.value
    return wrap(values[place]) if place >= 0 else wrap_np(values[~place])


def _result(value: Value, values: list[tuple[Value, ...]], own: dict[int, int]) -> Any:
    """What a call returns: a value of a node, or a reference to rows of nodes."""
    nodes = tuple(sorted({own[row] for row in value.row_list() if row in own}))
    if not nodes:
        raise Unfit("it returns a value that was captured before it")
    of = values[nodes[0]]
    which = next((place for place in range(len(of)) if of[place] is value), None)
    return Reference(value.rows, value.spec, value.taped, nodes) if which is None else (nodes[0], which)


def _moved(result: Any, local: dict[int, int]) -> Any:
    return result._replace(rows=relocated((result.rows,), local)[0]) if isinstance(result, Reference) else result


def _held(apart: Apart, lazies: list[Any], results: list[Any], values: list[tuple[Value, ...]]) -> bool:
    """Whether somebody else than these arrays refers to new nodes."""
    for array in lazies:
        array._v = None
    apart.batch.calls = {}  # its keys hold operands
    try:
        return held(values)
    finally:
        table = range(apart.graph.rows)
        for array, result in zip(lazies, results):
            array._v = made(result, values, table, apart.graph)


def _keys(batch: Batch, record: Record, first: int) -> list[Any]:
    """What the new nodes of a record are found by."""
    if not record.kind.pure or not record.kind.outputs:
        raise Unfit(f"{record.kind.name} draws at random, or changes something")
    keys = list(record.memo) if batch.sharing else record.operands[first:]
    if len(keys) != len(record.values) - first:
        raise Unfit("it was interrupted")
    return keys


def _layout(kind: Kind) -> tuple[Any, ...]:
    """What a recording depends on in a kind."""
    return kind.operands, kind.outputs, kind.hoists, kind.kept, kind.pure


def _equal(one: Recording, other: Recording) -> bool:
    """Whether two calls captured the same."""
    if one._replace(leaves=(), bytes=0) != other._replace(leaves=(), bytes=0):
        return False
    alike = [
        way == other_way and _alike(what, known) for (way, what), (other_way, known) in zip(one.leaves, other.leaves)
    ]
    return len(one.leaves) == len(other.leaves) and all(alike)


def _alike(one: Any, other: Any) -> bool:
    """Whether two sources are the same; arrays may be made anew for each call."""
    if not isinstance(one, NDArray) or one is other:
        return one is other or bool(one == other)
    return one.shape == other.shape and one.dtype == other.dtype and np.array_equal(one.asnumpy(), other.asnumpy())
