"""Operators whose first axes are already those of samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gluonjit.program.axes.row import Application, Row
from gluonjit.program.axes.values import PREFIX, Labels, Vals, Values


class Last(Row):
    """The last axes are treated as a whole, and all before them are free: the operator runs as it stands.

    axes: how many these are, of all operands or of each; params: from which operand on operands are parameters, the
    same for all nodes; number: of an operand that has no other axes it gives a number.
    """

    kind, said = "layer", "over the last dimensions, of all samples at once"

    axes: int | tuple[int, ...] | Callable[[Application], int]
    params: int = 99
    number: bool = False

    def fronts(self, call: Application) -> list[int]:
        """The number of axes before the last, of each operand that is no parameter."""
        kept = self.axes(call) if callable(self.axes) else self.axes
        vals = call.vals[: self.params]
        return [val.rank - (kept[k] if isinstance(kept, tuple) else kept) for k, val in enumerate(vals)]

    def labels(self, call: Application) -> Labels:
        """Axes before the last; those of parameters have none."""
        front = max(self.fronts(call)[0], 0)
        free = list(range(front))
        ranks = [val.rank for val in call.vals]
        ins = [free + [None] * (rank - front) if k < self.params else [None] * rank for k, rank in enumerate(ranks)]
        return Labels(ins, [free[: len(out)] + [None] * (len(out) - front) for out, _ in call.outs], set(free))

    def lift(self, call: Application) -> Vals:
        """Writes down the call."""
        if any(not val.shared for val in call.vals[self.params :]):
            raise call.refuse("weights differ by sample")
        fronts = self.fronts(call)
        if len(set(fronts)) > 1 or fronts[0] < 0:
            raise call.refuse("operands of several numbers of dimensions")
        found = super().lift(call)
        return [val._replace(rest=()) for val in found] if self.number and not fronts[0] else found

    def run(self, call: Application, vals: Vals, labels: Labels, shift: int) -> Sequence[int]:
        """Adds the operator as it stands."""
        if shift == 1:
            vals = [call.writer.spread(val) if k < self.params else val for k, val in enumerate(vals)]
        return call.again(vals)


class Samples(Row):
    """The first axis holds samples, of which those of all nodes are more.

    rank: the axes of an operand with that one, where it may be missing; least: its least number of axes; data: how many
    operands have samples, further ones are parameters.
    """

    kind, said = "layer", "over a leading dimension of samples, in which all samples fit together"

    rank: int | None = None
    least: int = 2
    data: int = 1

    def lift(self, call: Application) -> Vals:
        """Writes down the call."""
        vals, params = call.vals[: self.data], call.vals[self.data :]
        if any(not other.shared for other in params):
            raise call.refuse("weights differ by sample")
        one = self.rank is not None and vals[0].rank == self.rank - 1  # a single sample, which has no axis of them
        if vals[0].rank < self.least:
            raise call.refuse("fewer dimensions than samples have")
        if len({val.shape[:1] for val in vals}) > 1:
            raise call.refuse("operands of different numbers of samples")
        axes = 0 if one else 1
        placed = [self.without_padding(call, call.writer.spread(val), axes) for val in vals]
        found = call.made(self.run(call, [*placed, *params], Labels([], [], set()), 1), axes)
        if self.refill:
            found = [call.writer.filled(each, each.sized_axes, self.after) if each.padded else each for each in found]
        # Others are statistics, which nothing uses but a backward pass.
        return [each if each.rank == len(call.shape) else each._replace(lead=None, rest=each.shape) for each in found]

    def without_padding(self, call: Application, val: Values, axes: int) -> Values:
        """An operand in rows, with a number that changes nothing in place of padding."""
        places = [axis for axis in val.sized_axes if axis >= axes]
        if places:
            fill = self.neutral(call)
            if fill is None or axes in places or val.packed:
                raise call.mixed_rows
            val = val if fill is PREFIX else call.writer.filled(val, places, fill)
        return call.writer.folded(val, axes)


class Pick(Row):
    """Entries of a table that all nodes share, by integers of any shape. table, index: which operands these are."""

    kind, said = "picking", "entries of a table that all samples share"

    table: int = 0
    index: int = 1

    def lift(self, call: Application) -> Vals:
        """Writes down the call."""
        table, index = call.vals[self.table], call.vals[self.index]
        if not table.shared:
            raise call.refuse("a separate table for each sample")
        return call.lying(call.again(call.vals), index.lead, (*index.rest, *table.shape[1:]))
