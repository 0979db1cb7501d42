"""Values that the numbers of inputs alone decide, read in the middle of a sample: they run by themselves.

A program that asks for such numbers (the neighbours within a distance, whether a mask holds anywhere) would otherwise
run what other samples have pending. The calls stay pending; what only they needed is dropped when the batch runs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import torch

from gluonjit.engines.torch.arrays import dtype_named
from gluonjit.engines.torch.held import Held
from gluonjit.engines.torch.hooked import plain
from gluonjit.engines.torch.lazy import LazyTensor
from gluonjit.engines.torch.lookups import Integers
from gluonjit.engines.torch.operands import current
from gluonjit.engines.torch.program import Batched, Lone, as_rows, joined
from gluonjit.engines.torch.ragged.program import Ragged
from gluonjit.graph import Kind
from gluonjit.graph.reading import node_at
from gluonjit.hybrid.capture.structure import map_structure
from gluonjit.hybrid.run.state import LOCAL

_MOST = 64
"""Calls that run for one value."""
_KEY = "decided"


class _NeedsMore(Exception):
    """It depends on weights, draws or other samples' results, or on more calls than are worth running twice."""


def decided(lazy: Any) -> Any:
    """The numbers of a pending tensor, if they follow from inputs by a few calls, for who reads them; else None."""
    state = LOCAL.state
    batch = state.batch
    if batch is None or not state.inside or state.paused or state.trace is not None or state.recorded is not None:
        return None
    value = current(lazy)
    if value.graph is not batch.graph or value.spec.device != "cpu":
        return None
    with plain():
        try:
            found = _Reader(batch.graph, batch.created.setdefault(_KEY, {})).rows(value.rows, value.spec.rows)
        except _NeedsMore:
            return None
    return found if value.spec.mode == "rows" else found.reshape(value.spec.shape)


def read_decided(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments of a function that reads numbers, with those that follow from inputs in place of pending tensors."""
    found: tuple[Any, ...] = map_structure(args, _read)
    return found


def _read(item: Any) -> Any:
    found = decided(item) if item.__class__ is LazyTensor and item._c is None else None
    return item if found is None else found


class _Reader:
    """Computes values of a graph one by one. known: rows from one on, of what has been asked for."""

    def __init__(self, graph: Any, known: dict[int, Any]) -> None:
        self.graph, self.known, self.left = graph, known, _MOST
        self.leaves: list[Any] = []
        self.bases: list[int] = []
        self.integers: dict[Any, dict[int, int]] = {}

    def rows(self, rows: Any, count: int) -> Any:
        """The numbers of these rows: so many from one on, or one by one."""
        if rows.__class__ is int:
            return self.consecutive(rows, count)
        return joined([self.consecutive(row, 1) for row in rows])

    def consecutive(self, row: int, count: int) -> Any:
        """Returns so many rows from this one on, which are of one input or of one result."""
        found = self.known.get(row)
        if found is None:
            node = node_at(self.graph.records, row)
            if node is None:
                found = self.input_at(row, count)
                if len(found) != count:
                    self.known[row] = found
            else:
                self.run(*node)
                found = self.known.get(row)
        if found is None or count > len(found):  # a row in the middle of a result, which is seldom asked for
            raise _NeedsMore
        return found[:count]

    def run(self, record: Any, number: int) -> None:
        """Notes the rows of each result of a node."""
        kind = record.kind
        self.left -= 1
        if self.left < 0 or kind.split is not None or not kind.pure:
            raise _NeedsMore
        operands = record.operands_of(number)
        if kind.sum_of:
            found = [sum([self.rows(rows, spec.rows) for rows, spec in zip(operands, kind.operands)])]
        else:
            found = self.called(kind, operands)
        base = record.base(number)
        for rows, output in zip(found, kind.outputs):
            for place in range(min(len(rows), _MOST)):
                self.known[base + output.offset + place] = rows[place:]

    def called(self, kind: Kind, operands: Sequence[Any]) -> Any:
        """The rows of each result of a kind's program, for one node."""
        program: Any = kind.program
        ragged = isinstance(program, Ragged)
        if program.consts or (not ragged and (kind.apart or not isinstance(program, (Batched, Lone)))):
            raise _NeedsMore
        roles = [role for group in kind.groups for role in group]
        given = [joined([self.rows(operands[k], kind.operands[k].rows) for k in role]) for role in roles]
        besides: tuple[Any, ...] = ([(program, 1)],) if ragged else ()
        if kind.children:
            besides = (torch.zeros(kind.arity, dtype=torch.int64),)  # whose each child is
        return program(given, (), 1, besides)

    def input_at(self, row: int, count: int) -> Any:
        """Returns so many rows of an input from this one on; of one that is no integer of the host, all that follow."""
        if not self.leaves:
            self.leaves = list(self.graph.leaves.values())
            self.bases = [leaf.base for leaf in self.leaves]
        number = bisect_right(self.bases, row) - 1
        if number < 0 or row >= self.leaves[number].base + self.leaves[number].spec.rows:
            return self.integers_at(row, count)
        leaf = self.leaves[number]
        held = leaf.payload
        if leaf.taped or held.__class__ is not Held or held.stale or isinstance(held.tensor, torch.nn.Parameter):
            raise _NeedsMore
        return as_rows(held.rows, leaf.spec)[row - leaf.base :]

    def integers_at(self, row: int, count: int) -> Any:
        """Integers that are rows, each by its value."""
        for table, entries in self.graph.lookups.items():
            if table.__class__ is Integers:
                numbers = self.integers.get(table)
                if numbers is None:
                    numbers = self.integers[table] = {place: number for number, place in entries.items()}
                if row in numbers:
                    found = [numbers.get(place) for place in range(row, row + count)]
                    if None not in found:
                        return torch.tensor(found, dtype=dtype_named(table.dtype))
        raise _NeedsMore
