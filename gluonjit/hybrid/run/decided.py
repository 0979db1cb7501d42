"""Values that the numbers of inputs alone decide, read in the middle of a sample: they run by themselves.

A program that asks for such numbers (the neighbours within a distance, whether a mask holds anywhere) would otherwise
run what other samples have pending. The calls stay pending; what only they needed is dropped when the batch runs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import numpy as np

from gluonjit.graph import Arrays, Kind, Leaf, Spec, Value
from gluonjit.graph.reading import node_at
from gluonjit.hybrid.check.runner import NodeRunner
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.state import LOCAL

MOST = 64
"""Calls that run for one value."""
KEY = "decided"
"""Where a batch keeps what has been asked for."""


class NeedsMore(Exception):
    """It depends on weights, draws or other samples' results, or on more calls than are worth running twice."""


def batch_to_ask() -> Batch | None:
    """Returns the open batch, if a sample that is captured may ask for the numbers of its values.

    Samples of `gluonjit.map` need not: what they ask for runs together.
    """
    state = LOCAL.state
    asks = state.inside and not state.paused and state.trace is None and state.recorded is None and state.hub is None
    return state.batch if asks else None


class DecidedValues:
    """Computes values of a graph one by one from the traces of their calls, for an engine, which derives its own.

    known: results, by the first of their rows, that were computed before.

    * `joined(parts)`: rows in one array.
    * `leaf_rows(leaf)`: the rows of an array from before the batch.
    """

    joined: Callable[..., Any]
    leaf_rows: Callable[..., Any]
    runner: NodeRunner
    as_rows: Callable[[Any, Spec], Any]  # an array of this spec as rows of an arena
    constant = False  # whether they are not to depend on inputs that gradients go on to

    def __init__(self, graph: Any, known: dict[int, Any]) -> None:
        self.graph, self.known, self.left = graph, known, MOST
        self.leaves: list[Leaf] = []
        self.bases: list[int] = []
        self.entries: dict[Any, dict[int, Any]] = {}

    @classmethod
    def of(cls, batch: Batch | None, value: Value, constant: bool = False) -> Any:
        """The rows of a value of the batch that may be asked, if they follow from inputs by a few calls; else None."""
        if batch is None or value.graph is not batch.graph:
            return None
        values = cls(batch.graph, {} if constant else batch.created.setdefault(KEY, {}))
        values.constant = constant
        try:
            return values.rows(value.rows, value.spec.rows)
        except NeedsMore:
            return None

    def called(self, record: Any, operands: Arrays, place: int) -> Any:
        """The rows of a result of a node of this record."""
        kind: Kind = record.kind
        if kind.call is None or self.may_fail(kind):
            raise NeedsMore
        call = kind.call.by_result[place]
        if call.consts:  # weights
            raise NeedsMore
        read, piece = call.used(), self.runner.piece
        given = [
            piece(self.rows(rows, spec.rows), spec, 0) if k in read else None
            for k, (rows, spec) in enumerate(zip(operands, kind.operands))
        ]
        with self.runner.region(kind, record.mode, False):
            return self.as_rows(self.runner.interpret(call, given, ())[0], kind.outputs[place].spec)

    def may_fail(self, kind: Kind) -> bool:
        """True if calls of this kind may fail where nobody waits for them."""
        return False

    def entry_rows(self, table: Any, entries: Arrays) -> Any:
        """The rows of a table's entries, if these are the host's own numbers, each by its value."""
        if table.weight is not None:
            raise NeedsMore
        numbers = np.array(entries).astype(table.dtype).reshape(len(entries), *[1] * table.axes)
        return self.runner.sent(numbers, table.device)

    def rows(self, rows: Any, count: int) -> Any:
        """The numbers of these rows: so many from one on, or one by one."""
        if rows.__class__ is int:
            return self.consecutive(rows, count)
        return self.joined([self.consecutive(row, 1) for row in rows])

    def consecutive(self, row: int, count: int) -> Any:
        """Returns so many rows from this one on, which are of one input or of one result."""
        found = self.known.get(row)
        if found is None:
            node = node_at(self.graph.records, row)
            found = self.input_at(row, count) if node is None else self.result_at(row, *node)
        if count > len(found):
            raise NeedsMore
        return found if len(found) == count else found[:count]

    def result_at(self, row: int, record: Any, number: int) -> Any:
        """Returns the rows of a node's result from this one on; notes what has been computed for that."""
        kind, base = record.kind, record.base(number)
        firsts = [base + output.offset for output in kind.outputs]
        place = max([k for k, first in enumerate(firsts) if first <= row], key=firsts.__getitem__)
        if firsts[place] not in self.known:
            self.left -= 1
            if self.left < 0 or kind.split is not None or not kind.pure:
                raise NeedsMore
            self.known[firsts[place]] = self.called(record, record.operands_of(number), place)
        return self.known[firsts[place]][row - firsts[place] :]

    def input_at(self, row: int, count: int) -> Any:
        """Returns so many rows of an input from this one on; of one that is no look-up, all that follow."""
        if not self.leaves:
            self.leaves = list(self.graph.leaves.values())
            self.bases = [leaf.base for leaf in self.leaves]
        number = bisect_right(self.bases, row) - 1
        if number >= 0 and row < self.bases[number] + self.leaves[number].spec.rows:
            return self.leaf_rows(self.leaves[number])[row - self.bases[number] :]
        for table, places in self.graph.lookups.items():
            entries = self.entries.get(table)
            if entries is None:
                entries = self.entries[table] = {place: entry for entry, place in places.items()}
            if row in entries:
                found = [entries.get(place) for place in range(row, row + count)]
                if None in found:
                    break
                return self.entry_rows(table, found)
        raise NeedsMore
