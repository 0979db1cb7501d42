"""Operators along axes that an argument names: reductions, softmax, sorting, and parts of an axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from gluonjit.program.axes.row import SUM, Application, Row, RowPooling
from gluonjit.program.axes.values import COUNT, PREFIX, Labels, Operand, Shape, Size, Vals, Values, is_sized


class Along(Row):
    """The axes that the argument `key` names are mixed and stay; all others are free.

    default: what `key` is where it is not given, None for all axes; many: whether it takes several; whole: the operator
    that takes such an argument where this one is over all axes and has none; params: from which operand on they are
    parameters, the same for all nodes.
    """

    kind, said = "reduction", "along dimensions, on rows or on stacked samples"
    stays = True

    key: str = "dim"
    default: Any = None
    many: bool = False
    whole: str = ""
    keep: str = "keepdim"
    params: int = 99

    def axes(self, call: Application) -> tuple[int, ...] | None:
        """The axes, counted from the front; None for all of them."""
        given = call.attrs.get(self.key, self.default)
        if given is None or given == ():
            return None
        rank = max(call.vals[0].rank, 1)
        return tuple(axis % rank for axis in (given if isinstance(given, tuple) else (given,)))

    def labels(self, call: Application) -> Labels:
        """Axes by their place in the first operand."""
        rank = call.vals[0].rank
        gone = self.axes(call) or ()
        left = [axis for axis in range(rank) if axis not in gone]
        whole = [axis if self.stays or axis in left else None for axis in range(rank)]
        ins = [_among(val.shape, rank, list(range(rank)), left) for val in call.vals]
        outs = [_among(shape, rank, whole, left) for shape, _ in call.outs]
        ins[self.params :] = [[None] * val.rank for val in call.vals[self.params :]]
        return Labels(ins, outs, set(left))

    def lift(self, call: Application) -> Vals:
        """Writes down the call; over all axes of a value as over the one axis of its elements."""
        if any(not val.shared for val in call.vals[self.params :]):
            raise call.refuse("parameters that differ by sample")
        axes, rank = self.axes(call), call.vals[0].rank
        if axes is None or not rank:
            if self.stays and rank and call.attrs.get(self.key, self.default) is not None:
                raise call.refuse("along no dimension")
            return self.over_all(call)
        found = super().lift(call)
        if self.stays or len(axes) < rank or call.get(self.keep):
            return found
        return [val._replace(rest=()) for val in found]  # whatever the framework says the shape of a number is

    def run(self, call: Application, vals: Vals, labels: Labels, shift: int) -> Sequence[int]:
        """Adds the operator along the axes where they are now."""
        vals = [call.writer.spread(val) if shift == 1 and k < self.params else val for k, val in enumerate(vals)]
        moved = tuple(axis + shift for axis in self.axes(call) or ())
        listed = self.many or isinstance(call.attrs.get(self.key, self.default), tuple)
        return call.again(vals, {self.key: moved if listed else moved[0]})

    def over_all(self, call: Application) -> Vals:
        """Writes down the call over all axes."""
        if len(call.vals) > 1:
            raise call.refuse("on scalars")
        (val,) = call.vals
        if is_sized(val.shape):
            return self.over_all_sized(call, val)
        flat = call.writer.form(val, 1, (prod(val.shape),))
        attrs = {**self._kept(call), self.key: (1,) if self.many else 1}
        found = call.made(call.writer.call(self.whole or call.name, attrs, [flat], len(call.outs)))
        return [val._replace(rest=(prod(val.shape),) if self.stays else ()) for val in found]

    def over_all_sized(self, call: Application, val: Values) -> Vals:
        """The same where there is padding; not what tells places, or stays, unless the first axis alone has it."""
        places, fill = val.sized_axes, self.neutral(call)
        if val.packed or fill is None or fill is PREFIX or self.stays or (call.outs[0][1] == "int64" and places != [0]):
            raise call.mixed_rows
        whole = call.writer.filled(val, places, fill)
        attrs = self._kept(call)
        if self.many:
            attrs[self.key] = tuple(range(1, val.rank + 1))
        else:
            whole, attrs[self.key] = call.writer.put("shape", whole, (COUNT, -1)), 1
        found = call.made(call.writer.call(self.whole or call.name, attrs, [whole], len(call.outs)))
        return [val._replace(rest=()) for val in found]

    def _kept(self, call: Application) -> dict[str, Any]:
        """The arguments that the operator over one axis takes, too."""
        kept = {"dtype"} if self.whole else call.attrs.keys() - {self.keep}
        return {key: value for key, value in call.attrs.items() if value.__class__ is Operand or key in kept}


def _among(shape: Shape, rank: int, whole: list[Any], left: list[Any]) -> list[Any]:
    """The labels of a value with all axes, or without those that have gone."""
    return whole if len(shape) == rank else left if len(shape) == len(left) else [None] * len(shape)


class Reduce(Along):
    """The axes go, or stay as 1.

    idle: of one entry the operator gives that entry, so that nothing has to run; mean: it is this sum, divided by the
    number of entries; made: as `RowPooling.hows`, if `code` does not say it.
    """

    stays = False

    idle: bool = False
    mean: str = ""
    made: str = ""

    @property
    def how(self) -> str:
        """The name of what it makes of entries and of what it has made of parts of them, if that is the same."""
        return self.made or {"SUM": SUM, "MEAN": "mean"}.get(self.code, "")

    @property
    def ordered(self) -> bool:  # type: ignore[override]
        """True if it gives a single entry as it is."""
        return bool(self.how)

    def pooling(self, call: Application) -> RowPooling | None:
        """The same for each row, and then for what that gives."""
        axes = self.axes(call)
        return RowPooling(call.outs, [self.how]) if self.how and (axes is None or 0 in axes) else None

    def lift(self, call: Application) -> Vals:
        """Writes down the call, along axes of several entries alone if those of one are idle."""
        val = call.vals[0]
        if self.mean and val.rank and is_sized(tuple(val.shape[axis] for axis in self.axes(call) or range(val.rank))):
            return [self.divided(call, val)]
        axes = self.axes(call) or tuple(range(val.rank))
        short = [axis for axis in axes if self.idle and val.shape[axis] == 1]
        if not short or call.outs[0][1] != val.dtype:
            return super().lift(call)
        left = [axis for axis in range(val.rank) if axis not in short]
        val = val._replace(shape=tuple(val.shape[axis] for axis in left))
        if len(short) < len(axes):
            changes = {self.key: tuple(left.index(axis) for axis in axes if axis in left), self.keep: False}
            outs = [(tuple(val.shape[k] for k, axis in enumerate(left) if axis not in axes), val.dtype)]
            (val,) = super().lift(call.on(call.name, {**call.attrs, **changes}, [val], outs))
        return [val._replace(shape=call.shape)]

    def divided(self, call: Application, val: Values) -> Values:
        """A mean along axes of any length: a sum, divided by the number of entries of each node."""
        if call.outs[0][1] != val.dtype:
            raise call.refuse("into another dtype")
        kept = (self.key, self.keep)
        attrs = {key: value for key, value in call.attrs.items() if value.__class__ is Operand or key in kept}
        total = Reduce(self.key, self.default, self.many, "" if self.axes(call) else self.mean, self.keep, fill=0.0)
        count = prod([val.shape[axis] for axis in self.axes(call) or range(val.rank)])
        (found,) = total.lift(call.on(self.mean, attrs, [val], call.outs))
        counts = call.writer.need("counts", count, val.dtype)._replace(lead=1)
        if found.shape:
            found = call.writer.stack(found)
        by = call.writer.put("reshape", counts, (1,) * len(found.rest))
        return found._replace(slot=call.writer.emit("divide", [found, by]))


class PerAxis(Along):
    """Arguments that list something for each axis, as `rest` has it for those that stay as they are."""

    rest: Mapping[str, Any]

    def axes(self, call: Application) -> tuple[int, ...]:
        """The axes that do not stay as they are."""
        lists = [call.attrs[key] for key in self.rest]
        rests = list(self.rest.values())
        return tuple(axis for axis, each in enumerate(zip(*lists)) if list(each) != rests)

    def lift(self, call: Application) -> Vals:
        """Writes down the call; nothing runs where all axes stay."""
        return super().lift(call) if self.axes(call) else [call.vals[0]]

    def run(self, call: Application, vals: Vals, labels: Labels, shift: int) -> Sequence[int]:
        """Adds the operator with what it lists for the axes of a tensor."""
        return call.again(vals, {key: (rest, *call.attrs[key][1 - shift :]) for key, rest in self.rest.items()})


Begins = Callable[[Application], tuple[Any, int]]
"""Where a part begins, None if it is the end, and one in how many entries it takes."""


class Section(Along):
    """Parts of an axis, one or several."""

    kind, said = "shape", "parts of a dimension, on rows or on stacked samples"
    ordered = True
    begins: Begins | None = None

    def first(self, call: Application) -> Any:
        """The place at which the first part begins, None for that of the axis."""
        return next((call.attrs[key] for key in ("start", "begin", "index") if key in call.attrs), None)

    def lift(self, call: Application) -> Vals:
        """Writes down the call; the only part, if it is all, is the operand."""
        val = call.vals[0]
        if call.writer.sized:
            axes = self.axes(call) or ()
            kept = len(call.shape) == val.rank
            first = self.first(call)
            cut = [a for a in axes if is_sized((val.shape[a], *(call.shape[a : a + 1] if kept else ()), first))]
            if cut and len(axes) > 1:
                raise call.mixed_rows
            if cut:
                return [self.chosen(call, val, cut[0])]
        if len(call.outs) == 1 and call.shape == val.shape and not val.packed:
            return [val]
        return super().lift(call)

    def chosen(self, call: Application, val: Values, axis: int) -> Values:
        """A part of an axis that is not equally long in all nodes, or becomes so. Raises NotBatchable."""
        if self.begins is None or len(call.outs) > 1:
            raise call.mixed_rows
        writer, (shape, dtype), (begin, step) = call.writer, call.outs[0], self.begins(call)
        front, back = val.shape[: axis + 1], val.shape[axis + 1 :]
        count = 1 if len(shape) < val.rank else shape[axis]
        together = val.shared or (writer.padded and not val.packed)
        if begin == 0 and step == 1 and together and not is_sized(front[axis]):
            whole = val if val.shared else writer.stack(val)
            slot = writer.emit("begin", [whole], axis + (not val.shared), count)
            return Values(slot, shape, dtype, whole.lead, shape)
        if val.shared or is_sized(front[:-1]):
            raise call.mixed_rows
        lead = prod(front[:-1]) * count
        if val.packed or not writer.padded:
            rows = writer.form(val, prod(front), back)
            slot = writer.emit("take", [rows, writer.need("chosen", front, begin, step, count, False)])
            return Values(slot, shape, dtype, lead, back)
        rows = writer.put("reshape", writer.stack(val), back)
        slot = writer.emit("pick", [rows, writer.need("chosen", front, begin, step, count, True)])
        if count.__class__ is not Size:
            return Values(slot, shape, dtype, lead, back)
        return Values(writer.emit("reshape", [rows._replace(slot=slot)], shape), shape, dtype, 1, shape)


_REVERSED = Section(begins=lambda call: (-1, -1))


class Turned(Along):
    """Entries in reverse along axes."""

    kind = "shape"

    def lift(self, call: Application) -> Vals:
        """Writes down the call; along one axis of any size as a part of it that begins at its end."""
        val, axes = call.vals[0], self.axes(call) or ()
        sized = [axis for axis in axes if val.rank and is_sized(val.shape[axis])]
        if not sized:
            return super().lift(call)
        if len(axes) > 1:
            raise call.mixed_rows
        return [_REVERSED.chosen(call, val, sized[0])]


class Indexed(Along):
    """Integers along an axis of their own operand; free in all other axes in which all operands are alike."""

    kind, said = "picking", "by integers, for each sample among its own elements"

    def labels(self, call: Application) -> Labels:
        """Axes by their place in the operands, which all have as many."""
        rank = call.vals[0].rank
        if not rank or any(val.rank != rank for val in call.vals):
            raise call.refuse("on scalars")
        (axis,) = self.axes(call) or ()
        shapes = [*[val.shape for val in call.vals], *[shape for shape, _ in call.outs]]
        alike = {k for k in range(rank) if k != axis and len({shape[k] for shape in shapes}) == 1}
        each = [k if k in alike else None for k in range(rank)]
        return Labels([each] * len(call.vals), [each] * len(call.outs), alike)
