"""Operators whose first axes are already those of samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gluonjit.program.axes.row import Application, Row
from gluonjit.program.axes.values import Labels, Values


class Last(Row):
    """The last axes are treated as a whole, and all before them are free: the operator runs as it stands.

    axes: how many these are; params: from which operand on operands are parameters, the same for all nodes.
    """

    said = "over the last dimensions, of all samples at once"

    def __init__(self, axes: int | Callable[[Application], int], params: int = 99, **common: Any) -> None:
        super().__init__(**common)
        self.axes, self.params = axes, params

    def labels(self, call: Application) -> Labels:
        """Axes before the last, counted from these; those of parameters have none."""
        kept = self.axes(call) if callable(self.axes) else self.axes
        front = max([val.rank for val in call.vals[: self.params]]) - kept
        ins = [
            _front(val.rank, front, kept) if k < self.params else [None] * val.rank for k, val in enumerate(call.vals)
        ]
        outs = [[*range(-front, 0)][: len(shape)] + [None] * (len(shape) - front) for shape, _ in call.outs]
        return Labels(ins, outs, set(range(-front, 0)))

    def lift(self, call: Application) -> list[Values]:
        """Writes down the call."""
        if any([not val.shared for val in call.vals[self.params :]]):
            raise call.refuse("weights differ by sample")
        if len({val.rank for val in call.vals[: self.params]}) > 1:
            raise call.refuse("operands of several numbers of dimensions")
        return super().lift(call)

    def run(self, call: Application, vals: list[Values], labels: Labels, shift: int) -> Sequence[int]:
        """Adds the operator as it stands."""
        if shift == 1:
            rank = max([val.rank for val in call.vals[: self.params]])
            vals = [call.writer.aligned(call.writer.spread(val), rank) for val in vals[: self.params]] + vals[
                self.params :
            ]
        return call.again(vals)


def _front(rank: int, front: int, kept: int) -> list[Any]:
    own = rank - kept
    return [label - front for label in range(front - own, front)] + [None] * kept


class Samples(Row):
    """The first axis holds samples, of which those of all nodes are more.

    rank: the axes of an operand with that one, where it may be missing; further operands are parameters.
    """

    said = "over a leading dimension of samples, in which all samples fit together"

    def __init__(self, rank: int | None = None, least: int = 2, **common: Any) -> None:
        super().__init__(**common)
        self.rank, self.least = rank, least

    def lift(self, call: Application) -> list[Values]:
        """Writes down the call."""
        val, *params = call.vals
        if any([not other.shared for other in params]):
            raise call.refuse("weights differ by sample")
        one = self.rank is not None and val.rank == self.rank - 1  # a single sample, which has no axis of them
        if val.rank < self.least:
            raise call.refuse("fewer dimensions than samples have")
        placed = call.writer.folded(val, 0 if one else 1)
        found = call.made(self.run(call, [placed, *params], Labels([], [], set()), 1), 0 if one else 1)
        return [each if each.rank == len(call.shape) else _statistics(each) for each in found]

    def run(self, call: Application, vals: list[Values], labels: Labels, shift: int) -> Sequence[int]:
        """Adds the operator as it stands."""
        return call.again(vals)


def _statistics(val: Values) -> Values:
    """A result that nothing uses but a backward pass."""
    return val._replace(lead=None, rest=val.shape)


class Pick(Row):
    """Entries of a table that all nodes share, by integers of any shape. table, index: which operands these are."""

    said = "entries of a table that all samples share"

    def __init__(self, table: int = 0, index: int = 1, **common: Any) -> None:
        super().__init__(**common)
        self.table, self.index = table, index

    def lift(self, call: Application) -> list[Values]:
        """Writes down the call."""
        table, index = call.vals[self.table], call.vals[self.index]
        if not table.shared:
            raise call.refuse("a separate table for each sample")
        return call.lying(call.again(call.vals), index.lead, (*index.rest, *table.shape[1:]))
