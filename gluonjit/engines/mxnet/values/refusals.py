"""Writes that MXNet refuses under recording: to arrays in a computational graph, here to those of a batch."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from operator import itemgetter
from typing import Any

import numpy as np
from mxnet.base import MXNetError
from mxnet.ndarray import NDArray

from gluonjit.analysis.captured import Captured
from gluonjit.analysis.plan import LeafChunk, base_rows
from gluonjit.engines.mxnet.run.results import LIVING, has_history, history_of, spent
from gluonjit.graph import Graph, Kind, Leaf, Value
from gluonjit.graph.modes import RECORDING, is_recorded
from gluonjit.hybrid.run.failures import refused
from gluonjit.hybrid.run.session import has_run
from gluonjit.hybrid.run.state import LOCAL

READ, MADE, NEVER = 1, 2, 3
"""How an array is in a graph of autograd: a recorded call has read it, or made it."""


def refuse_recorded(value: Value, shape: tuple[int, ...], least: int = READ) -> None:
    """Raises where MXNet, recording, refuses to write to an array of this shape, whose value has been computed."""
    state = LOCAL.state
    if state.mode & RECORDING and state.paused == state.eagerly and is_entered(value) >= least:
        raise _refusal(shape)


def least_refused(value: Value) -> int:
    """Returns how an array whose value waits has to be in a graph for a write to be refused.

    Of arrays that were made alike, of nothing or by equal calls, nobody knows which a call has read.
    """
    graph, rows = value.graph, value.row_list()
    if not isinstance(graph, Graph):
        return READ
    return MADE if any(map(graph.again, rows)) else READ if graph.several.isdisjoint(rows) else NEVER


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


def is_entered(value: Value, before: float = inf) -> int:
    """Tells how the history of a batch that ran holds an array of this value; 0 if not, or if it was differentiated.

    `before` leaves out batches from this number on.
    """
    tape = history_of(value) if has_run(value) else None
    if tape is None or spent(value, tape):
        return 0
    rows = value.row_list()
    return _has_entered(tape, rows) or int(_entered_later(tape, rows, before))


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


def _has_entered(tape: Any, rows: list[int]) -> int:
    """Tells how MXNet would have an array of these rows in a computational graph; 0 if not."""
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
        tape.entered = _entered(plan.captured, leaves, host, begun)
    return int(tape.entered[rows].min())


def _entered(captured: Captured, leaves: Iterable[Leaf], host: list[int], begun: list[int]) -> Any:
    """Finds how rows of a graph have entered one of autograd's (0 if not), given those where gradients begin.

    Autograd has the results of recorded nodes that go back to such a row or to a weight that learns, and all that these
    nodes have read, if it is a whole array: of a part, or of several, they read a new one, which is let in.
    Calls that nobody reads count, too, as they do eagerly.
    """
    sizes = _sizes(captured, leaves, host)
    entered = np.zeros(captured.rows, dtype=np.int8)
    entered[begun] = MADE
    calls = []
    for number, (record, form) in enumerate(zip(captured.records, captured.forms)):
        if len(record) and is_recorded(record.mode):
            rules, rows, columns = _rules(record.kind), captured.rows_read(number), form.columns
            parts = list(zip(columns, columns[1:]))
            for read, base in zip(rows, base_rows(record).tolist()):
                calls.append((base, record.kind.rows, [read[begin:end] for begin, end in parts], *rules))
    for base, count, operands, enters, consts in sorted(calls, key=itemgetter(0)):
        inside = consts | sum([1 << k for k, rows in enumerate(operands) if entered[rows].any()])
        if inside:
            entered[base : base + count] = MADE
        for k, rows in enumerate(operands):
            if inside & (inside if enters is None else enters[k]) and _is_whole(rows, sizes):
                np.maximum.at(entered, rows, READ)
    return entered


def _sizes(captured: Captured, leaves: Iterable[Leaf], host: list[int]) -> Any:
    """The number of rows of the array of which a row is the first; 0 for other rows, 1 for entries of look-ups.

    A number of the host's may be one of several arrays, of which a node has read any: of none it is the first.
    """
    sizes = np.ones(captured.rows, dtype=np.int64)
    sizes[host] = 0
    for leaf in leaves:
        sizes[leaf.base : leaf.base + leaf.spec.rows] = 0
        sizes[leaf.base] = leaf.spec.rows
    for record in captured.records:
        bases = base_rows(record)
        sizes[bases[:, None] + np.arange(record.kind.rows)] = 0
        for output in record.kind.outputs:
            sizes[bases + output.offset] = output.spec.rows
    return sizes


def _is_whole(rows: Any, sizes: Any) -> bool:
    """True if the rows of an operand are those of one array."""
    return len(rows) > 0 and sizes[rows[0]] == len(rows) and bool((rows == rows[0] + np.arange(len(rows))).all())


def _rules(kind: Kind) -> tuple[list[int] | None, int]:
    """Finds what lets operands of a kind's nodes into a graph: `let_in`, or None for anything; and constants in one."""
    program: Any = kind.program
    consts = sum(1 << len(kind.operands) + k for k, array in enumerate(program.consts) if has_history(array))
    # A kind that is split has the operands of its call, and the program of what is left of it.
    return None if kind.split is not None or kind.children else program.enters, consts
