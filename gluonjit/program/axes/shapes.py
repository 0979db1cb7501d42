"""Changes of shape: views, other orders of axes, repeated axes, joins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from gluonjit.program.axes.row import Application, Row, operands
from gluonjit.program.axes.values import ROWS, Labels, Values


class Reshape(Row):
    """The elements of the first operand in the same order, in another shape: nothing has to run.

    keeps: says of a call on any number of rows that it leaves these as they are.
    """

    said = "the same elements in the same order: nothing has to run"

    def __init__(self, keeps: Callable[[Application], bool] = lambda call: True, **common: Any) -> None:
        super().__init__(**common)
        self.keeps = keeps

    def lift(self, call: Application) -> list[Values]:
        """Returns the operand with the result's shape."""
        val, (shape, dtype) = call.vals[0], call.outs[0]
        if dtype != val.dtype:
            raise call.refuse("a view with another dtype")
        packed = any([each.packed for each in call.vals])
        if packed and not (val.packed and shape[:1] == (ROWS,) and self.keeps(call)):
            raise call.refuse("it mixes the rows of a sample")
        if prod(val.shape[packed:]) != prod(shape[packed:]):
            raise call.refuse(f"{val.shape} to {shape} changes the number of elements")
        if val.shared:
            return call.lying([call.writer.emit("shape", [val], shape)], None, shape)
        return [val._replace(shape=shape)]


class Keep(Row):
    """The same elements, copied or cast, in any layout. forget: arguments that say how a result is to lie."""

    said = "the same elements, in any layout"

    def __init__(self, forget: Callable[[Application], dict[str, Any]] = lambda call: {}, **common: Any) -> None:
        super().__init__(**common)
        self.forget = forget

    def lift(self, call: Application) -> list[Values]:
        """Writes down the call."""
        (val,) = call.vals
        return call.lying(call.again([val], self.forget(call)), val.lead, val.rest)


class Permute(Row):
    """Axes in another order, which `order` gives from the call."""

    said = "dimensions in another order, on rows or on stacked samples"

    def __init__(self, order: Callable[[Application, int], Sequence[int]], **common: Any) -> None:
        super().__init__(**common)
        self.order = order

    def lift(self, call: Application) -> list[Values]:
        """Writes down the call; nothing runs where only axes of one entry move."""
        (val,) = call.vals
        order = [axis % val.rank for axis in self.order(call, val.rank)] if val.rank else []
        moved = [axis for axis in order if val.shape[axis] != 1]
        if moved == sorted(moved) and not (val.packed and order[:1] != [0]):
            return [val._replace(shape=call.shape)]
        return super().lift(call)

    def labels(self, call: Application) -> Labels:
        """Axes by their place in the operand."""
        rank = call.vals[0].rank
        order = [axis % rank for axis in self.order(call, rank)]
        return Labels([list(range(rank))], [order], set(range(rank)))

    def run(self, call: Application, vals: list[Values], labels: Labels, shift: int) -> Sequence[int]:
        """Adds the permutation."""
        axes = (0, *[axis + shift for axis in labels.outs[0][1 - shift :]])
        return [call.writer.emit("permute", vals, axes)]


class Expand(Row):
    """Axes of one entry, or new ones, become longer. keeps: as of `Reshape`."""

    said = "dimensions of one entry become longer, on rows or on stacked samples"

    def __init__(self, keeps: Callable[[Application], bool], **common: Any) -> None:
        super().__init__(**common)
        self.keeps = keeps

    def lift(self, call: Application) -> list[Values]:
        """Writes down the call; nothing runs where none does."""
        val, more = call.vals[0], len(call.shape) - call.vals[0].rank
        if any([each.packed for each in call.vals]) and (more or not self.keeps(call)):
            raise call.refuse("it mixes the rows of a sample")  # a shape that was asked for may hold their number
        if val.shape == call.shape:
            return [val]
        call.vals = [call.writer.spread(val)._replace(shape=(*(1,) * more, *val.shape))]
        return super().lift(call)

    def labels(self, call: Application) -> Labels:
        """Axes by their place in the result, those that stay as they are alike."""
        axes = list(range(len(call.shape)))
        kept = [axis if call.vals[0].shape[axis] == call.shape[axis] else None for axis in axes]
        return Labels([kept], [axes], set(axes))

    def run(self, call: Application, vals: list[Values], labels: Labels, shift: int) -> Sequence[int]:
        """Adds the expansion."""
        return [call.writer.emit("widen", vals, call.shape[1 - shift :])]


class Join(Row):
    """Values one after the other along an axis that the argument `key` names; new: along one that they do not have."""

    said = "one after the other along a dimension, on rows or on stacked samples"

    def __init__(self, key: str = "dim", default: int = 0, new: bool = False, **common: Any) -> None:
        super().__init__(**common)
        self.key, self.default, self.new = key, default, new

    def lift(self, call: Application) -> list[Values]:
        """Writes down the call, without operands that have no elements and no axes to speak of."""
        vals = [val for val in call.vals if val.shape != (0,)] if not self.new else call.vals
        if not vals:
            raise call.refuse("its operands are empty")
        if len({val.dtype for val in call.vals}) > 1:
            raise call.refuse("operands of different dtypes")
        attrs = {key: operands(len(vals)) if isinstance(value, tuple) else value for key, value in call.attrs.items()}
        return super().lift(call.on(call.name, attrs, [call.writer.spread(val) for val in vals], call.outs))

    def axis(self, call: Application) -> int:
        """The axis of the result."""
        return int(call.get(self.key, self.default)) % len(call.shape)

    def labels(self, call: Application) -> Labels:
        """Axes by their place in the result."""
        axis, rank = self.axis(call), len(call.shape)
        out = list(range(rank))
        each = [label for label in out if label != axis] if self.new else out
        return Labels([each] * len(call.vals), [out], set(out) - {axis})

    def run(self, call: Application, vals: list[Values], labels: Labels, shift: int) -> Sequence[int]:
        """Adds the operator along that axis, where it is now."""
        return call.again(vals, {self.key: self.axis(call) + shift})
