"""Writes that MXNet refuses under recording: to arrays in a computational graph, here to those of a batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Any

import numpy as np
from mxnet.base import MXNetError
from mxnet.ndarray import NDArray

from gluonjit.analysis.captured import Captured
from gluonjit.analysis.plan import LeafChunk, base_rows
from gluonjit.engines.mxnet.results import LIVING, Imported, has_history, history_of, is_learned, spent
from gluonjit.graph import Graph, Kind, Leaf, Record, Value
from gluonjit.graph.modes import RECORDING, is_recorded
from gluonjit.hybrid.run.failures import refused
from gluonjit.hybrid.run.session import has_run
from gluonjit.hybrid.run.state import LOCAL


def refuse_recorded(value: Value, shape: tuple[int, ...]) -> None:
    """Raises where MXNet, recording, refuses to write to an array of this shape, whose value has been computed."""
    state = LOCAL.state
    if not state.mode & RECORDING or state.paused != state.eagerly or _is_one_of_several(value):
        return
    if is_entered(value):
        raise _refusal(shape)


def refuse_waiting(value: Value) -> bool:
    """Raises where MXNet, recording, refuses to write to an array of this value, which waits to be computed.

    Tells whether equal calls have given several arrays of this value, of which any may have been read: none is refused.
    """
    state = LOCAL.state
    graph = value.graph
    if not state.mode & RECORDING or state.paused != state.eagerly or state.batch is None:
        return False
    if graph is None or graph is not state.batch.graph or _is_one_of_several(value):
        return False
    if value.base is None and not value.taped and value.row_list()[-1] + 1 == graph.rows:
        return False  # nothing was captured since it was made, without being recorded
    begun: list[int] = []
    for leaf in graph.leaves.values():
        payload = leaf.payload
        earlier = isinstance(payload, Imported)
        if is_entered(payload.value) if earlier else (leaf.taped and is_learned(payload)) or _is_read(payload, LIVING):
            begun += range(leaf.base, leaf.base + leaf.spec.rows)
    for table, entries in graph.lookups.items():
        if table.taped and table.weight.grad is not None:
            begun += entries.values()
    rows = value.row_list()
    host = [row for table, entries in graph.lookups.items() if table.weight is None for row in entries.values()]
    since = _entering(Captured(graph.records.values(), graph.rows), graph.leaves.values(), host, begun)[rows]
    if not np.isfinite(since).all():
        return False
    if any([graph.again(row) for row, time in zip(rows, since) if time > row]):  # it was read, but which of several?
        return True
    raise _refusal(value.spec.shape)


def _is_one_of_several(value: Value) -> bool:
    """True if other arrays of the program have this value, too, so that who reads it may have read those.

    These are made alike, of nothing, and nobody else's write to one is seen in another.
    """
    graph = value.graph
    return isinstance(graph, Graph) and not graph.several.isdisjoint(value.row_list())


def refuse_variable(array: Any) -> None:
    """Raises where MXNet refuses to write to an array because it has a gradient, and it is recording."""
    if LOCAL.state.mode & RECORDING and array.grad is not None:
        raise _refusal(array.shape)


def _refusal(shape: tuple[int, ...]) -> Exception:
    text = (
        f"an array of shape {shape} was written to under autograd.record, and it is in a computational graph: "
        "recorded calls have computed or read it. MXNet refuses this, as gradients of earlier calls would be "
        "lost (Assigning to NDArrays that are already in a computational graph). Make a new array: `h = h + 1` "
        "for `h += 1`, `h = nd.relu(h)` for `nd.relu(h, out=h)`, `nd.where` or `nd.concat` for `h[...] = y`; or "
        "write to it outside of autograd.record."
    )
    return refused(MXNetError, text)


def is_entered(value: Value, before: float = inf) -> bool:
    """True if the history of a batch that ran, and was not differentiated since, holds an array of this value.

    `before` leaves out batches from this number on.
    """
    tape = history_of(value) if has_run(value) else None
    if tape is None or spent(value, tape):
        return False
    rows = value.row_list()
    return _has_entered(tape, rows) or _entered_later(tape, rows, before)


def _entered_later(tape: Any, rows: list[int], before: float) -> bool:
    """True if these rows of a batch have entered a graph with calls of a later one, which have read them."""
    for later in [found for found in list(tape.later) if found.number < before]:
        for place, _, _, value, _ in later.sources:
            if value is None or not value.taped or history_of(value) is not tape or later.spent.reaches(place):
                continue
            there = dict(zip(value.row_list(), later.rows_at(place)))
            if there.keys() >= set(rows) and _has_entered(later, [there[row] for row in rows]):
                return True
    return False


def _is_read(array: NDArray, tapes: Iterable[Any]) -> bool:
    """True if any of these histories, not differentiated since, holds an array that learns nothing.

    Of others autograd knows itself.
    """
    for tape in list(tapes):
        known = tape.read.get(id(array))
        if known is not None and not tape.spent.reaches(known[1]) and _has_entered(tape, tape.rows_at(known[1])):
            return True
    return False


def _has_entered(tape: Any, rows: list[int]) -> bool:
    """True if MXNet would have an array of these rows in a computational graph, which refuses writes to it."""
    if tape.entered is None:
        plan = tape.plan
        leaves: list[Leaf] = []
        host: list[int] = []
        places = [each.place for each in tape.sources if each.value is None or is_entered(each.value, tape.number)]
        before = sorted((each for each in list(LIVING) if each.number < tape.number), key=lambda each: each.number)
        # What an earlier flush has read beside a weight is in a graph.
        places += [place for array, place in tape.read.values() if _is_read(array, before)]
        for chunk in plan.inputs:
            if isinstance(chunk, LeafChunk):
                leaves += chunk.leaves
            elif chunk.table is not None and chunk.table.weight is None:
                host += tape.rows_at(chunk.place)
        begun = [row for place in places for row in tape.rows_at(place)]
        tape.entered = np.isfinite(_entering(plan.captured, leaves, host, begun))
    return bool(tape.entered[rows].all())


_Call = tuple[Record, Any, Sequence[Any]]
"""A record, the first result row of each of its nodes, and the rows of each of their operands."""


def _entering(captured: Captured, leaves: Iterable[Leaf], host: list[int], begun: list[int]) -> Any:
    """Finds for each row of a graph the number of the node that has let it into one of autograd's, infinity if none.

    It is that which computes it, or one that has read it; -1 where gradients begin. Who reads rows that are a part of
    an array, or of several, reads a new array, and lets in that one. Autograd has the results of recorded nodes that go
    back to a row of `begun` or to a weight that learns, and all that these nodes have read, if it is a whole array.
    Calls that nobody reads count, too, as they do eagerly.
    """
    calls: list[_Call] = []
    for number, (record, form) in enumerate(zip(captured.records, captured.forms)):
        if len(record):
            read, columns = captured.rows_read(number), form.columns
            operands = [read[:, begin:end] for begin, end in zip(columns, columns[1:])]
            calls.append((record, base_rows(record), operands))
    sizes = _sizes(captured.rows, host, leaves, calls)
    since = np.full(captured.rows, np.inf)
    since[begun] = -1
    recorded = [
        (
            bases,
            [(rows, _are_whole(rows, sizes)) for rows in operands],
            bases[:, None] + np.arange(record.kind.rows),
            _Entering(record.kind),
        )
        for record, bases, operands in calls
        if is_recorded(record.mode)
    ]
    changed = True
    while changed:  # a node may have let in what an earlier one reads
        before = since.copy()
        for bases, reads, made, entering in recorded:
            inside = [(since[rows] < bases[:, None]).any(1) for rows, _ in reads]
            for k, (rows, whole) in enumerate(reads):
                nodes = entering.operand(k, inside, len(bases)) & whole
                np.minimum.at(since, rows[nodes], bases[nodes, None])
            nodes = entering.results(inside, len(bases))
            np.minimum.at(since, made[nodes], bases[nodes, None])
        changed = not np.array_equal(before, since)
    return since


def _sizes(count: int, host: list[int], leaves: Iterable[Leaf], calls: Sequence[_Call]) -> Any:
    """The number of rows of the array of which a row is the first; 0 for other rows, 1 for entries of look-ups.

    A number of the host's may be one of several arrays, of which a node has read any: of none it is the first.
    """
    sizes = np.ones(count, dtype=np.int64)
    sizes[host] = 0
    for leaf in leaves:
        sizes[leaf.base : leaf.base + leaf.spec.rows] = 0
        sizes[leaf.base] = leaf.spec.rows
    for record, bases, _ in calls:
        sizes[bases[:, None] + np.arange(record.kind.rows)] = 0
        for output in record.kind.outputs:
            sizes[bases + output.offset] = output.spec.rows
    return sizes


def _are_whole(rows: Any, sizes: Any) -> Any:
    """Tells of each node whether the rows of an operand are those of one array."""
    count = rows.shape[1]
    follow = (rows == rows[:, :1] + np.arange(count)).all(1)
    return follow & (sizes[rows[:, 0]] == count) if count else follow


class _Entering:
    """Rules for what recorded nodes of a kind let into a graph, given those whose operands are in it."""

    def __init__(self, kind: Kind) -> None:
        program: Any = kind.program
        # A kind that is split has the operands of its call, and the program of what is left of it.
        self._enters = None if kind.split is not None or kind.children else program.enters
        self._consts = sum(1 << len(kind.operands) + k for k, array in enumerate(program.consts) if has_history(array))

    def results(self, inside: Sequence[Any], count: int) -> Any:
        """The nodes whose results enter."""
        return np.any([np.full(count, bool(self._consts)), *inside], axis=0)

    def operand(self, number: int, inside: Sequence[Any], count: int) -> Any:
        """The nodes whose operand of this number enters."""
        if self._enters is None:
            return self.results(inside, count)
        by = self._enters[number]
        read = [nodes for k, nodes in enumerate(inside) if by >> k & 1]
        return np.any([np.full(count, bool(by & self._consts)), *read], axis=0)
