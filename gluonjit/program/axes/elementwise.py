"""Operators on the elements of all nodes at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from gluonjit.program.axes.row import Application, Row, RowPooling, rows_before
from gluonjit.program.axes.values import Labels, Number, Operand, Shape, Vals, Values, is_sized


class Map(Row):
    """Elementwise, with broadcasting.

    casts: operands of several dtypes become of the result's, as a number of one node has no say in it, but an array
    of such numbers would have; None: it takes several dtypes as they are; wide: the operator that broadcasts where this
    one does not; equal: operands are all of one shape; smooth: at any number it is finite, and its derivatives are.
    """

    kind, said = "elementwise", "elementwise, so in any layout"

    casts: bool | None = False
    wide: str = ""
    equal: bool = False
    smooth: bool = False

    def labels(self, call: Application) -> Labels:
        """Axes by their place in the result, counted from the end."""
        shape = max([shape for shape, _ in call.outs], key=len)
        ins = [_aligned(val.shape, shape) for val in call.vals]
        return Labels(ins, [_aligned(out, out) for out, _ in call.outs], set(range(-len(shape), 0)))

    def lift(self, call: Application) -> Vals:
        """Writes down the call: in the layout of its operands if they have one, whatever it is."""
        if any(out != call.shape for out, _ in call.outs):
            raise call.refuse("results of different shapes")
        if call.writer.sized:
            for val in call.vals:
                if any(size not in (1, wanted) for size, wanted in zip(val.shape[::-1], call.shape[::-1])):
                    raise call.refuse("an axis is broadcast for some lengths alone")
            call = self.with_numbers(call)
        call.vals = self.of_one_dtype(call)
        mine = call.mine
        if call.writer.sized and any(val.packed for val in mine):
            return self.on_rows(call)
        if call.writer.padded and not self.smooth:
            call.vals = [val if val.fill is None else self.harmless(call, val) for val in call.vals]
            mine = call.mine
        if self.equal:
            call.vals = [call.writer.spread(val) for val in call.vals]
        elif self.wide and len(mine) < len(call.vals):
            if any(val.packed for val in mine):
                raise call.refuse("an operand of a fixed number of rows, where others vary")
            call = call.on(self.wide, {}, call.vals, call.outs)
        form = _common(mine, call.vals, call.shape)
        if form is None:
            return super().lift(call)
        lead, rest = form
        slots = call.again([val if val.shared else call.writer.form(val, lead, rest) for val in call.vals])
        return call.lying(slots, lead, rest)

    def harmless(self, call: Application, val: Values) -> Values:
        """A value with a number as padding at which functions and their derivatives are finite."""
        held = [axis for k, axis in enumerate(val.sized_axes) if val.fill is not None and k in val.fill[1]]
        return call.writer.filled(val, held, 0.5 if "float" in val.dtype else 1)

    def on_rows(self, call: Application) -> Vals:
        """Writes down the call on the rows of all nodes."""
        if self.wide and len({val.shape for val in call.vals}) > 1:
            call = call.on(self.wide, {}, call.vals, call.outs)
        vals = [call.writer.spread(val) if self.equal else val for val in call.vals]
        axes = rows_before(call.shape)
        slots = call.again([call.beside(val) for val in vals])
        return call.lying(slots, prod(call.shape[:axes]), call.shape[axes:])

    def with_numbers(self, call: Application) -> Application:
        """The call with operands in the place of numbers that differ by node. Raises NotBatchable."""
        dtype, attrs, vals, name = call.outs[0][1], dict(call.attrs), list(call.vals), call.name
        for key, value in call.attrs.items():
            if is_sized(value):
                name = call.writer.of_arrays(name, key)
                if value.__class__ is tuple or not dtype.startswith(("float", "bfloat")):
                    raise call.refuse("of numbers that differ")
                attrs[key] = Operand(len(vals))
                what = "number" if value.__class__ is Number else "counts"
                vals.append(call.writer.need(what, value, dtype)._replace(dtype=dtype, lead=1))
        return call.on(name, attrs, vals, call.outs)

    def of_one_dtype(self, call: Application) -> Vals:
        """The operands, cast where they have several dtypes. Raises NotBatchable."""
        dtypes = {val.dtype for val in call.vals if val.dtype != "bool"}
        if len(dtypes) < 2 or self.casts is None:
            return call.vals
        if not self.casts:
            raise call.refuse(f"operands of different dtypes, {', '.join(sorted(dtypes))}")
        wanted = call.outs[0][1]
        return [val if val.dtype == "bool" else call.writer.cast(val, wanted) for val in call.vals]

    def run(self, call: Application, vals: Vals, labels: Labels, shift: int) -> Sequence[int]:
        """Adds the operator, on operands of as many axes as its result."""
        if shift == 1:
            vals = [call.writer.aligned(val, len(call.shape)) for val in vals]
        return call.again(vals)


def _aligned(shape: Shape, result: Shape) -> list[Any]:
    """Labels of axes counted from the end, None for one that is broadcast."""
    pairs = zip(range(-len(shape), 0), shape, result[len(result) - len(shape) :])
    return [None if size == 1 != wanted else label for label, size, wanted in pairs]


def _common(mine: Sequence[Values], vals: Sequence[Values], shape: Shape) -> tuple[Any, Shape] | None:
    """The form in which most operands lie; None if some have another shape, or those that are shared do not fit."""
    forms = [(val.lead, val.rest) for val in mine]
    if any(val.shape != shape for val in mine) or len({val.packed for val in mine}) > 1:
        return None
    lead, rest = max(forms, key=forms.count)
    fits = all(_fits(val.shape, rest, shape) for val in vals if val.shared)
    return (lead, rest) if fits else None


def _fits(other: Shape, rest: Shape, shape: Shape) -> bool:
    """True if a shape broadcasts against rows as it does against the whole value."""
    axes = len(other)
    return not axes or (len(rest) >= axes and rest[len(rest) - axes :] == shape[len(shape) - axes :])


class Loss(Map):
    """Elementwise, then summed or averaged over all axes of a node, as `key` says.

    totals: by what it says the row, the operator and its arguments that do so; none: where it says that nothing does;
    default: what it says if it is not given.
    """

    kind, said = "loss", "elementwise, then summed or averaged for each sample"

    totals: Mapping[Any, tuple[Any, str, Mapping[str, Any]]]
    none: Any
    default: Any
    key: str = "reduction"

    def pooling(self, call: Application) -> RowPooling | None:
        """The loss of each row, summed or averaged."""
        how = call.get(self.key, self.default)
        alike = all(val.packed for val in call.vals) and len({val.rank for val in call.vals}) == 1
        return RowPooling(call.outs, [self.totals[how][0].how]) if alike and how != self.none else None

    def lift(self, call: Application) -> Vals:
        """Writes down the call: the operator without its sum, then one sum a node."""
        how = call.get(self.key, self.default)
        shape = broadcast([val.shape for val in call.vals])
        vals = call.vals
        if not any(val.packed for val in vals):  # these operators do not broadcast, or warn that they do
            vals = [call.writer.spread(val) if val.shape == shape else val for val in vals]
        outs = [(shape, call.outs[0][1])]
        (each,) = super().lift(call.on(call.name, {**call.attrs, self.key: self.none}, vals, outs))
        if how == self.none:
            return [each]
        row, name, attrs = self.totals[how]
        return row.lift(call.on(name, attrs, [each], call.outs))  # type: ignore[no-any-return]


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """The shape that these broadcast to."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(next((size for size in sizes if size != 1), 1) for sizes in zip(*padded))


class Make(Row):
    """New numbers in the shape and layout of an operand."""

    kind, said = "made", "made like another tensor"

    def lift(self, call: Application) -> Vals:
        """Writes down the call."""
        (val,) = call.vals
        if val.shape != call.shape:
            raise call.refuse("another shape")
        return call.lying(call.again([val]), val.lead, val.rest)


class Filled(Row):
    """New numbers of any shape, with the dtype and device of an operand; the same for all nodes."""

    kind, said = "made", "made like another tensor"

    def lift(self, call: Application) -> Vals:
        """Writes down the call."""
        if len(call.vals) > 1:
            raise call.refuse("with several tensors")
        if is_sized(call.shape):
            return call.lying([call.writer.longest(call.name, call.attrs, call.vals)], None, call.shape)
        return call.lying(call.again(call.vals), None, call.shape)
