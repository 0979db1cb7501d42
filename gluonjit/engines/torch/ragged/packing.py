"""Operators on the rows of all nodes, whatever the length of each.

A value with one size that differs is packed: that axis comes first, and the nodes lie one after the other in it. Its
`Values` has the shape with that axis in front, and any number of rows a node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

from gluonjit.engines.torch.operators.recurrent import layer_of
from gluonjit.engines.torch.operators.table import batch_op
from gluonjit.engines.torch.ragged.classes import FIRST, class_of, order_of
from gluonjit.engines.torch.ragged.moments import OF_CHANNELS, of_channels
from gluonjit.engines.torch.ragged.recurring import recurred
from gluonjit.engines.torch.ragged.selecting import Output, Selector, reshaped
from gluonjit.engines.torch.ragged.stages import Packed
from gluonjit.engines.torch.ragged.windows import WINDOWED, margins_of, windowed
from gluonjit.program.arguments import counted
from gluonjit.program.axes.values import ROWS, Shape, Shaped, Values
from gluonjit.program.trace import NotBatchable, TraceOp, placed

_VIEWS = ("view", "expand")
_ALIKE = ("map", "masked", "make", "keep", "layer_norm", "embedding", "one_hot")
"""Classes of what is the same along any axis but the last ones."""
_ALONG = ("cut", "cut list", "join", "reduce", "along")
"""Classes of what works along dimensions that it is given."""


def in_front(shape: Shape, axis: int) -> Shape:
    """The shape with an axis moved to the front."""
    return (shape[axis], *shape[:axis], *shape[axis + 1 :])


class Packer(Selector):
    """Writes operators down for packed values."""

    def write(self, number: int, op: TraceOp, values: Mapping[int, Packed]) -> list[Packed]:
        """Writes an operator down; `number` is its place in the trace. Raises NotBatchable if it mixes rows."""
        if number in self.form.numbered and class_of(op.name) not in (*_VIEWS, "cut"):
            raise NotBatchable(f"{op.name}: of numbers that differ")
        given = [values[position] for position in op.inputs]
        outputs = [self._output(position) for position in op.outputs]
        lengths = {value.length for value in given if value.axis is not None}
        if op.name in WINDOWED and len(lengths) == 1 and _along_windows(op, given[0]):
            return self._windowed(op, given, outputs)
        chosen = self.select(number, op, given, outputs[0])
        if chosen is not None:
            return [chosen]
        if class_of(op.name) == "recurrent" and len(lengths) == 1:
            return self._recurrent(op, given, outputs)
        if class_of(op.name) == "view" and _is_regrouped(given[0], outputs[0], lengths):
            return [self._regrouped(op, given[0], outputs[0])]
        if len(lengths) > 1 or not {length for _, _, length in outputs} <= {*lengths, None}:
            if class_of(op.name) == "expand" and len(lengths) == 0:
                return [self._repeated(op, given[0], outputs[0])]
            raise NotBatchable(f"{op.name}: of several lengths")
        if op.name in OF_CHANNELS and len(lengths) == 1 and given[0].axis is not None:
            return self._of_channels(op, given, outputs)
        if not lengths:
            if any(axis is not None for _, axis, _ in outputs):
                raise NotBatchable(f"{op.name}: it makes rows")
            args = {name: placed(value, [each.val for each in given]) for name, value in op.attrs}
            made = batch_op(op.name, args, [shaped for shaped, _, _ in outputs], self.writer)
            return [Packed(val) for val in made]
        if any(axis is None for _, axis, _ in outputs):
            raise NotBatchable(f"{op.name}: it mixes the rows of a sample")
        return self._on_rows(op, given, outputs)

    def _output(self, position: int) -> Output:
        """The shape of a result, with its packed axis in front, and the axis and its length. Raises NotBatchable."""
        shaped, axes = self.form.trace.shapes[position], self.form.axes(position)
        if len(axes) > 1:
            raise NotBatchable("a result has several sizes that differ")
        if not axes:
            return shaped, None, None
        return (in_front(shaped[0], axes[0]), shaped[1]), axes[0], self.form.sizes[position, axes[0]]

    def _on_rows(self, op: TraceOp, given: list[Packed], outputs: list[Any]) -> list[Packed]:
        rule = class_of(op.name)
        if rule in ("view", "expand", "permute"):
            (value,) = given
            (shaped, axis, length) = outputs[0]
            assert value.axis is not None
            change = {"view": _viewed, "expand": self._expanded, "permute": self._permuted}[rule]
            return [Packed(change(op, value, shaped, axis), axis, length)]
        if rule == "map" or rule == "masked":
            given = [self._beside(value, given, len(self.form.trace.shapes[op.outputs[0]][0])) for value in given]
        elif any(value.axis is None and not value.val.shared for value in given):
            raise NotBatchable(f"{op.name}: it mixes rows with what each sample has once")
        args = {name: placed(value, [each.val for each in given]) for name, value in op.attrs}
        if any(value.axis for value in given):
            args = self._moved(op, args, given)
        made = batch_op(op.name, args, [shaped for shaped, _, _ in outputs], self.writer)
        if any(val.lead != ROWS for val in made):
            raise NotBatchable(f"{op.name}: it mixes the rows of a sample")
        return [Packed(val, axis, length) for val, (_, axis, length) in zip(made, outputs)]

    def _moved(self, op: TraceOp, args: dict[str, Any], given: Sequence[Packed]) -> dict[str, Any]:
        """The arguments of an operator whose packed axis is not the first: dimensions are counted anew."""
        axis, rank = next((value.axis, len(value.val.shape)) for value in given if value.axis is not None)
        if any(value.axis not in (axis, None) for value in given):
            raise NotBatchable(f"{op.name}: lengths at other axes")
        rule = class_of(op.name)
        if rule in _ALIKE:
            if "normalized_shape" in args and axis >= rank - len(args["normalized_shape"]):
                raise NotBatchable(f"{op.name}: over the rows of a sample")
            return args
        if rule not in _ALONG:
            raise NotBatchable(f"{op.name}: its length is not that of the first axis")
        given_dims = args.get("dim", FIRST.get(op.name, -1))
        dims = given_dims if isinstance(given_dims, tuple) else (given_dims,)
        places = [counted(rank, dim) for dim in dims]
        if axis in places:
            raise NotBatchable(f"{op.name}: it mixes the rows of a sample")
        moved = tuple([place + 1 if place < axis else place for place in places])
        return {**args, "dim": moved if isinstance(given_dims, tuple) else moved[0]}

    def _windowed(self, op: TraceOp, given: list[Packed], outputs: list[Any]) -> list[Packed]:
        value, *weights = given
        (shape, dtype), axis, length = outputs[0]
        if value.axis is None or axis != value.axis or any(not each.val.shared for each in weights):
            raise NotBatchable(f"{op.name}: not along the rows of each sample")
        if any(map(self.form.is_used, op.outputs[1:])):
            raise NotBatchable(f"{op.name}: its places are used")
        before, after = (self.form.trace.shapes[position][0] for position in (op.inputs[0], op.outputs[0]))
        weight = weights[0].val.shape if weights else ()
        run, text = windowed(op.name, dict(op.attrs), axis, before, after, weight)
        whole = self.rows(op, value)
        slots = [whole.slot, *[each.val.slot for each in weights], self._sizes(value.length), self._sizes(length)]
        (slot,) = self.writer.add(run, slots, text)
        rest = (weight[0],) if weight else shape[1:]
        found = Packed(Values(slot, shape, dtype, ROWS, rest), axis, length)
        return [found] * len(outputs)  # places are not used

    def _recurrent(self, op: TraceOp, given: list[Packed], outputs: list[Any]) -> list[Packed]:
        args = {name: placed(value, given) for name, value in op.attrs}
        layer = layer_of(op.name, args)
        value, states, weights = args["input"], args["hx"], args["params"]
        states = states if layer.states > 1 else (states,)
        shaped, axis, length = outputs[0]
        if value.axis != int(layer.batch_first) or axis != value.axis or length != value.length:
            raise NotBatchable(f"{op.name}: not along the rows of each sample")
        if any(each.axis is not None for each in states) or any(not each.val.shared for each in weights):
            raise NotBatchable(f"{op.name}: states or weights differ in size")
        vals = [self.rows(op, value), *[self.writer.each(each.val) for each in states], *[each.val for each in weights]]
        slots = [*[val.slot for val in vals], self._sizes(value.length)]
        made = self.writer.add(partial(recurred, layer=layer), slots, f"recurred {layer}", len(outputs))
        found = [Packed(Values(made[0], shaped[0], shaped[1], ROWS, shaped[0][1:]), axis, length)]
        return found + _of_each(made[1:], outputs[1:])

    def _of_channels(self, op: TraceOp, given: list[Packed], outputs: list[Any]) -> list[Packed]:
        """Batch norm in training, or the variances and means of channels."""
        value, *own = given
        if value.axis is None or any(not each.val.shared for each in own):
            raise NotBatchable(f"{op.name}: weights differ by sample")
        args = {name: placed(item, given) for name, item in op.attrs}
        run, text = of_channels(op.name, args, value, outputs[-1][0][0])
        whole = self.rows(op, value)
        slots = [whole.slot, *[each.val.slot for each in own], self._owners(value.length), self._sizes(value.length)]
        made = self.writer.add(run, slots, text, len(outputs))
        (shape, dtype), axis, length = outputs[0]
        if axis is None:
            return _of_each(made, outputs)
        return [Packed(Values(made[0], shape, dtype, ROWS, shape[1:]), axis, length), *_of_each(made[1:], outputs[1:])]

    def _expanded(self, op: TraceOp, value: Packed, shaped: Shaped, axis: int) -> Values:
        before, after = value.val.shape[1:], shaped[0][1:]
        if len(before) + 1 - value.axis != len(after) + 1 - axis:  # type: ignore[operator]
            raise NotBatchable(f"{op.name}: it mixes the rows of a sample")
        aligned = (*(1,) * (len(after) - len(before)), *before)
        if aligned == after:
            return value.val._replace(shape=shaped[0])
        slot = self.writer.emit("widen", [self.writer.form(value.val, ROWS, aligned)], after)
        return Values(slot, shaped[0], shaped[1], ROWS, after)

    def _regrouped(self, op: TraceOp, value: Packed, output: Any) -> Packed:
        """Rows of each node as fewer that are longer, or as more."""
        (shape, _), axis, length = output
        return Packed(self.writer.form(value.val, ROWS, shape[1:])._replace(shape=shape), axis, length)

    def _permuted(self, op: TraceOp, value: Packed, shaped: Shaped, axis: int) -> Values:
        order = order_of(op.name, dict(op.attrs), len(value.val.shape))
        others = [dim for dim in sorted(order) if dim != value.axis]
        moved = [others.index(dim) for dim in order if dim != value.axis]
        if moved == sorted(moved):
            return value.val._replace(shape=shaped[0])
        slot = self.writer.emit("permute", [self.rows(op, value)], (0, *[place + 1 for place in moved]))
        return Values(slot, shaped[0], shaped[1], ROWS, shaped[0][1:])

    def _beside(self, value: Packed, given: Sequence[Packed], rank: int) -> Packed:
        """An operand of an elementwise operator with as many axes as its result, the packed one in front.

        An operand that each sample has once is repeated for each of its rows.
        """
        packed = next(each for each in given if each.axis is not None)
        from_end = len(packed.val.shape) - packed.axis  # type: ignore[operator]
        call = self.writer
        val, shape = value.val, value.val.shape
        if value.axis is not None:
            if len(shape) - value.axis != from_end:
                raise NotBatchable("lengths at other axes")
            wanted = (shape[0], *(1,) * (rank - len(shape)), *shape[1:])
            return value._replace(val=call.form(val, ROWS, wanted[1:])._replace(shape=wanted), axis=rank - from_end)
        if len(shape) >= from_end and shape[len(shape) - from_end] != 1:
            raise NotBatchable("an operand has an entry for each row of one length")
        kept = _without(shape, from_end)
        if val.shared:
            if kept == shape:
                return value
            text = f"without_axis{kept}"
            (slot,) = self.writer.add(reshaped(kept), [val.slot], text)
            return Packed(val._replace(slot=slot, shape=kept, rest=kept))
        rows = self._each(val, packed.length)
        wanted = (*(1,) * (rank - 1 - len(kept)), *kept)
        whole = call.form(rows, ROWS, wanted)._replace(shape=(packed.val.shape[0], *wanted))
        return Packed(whole, rank - from_end, packed.length)

    def _each(self, val: Values, length: int | None) -> Values:
        """Repeats a value that each sample has once for each of its rows."""
        one = self.writer.stack(val)
        (slot,) = self.writer.add(_rows_of, [one.slot, self._owners(length)], "rows_of")
        return one._replace(slot=slot, lead=ROWS)

    def _repeated(self, op: TraceOp, value: Packed, output: Output) -> Packed:
        """Expands a value that each sample has once along an axis whose size differs."""
        shaped, axis, length = output
        if axis is None or value.val.shared:
            raise NotBatchable(f"{op.name}: it makes rows of what is the same for all samples")
        from_end = len(shaped[0]) - axis
        kept = _without(value.val.shape, from_end)
        after = shaped[0][1:]
        rows = self.writer.form(self._each(value.val, length), ROWS, (*(1,) * (len(after) - len(kept)), *kept))
        slot = self.writer.emit("widen", [rows], after)
        return Packed(Values(slot, shaped[0], shaped[1], ROWS, after), axis, length)


def _is_regrouped(value: Packed, output: Output, lengths: set[int | None]) -> bool:
    """Tells whether a view has other rows than its base, which lie in the same order."""
    (shape, dtype), axis, length = output
    if value.axis is None or axis is None or length in lengths or dtype != value.val.dtype:
        return False
    return prod(value.val.shape[1 : value.axis + 1]) == 1 == prod(shape[1 : axis + 1])


def _along_windows(op: TraceOp, value: Packed) -> bool:
    """Tells whether the packed axis of a value is one of windows."""
    if value.axis is None or op.name != "constant_pad_nd.default":
        return bool(value.axis)
    return any(margins_of(dict(op.attrs)["pad"], len(value.val.shape))[value.axis])


def _of_each(slots: Sequence[int], outputs: Sequence[Any]) -> list[Packed]:
    """Results that each sample has once."""
    return [Packed(Values(slot, shape, dtype, 1, shape)) for slot, ((shape, dtype), _, _) in zip(slots, outputs)]


def _without(shape: Shape, from_end: int) -> Shape:
    """The shape without an axis, counted from its end; a shorter one as it is."""
    place = len(shape) - from_end
    return shape if place < 0 else (*shape[:place], *shape[place + 1 :])


def _viewed(op: TraceOp, value: Packed, shaped: Shaped, axis: int) -> Values:
    """The same elements in the same order, for each row."""
    assert value.axis is not None
    if prod(value.val.shape[1 : value.axis + 1]) != prod(shaped[0][1 : axis + 1]) or shaped[1] != value.val.dtype:
        raise NotBatchable(f"{op.name}: it mixes the rows of a sample")
    return value.val._replace(shape=shaped[0])


def _rows_of(tensor: Any, owners: Any) -> Any:
    return tensor.index_select(0, owners)
