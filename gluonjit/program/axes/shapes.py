"""Changes of shape: views, other orders of axes, repeated axes, joins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from gluonjit.program.axes.row import Application, Row, operands, rows_before
from gluonjit.program.axes.values import ROWS, Labels, Size, Vals, Values, is_sized
from gluonjit.program.axes.writer import blocks


class Reshape(Row):
    """The elements of the first operand in the same order, in another shape: nothing has to run.

    keeps: says of a call on any number of rows that it leaves these as they are.
    """

    said = "the same elements in the same order: nothing has to run"
    ordered = True

    keeps: Callable[[Application], bool] = staticmethod(lambda call: True)

    def lift(self, call: Application) -> Vals:
        """Returns the operand with the result's shape."""
        val, (shape, dtype) = call.vals[0], call.outs[0]
        if dtype != val.dtype:
            raise call.refuse("a view with another dtype")
        if call.writer.sized:
            return [self.sized(call, val)]
        packed = any(each.packed for each in call.vals)
        if packed and not (val.packed and shape[:1] == (ROWS,) and self.keeps(call)):
            raise call.mixed_rows
        if prod(val.shape[packed:]) != prod(shape[packed:]):
            raise call.refuse(f"{val.shape} to {shape} changes the number of elements")
        if val.shared:
            return call.lying([call.writer.emit("shape", [val], shape)], None, shape)
        return [val._replace(shape=shape)]

    def sized(self, call: Application, val: Values) -> Values:
        """The operand with the result's shape, where there are sizes that differ. Raises NotBatchable."""
        shape = call.shape
        fits = prod(val.shape) == prod(shape) if val.packed else blocks(val.shape) == blocks(shape)
        if not fits and (is_sized(shape) or is_sized(val.shape) or prod(val.shape) != prod(shape)):
            raise call.mixed_rows
        if val.shared:
            return val._replace(slot=call.writer.emit("shape", [val], shape), shape=shape, rest=shape)
        return val._replace(shape=shape)


class Keep(Row):
    """The same elements, copied or cast, in any layout. forget: arguments that say how a result is to lie."""

    said = "the same elements, in any layout"

    forget: Callable[[Application], dict[str, Any]] = staticmethod(lambda call: {})

    def adds(self, call: Application) -> bool:
        """True if gradients come through it."""
        return self.code is None

    def lift(self, call: Application) -> Vals:
        """Writes down the call."""
        (val,) = call.vals
        (found,) = call.lying(call.again([val], self.forget(call)), val.lead, val.rest)
        return [found._replace(fill=val.fill)]


class Permute(Row):
    """Axes in another order, which `order` gives from the call."""

    said = "dimensions in another order, on rows or on stacked samples"

    order: Callable[[Application, int], Sequence[int]]

    def lift(self, call: Application) -> Vals:
        """Writes down the call; nothing runs where only axes of one entry move."""
        (val,) = call.vals
        order = [axis % val.rank for axis in self.order(call, val.rank)] if val.rank else []
        moved = [axis for axis in order if val.shape[axis] != 1]
        if moved == sorted(moved) and not (val.packed and order[:1] != [0] and not call.writer.sized):
            return [val._replace(shape=call.shape)]
        (found,) = super().lift(call)
        return [found._replace(fill=_moved(val, order)) if val.fill is not None else found]

    def labels(self, call: Application) -> Labels:
        """Axes by their place in the operand."""
        rank = call.vals[0].rank
        order = [axis % rank for axis in self.order(call, rank)]
        return Labels([list(range(rank))], [order], set(range(rank)))

    def run(self, call: Application, vals: Vals, labels: Labels, shift: int) -> Sequence[int]:
        """Adds the permutation."""
        axes = (0, *[axis + shift for axis in labels.outs[0][1 - shift :]])
        return [call.writer.emit("permute", vals, axes)]


def _moved(val: Values, order: Sequence[int]) -> Any:
    """The fill of a value whose axes are in another order."""
    assert val.fill is not None
    places = val.sized_axes
    order = [axis for axis in order if axis in places]
    return val.fill[0], frozenset(k for k, axis in enumerate(order) if places.index(axis) in val.fill[1])


class Expand(Row):
    """Axes of one entry, or new ones, become longer. keeps: as of `Reshape`."""

    said = "dimensions of one entry become longer, on rows or on stacked samples"
    copies = ordered = True

    keeps: Callable[[Application], bool]

    def lift(self, call: Application) -> Vals:
        """Writes down the call; nothing runs where none does."""
        val, more = call.vals[0], len(call.shape) - call.vals[0].rank
        if call.writer.sized and is_sized(call.shape) and not call.writer.padded:
            return [self.on_rows(call, val)]
        if any(each.packed for each in call.vals) and (more or not self.keeps(call)):
            raise call.mixed_rows  # a shape that was asked for may hold their number
        if val.shape == call.shape:
            return [val]
        call.vals = [call.writer.spread(val)._replace(shape=(*(1,) * more, *val.shape))]
        (found,) = super().lift(call)
        return [found._replace(fill=val.fill) if found.sized() == val.sized() else found]

    def on_rows(self, call: Application, val: Values) -> Values:
        """The result, row by row, of which nodes have any number."""
        axes = rows_before(call.shape)
        found, rest = call.beside(call.writer.spread(val)), call.shape[axes:]
        if found.rest != rest:
            found = call.writer.put("widen", found, rest)
        return found._replace(shape=call.shape, rest=rest)

    def labels(self, call: Application) -> Labels:
        """Axes by their place in the result, those that stay as they are alike."""
        axes = list(range(len(call.shape)))
        kept = [axis if call.vals[0].shape[axis] == call.shape[axis] else None for axis in axes]
        return Labels([kept], [axes], set(axes))

    def run(self, call: Application, vals: Vals, labels: Labels, shift: int) -> Sequence[int]:
        """Adds the expansion."""
        return [call.writer.emit("widen", vals, call.shape[1 - shift :])]


class Join(Row):
    """Values one after the other along an axis that the argument `key` names; new: along one that they do not have."""

    said = "one after the other along a dimension, on rows or on stacked samples"
    ordered = True

    key: str = "dim"
    default: int = 0
    new: bool = False

    def lift(self, call: Application) -> Vals:
        """Writes down the call, without operands that have no elements and no axes to speak of."""
        vals = [val for val in call.vals if val.shape != (0,)] if not self.new else call.vals
        if not vals:
            raise call.refuse("its operands are empty")
        if len({val.dtype for val in call.vals}) > 1:
            raise call.refuse("operands of different dtypes")
        attrs = {key: operands(len(vals)) if isinstance(value, tuple) else value for key, value in call.attrs.items()}
        call = call.on(call.name, attrs, [call.writer.spread(val) for val in vals], call.outs)
        if call.writer.sized and call.shape[self.axis(call)].__class__ is Size and not self.new:
            return [self.merged(call, self.axis(call))]
        return super().lift(call)

    def merged(self, call: Application, axis: int) -> Values:
        """The rows of several values, of which nodes have any number, one after the other for each node."""
        writer, shape = call.writer, call.shape
        sizes = [val.shape[axis] for val in call.vals]
        if is_sized(shape[:axis]) or (not writer.padded and prod([*shape[:axis], 1]) != 1):
            raise call.mixed_rows
        if writer.padded:
            stacks = list(map(writer.stack, call.vals))
            (slot,) = call.again(stacks, {self.key: axis + 1})
            beside = writer.put("reshape", stacks[0]._replace(slot=slot), shape[axis + 1 :])
            places = writer.need("beside", prod([*shape[:axis], 1]), *sizes)
            whole = beside._replace(slot=writer.emit("pick", [beside, places]))
            return Values(writer.emit("reshape", [whole], shape), shape, call.outs[0][1], 1, shape)
        rows = [writer.form(val, size, shape[axis + 1 :]) for val, size in zip(call.vals, sizes)]
        joined = rows[0]._replace(slot=writer.emit("rows", rows))
        slot = writer.emit("take", [joined, writer.need("merged", *sizes)])
        return Values(slot, shape, call.outs[0][1], shape[axis], shape[axis + 1 :])

    def axis(self, call: Application) -> int:
        """The axis of the result."""
        return int(call.get(self.key, self.default)) % len(call.shape)

    def labels(self, call: Application) -> Labels:
        """Axes by their place in the result."""
        axis, rank = self.axis(call), len(call.shape)
        out = list(range(rank))
        each = [label for label in out if label != axis] if self.new else out
        return Labels([each] * len(call.vals), [out], set(out) - {axis})

    def run(self, call: Application, vals: Vals, labels: Labels, shift: int) -> Sequence[int]:
        """Adds the operator along that axis, where it is now."""
        return call.again(vals, {self.key: self.axis(call) + shift})
