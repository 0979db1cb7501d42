"""Operators on the rows of all nodes, whatever the length of each.

A value with one size that differs is packed: that axis comes first, and the nodes lie one after the other in it. Its
`Val` has the shape with that axis in front, and any number of rows a node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

from gluonjit.engines.torch.ragged import choosing
from gluonjit.engines.torch.ragged.convolving import convolved, windows_of
from gluonjit.engines.torch.ragged.form import Form
from gluonjit.engines.torch.ragged.moments import OF_CHANNELS, of_channels
from gluonjit.engines.torch.ragged.recurring import recurred
from gluonjit.engines.torch.ragged.stages import Packed
from gluonjit.engines.torch.rules import layers, picking, pointwise, reductions, shapes
from gluonjit.engines.torch.rules.recurrent import layer_of, recurrent
from gluonjit.engines.torch.rules.shapes import axis as counted
from gluonjit.engines.torch.rules.table import RULES, batch_op, operator_named, rule_of
from gluonjit.engines.torch.rules.values import ANY, NotBatchable, OperatorCall, Shape, Shaped, Val, Writer
from gluonjit.engines.torch.trace import TraceOp, placed

_VIEWS = (shapes.viewed, shapes.expanded)
_ALIKE = (
    *(pointwise.pointwise, pointwise.masked, pointwise.filled),
    *(shapes.moved, layers.layer_norm, picking.embedded, picking.classified),
)
"""Rules of what is the same along any axis but the last ones."""
_BY_INDICES = (picking.picked, picking.indexed, picking.added)
_CHOOSING = (shapes.cut, shapes.flipped, shapes.concatenated, *_BY_INDICES)
"""Rules of what chooses rows, where it works along the packed axis."""
_ALONG = (shapes.cut, shapes.cut_list, shapes.concatenated, reductions.reduced, reductions.kept)
"""Rules of what works along dimensions that it is given."""
_FIRST = {name: 0 for name, rule in RULES.items() if rule in (shapes.cut, shapes.cut_list, shapes.concatenated)}
"""The dimension along which an operator works if none is given; all others work along the last one."""
Slots = Callable[[Any], int]


def in_front(shape: Shape, axis: int) -> Shape:
    """The shape with an axis moved to the front."""
    return (shape[axis], *shape[:axis], *shape[axis + 1 :])


class Packer:
    """Writes operators down for packed values.

    owners, sizes: functions from a length to the slot of the node of each of its rows, and of the rows of each node.
    """

    def __init__(self, form: Form, writer: Writer, owners: Slots, sizes: Slots) -> None:
        self.form = form
        self.writer = writer
        self._owners = owners
        self._sizes = sizes

    def write(self, number: int, op: TraceOp, values: Mapping[int, Packed]) -> list[Packed]:
        """Writes an operator down; `number` is its place in the trace. Raises NotBatchable if it mixes rows."""
        given = [values[position] for position in op.inputs]
        outputs = [self._output(position) for position in op.outputs]
        lengths = {value.length for value in given if value.axis is not None}
        if op.name == "convolution.default" and len(lengths) == 1:
            return [self._convolved(op, given, outputs[0])]
        chosen = self._chosen(number, op, given, outputs[0])
        if chosen is not None:
            return [chosen]
        if rule_of(op.name) is recurrent and len(lengths) == 1:
            return self._recurrent(op, given, outputs)
        if len(lengths) > 1 or not {length for _, _, length in outputs} <= {*lengths, None}:
            if rule_of(op.name) is shapes.expanded and len(lengths) == 0:
                return [self._repeated(op, given[0], outputs[0])]
            raise NotBatchable(f"{op.name}: of several lengths")
        if op.name in OF_CHANNELS and len(lengths) == 1 and given[0].axis is not None:
            return self._of_channels(op, given, outputs)
        if number in self.form.numbered and rule_of(op.name) not in _VIEWS:
            raise NotBatchable(f"{op.name}: of numbers that differ")
        if not lengths:
            if any(axis is not None for _, axis, _ in outputs):
                raise NotBatchable(f"{op.name}: it makes rows")
            args = {name: placed(value, [each.val for each in given]) for name, value in op.attrs}
            made = batch_op(op.name, args, [shaped for shaped, _, _ in outputs], self.writer)
            return [Packed(val) for val in made]
        if any(axis is None for _, axis, _ in outputs):
            raise NotBatchable(f"{op.name}: it mixes the rows of a sample")
        return self._on_rows(op, given, outputs)

    def _output(self, position: int) -> tuple[Shaped, int | None, int | None]:
        """The shape of a result, with its packed axis in front, and the axis and its length. Raises NotBatchable."""
        shaped, axes = self.form.trace.shapes[position], self.form.axes(position)
        if len(axes) > 1:
            raise NotBatchable("a result has several sizes that differ")
        if not axes:
            return shaped, None, None
        return (in_front(shaped[0], axes[0]), shaped[1]), axes[0], self.form.sizes[position, axes[0]]

    def _on_rows(self, op: TraceOp, given: list[Packed], outputs: list[Any]) -> list[Packed]:
        rule = rule_of(op.name)
        if rule in (shapes.viewed, shapes.expanded, shapes.permuted):
            (value,) = given
            (shaped, axis, length) = outputs[0]
            assert value.axis is not None
            change = {shapes.viewed: _viewed, shapes.expanded: self._expanded, shapes.permuted: self._permuted}[rule]
            return [Packed(change(op, value, shaped, axis), axis, length)]
        if rule is pointwise.pointwise or rule is pointwise.masked:
            given = [self._beside(value, given, len(self.form.trace.shapes[op.outputs[0]][0])) for value in given]
        elif any(value.axis is None and not value.val.shared for value in given):
            raise NotBatchable(f"{op.name}: it mixes rows with what each sample has once")
        args = {name: placed(value, [each.val for each in given]) for name, value in op.attrs}
        if any(value.axis for value in given):
            args = self._moved(op, args, given)
        made = batch_op(op.name, args, [shaped for shaped, _, _ in outputs], self.writer)
        if any(val.lead != ANY for val in made):
            raise NotBatchable(f"{op.name}: it mixes the rows of a sample")
        return [Packed(val, axis, length) for val, (_, axis, length) in zip(made, outputs)]

    def _moved(self, op: TraceOp, args: dict[str, Any], given: Sequence[Packed]) -> dict[str, Any]:
        """The arguments of an operator whose packed axis is not the first: dimensions are counted anew."""
        axis, rank = next((value.axis, len(value.val.shape)) for value in given if value.axis is not None)
        if any(value.axis not in (axis, None) for value in given):
            raise NotBatchable(f"{op.name}: lengths at other axes")
        rule = rule_of(op.name)
        if rule in _ALIKE:
            if "normalized_shape" in args and axis >= rank - len(args["normalized_shape"]):
                raise NotBatchable(f"{op.name}: over the rows of a sample")
            return args
        if rule not in _ALONG:
            raise NotBatchable(f"{op.name}: its length is not that of the first axis")
        given_dims = args.get("dim", _FIRST.get(op.name, -1))
        dims = given_dims if isinstance(given_dims, tuple) else (given_dims,)
        places = [counted(rank, dim) for dim in dims]
        if axis in places:
            raise NotBatchable(f"{op.name}: it mixes the rows of a sample")
        moved = tuple([place + 1 if place < axis else place for place in places])
        return {**args, "dim": moved if isinstance(given_dims, tuple) else moved[0]}

    def _chosen(self, number: int, op: TraceOp, given: list[Packed], output: Any) -> Packed | None:
        """Rows chosen from those of each node, if the operator does that along the packed axis; else None."""
        rule = rule_of(op.name)
        if rule not in _CHOOSING or number in self.form.numbered or not given or given[0].axis is None:
            return None
        (shape, dtype), axis, length = output
        found = _how_chosen(op, rule, given, len(given[0].val.shape))
        if found is None or (axis is None and given[0].axis and op.name != "select.int"):
            return None
        function, text = found
        values = [each for each in given if each.axis is not None]
        slots = [self._call(op).form(each.val, ANY, each.val.shape[1:]).slot for each in values]
        if rule in _BY_INDICES:
            slots += [self._owners(given[1].length), self._sizes(given[0].length)]
        else:
            slots += [self._sizes(each.length) for each in values]
        (slot,) = self.writer.emit(function, slots, text)
        if op.name == "select.int":
            return Packed(Val(slot, shape, dtype, 1, shape))
        return Packed(Val(slot, shape, dtype, shape[0] if axis is None else ANY, shape[1:]), axis, length)

    def _convolved(self, op: TraceOp, given: list[Packed], output: tuple[Shaped, int | None, int | None]) -> Packed:
        value, *weights = given
        (shape, dtype), axis, length = output
        if value.axis is None or axis != value.axis or any(not each.val.shared for each in weights):
            raise NotBatchable(f"{op.name}: not along the rows of each sample")
        before, weight = self.form.trace.shapes[op.inputs[0]][0], weights[0].val.shape
        windows = windows_of(dict(op.attrs), axis, before, self.form.trace.shapes[op.outputs[0]][0], weight)
        slots = [each.val.slot for each in given] + [self._sizes(value.length), self._sizes(length)]
        (slot,) = self.writer.emit(partial(convolved, axis=axis, windows=windows), slots, f"convolved {axis} {windows}")
        return Packed(Val(slot, shape, dtype, ANY, (weight[0],)), axis, length)

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
        call = self._call(op)
        whole = call.form(value.val, ANY, value.val.shape[1:])
        vals = [whole, *[call.spread(each.val) for each in states], *[each.val for each in weights]]
        slots = [*[val.slot for val in vals], self._sizes(value.length)]
        made = self.writer.emit(partial(recurred, layer=layer), slots, f"recurred {layer}", len(outputs))
        found = [Packed(Val(made[0], shaped[0], shaped[1], ANY, shaped[0][1:]), axis, length)]
        return found + _of_each(made[1:], outputs[1:])

    def _of_channels(self, op: TraceOp, given: list[Packed], outputs: list[Any]) -> list[Packed]:
        """Batch norm in training, or the variances and means of channels."""
        value, *own = given
        if value.axis is None or any(not each.val.shared for each in own):
            raise NotBatchable(f"{op.name}: weights differ by sample")
        run, text = of_channels(op.name, {name: placed(item, given) for name, item in op.attrs}, value)
        whole = self._call(op).form(value.val, ANY, value.val.shape[1:])
        slots = [whole.slot, *[each.val.slot for each in own], self._owners(value.length), self._sizes(value.length)]
        made = self.writer.emit(run, slots, text, len(outputs))
        (shape, dtype), axis, length = outputs[0]
        if axis is None:
            return _of_each(made, outputs)
        return [Packed(Val(made[0], shape, dtype, ANY, shape[1:]), axis, length), *_of_each(made[1:], outputs[1:])]

    def _call(self, op: TraceOp) -> OperatorCall:
        return OperatorCall(op.name, operator_named(op.name), {}, [], self.writer)

    def _expanded(self, op: TraceOp, value: Packed, shaped: Shaped, axis: int) -> Val:
        before, after = value.val.shape[1:], shaped[0][1:]
        if len(before) + 1 - value.axis != len(after) + 1 - axis:  # type: ignore[operator]
            raise NotBatchable(f"{op.name}: it mixes the rows of a sample")
        aligned = (*(1,) * (len(after) - len(before)), *before)
        if aligned == after:
            return value.val._replace(shape=shaped[0])
        call = self._call(op)
        slot = call.emit(shapes.expand, [call.form(value.val, ANY, aligned)], after)
        return Val(slot, shaped[0], shaped[1], ANY, after)

    def _permuted(self, op: TraceOp, value: Packed, shaped: Shaped, axis: int) -> Val:
        order = shapes.order_of(op.name, dict(op.attrs), len(value.val.shape))
        others = [dim for dim in sorted(order) if dim != value.axis]
        moved = [others.index(dim) for dim in order if dim != value.axis]
        if moved == sorted(moved):
            return value.val._replace(shape=shaped[0])
        call = self._call(op)
        whole = call.form(value.val, ANY, value.val.shape[1:])
        slot = call.emit(shapes.permute, [whole], (0, *[place + 1 for place in moved]))
        return Val(slot, shaped[0], shaped[1], ANY, shaped[0][1:])

    def _beside(self, value: Packed, given: Sequence[Packed], rank: int) -> Packed:
        """An operand of an elementwise operator with as many axes as its result, the packed one in front.

        An operand that each sample has once is repeated for each of its rows.
        """
        packed = next(each for each in given if each.axis is not None)
        from_end = len(packed.val.shape) - packed.axis  # type: ignore[operator]
        call = OperatorCall("elementwise", None, {}, [], self.writer)
        val, shape = value.val, value.val.shape
        if value.axis is not None:
            if len(shape) - value.axis != from_end:
                raise NotBatchable("lengths at other axes")
            wanted = (shape[0], *(1,) * (rank - len(shape)), *shape[1:])
            return value._replace(val=call.form(val, ANY, wanted[1:])._replace(shape=wanted), axis=rank - from_end)
        if len(shape) >= from_end and shape[len(shape) - from_end] != 1:
            raise NotBatchable("an operand has an entry for each row of one length")
        kept = _without(shape, from_end)
        if val.shared:
            if kept == shape:
                return value
            text = f"without_axis{kept}"
            (slot,) = self.writer.emit(_reshaped(kept), [val.slot], text)
            return Packed(val._replace(slot=slot, shape=kept, rest=kept))
        rows = self._each(val, packed.length)
        wanted = (*(1,) * (rank - 1 - len(kept)), *kept)
        whole = call.form(rows, ANY, wanted)._replace(shape=(packed.val.shape[0], *wanted))
        return Packed(whole, rank - from_end, packed.length)

    def _each(self, val: Val, length: int | None) -> Val:
        """Repeats a value that each sample has once for each of its rows."""
        one = OperatorCall("repeat", None, {}, [], self.writer).stack(val)
        (slot,) = self.writer.emit(_rows_of, [one.slot, self._owners(length)], "rows_of")
        return one._replace(slot=slot, lead=ANY)

    def _repeated(self, op: TraceOp, value: Packed, output: tuple[Shaped, int | None, int | None]) -> Packed:
        """Expands a value that each sample has once along an axis whose size differs."""
        shaped, axis, length = output
        if axis is None or value.val.shared:
            raise NotBatchable(f"{op.name}: it makes rows of what is the same for all samples")
        from_end = len(shaped[0]) - axis
        kept = _without(value.val.shape, from_end)
        after = shaped[0][1:]
        rows = OperatorCall("repeat", None, {}, [], self.writer).form(
            self._each(value.val, length), ANY, (*(1,) * (len(after) - len(kept)), *kept)
        )
        slot = self._call(op).emit(shapes.expand, [rows], after)
        return Packed(Val(slot, shaped[0], shaped[1], ANY, after), axis, length)


def _of_each(slots: Sequence[int], outputs: Sequence[Any]) -> list[Packed]:
    """Results that each sample has once."""
    return [Packed(Val(slot, shape, dtype, 1, shape)) for slot, ((shape, dtype), _, _) in zip(slots, outputs)]


def _how_chosen(op: TraceOp, rule: Any, given: Sequence[Packed], rank: int) -> tuple[Callable[..., Any], str] | None:
    """A function of rows and their numbers for an operator along the packed axis, and its text; None for others."""
    args, axes = dict(op.attrs), [each.axis for each in given]
    dim = counted(rank, args["dims"][0] if rule is shapes.flipped and args["dims"] else args.get("dim", 0))
    if set(axes) != {dim} or (rule is shapes.flipped and len(args["dims"]) != 1):
        return None
    if rule is shapes.concatenated:
        return partial(choosing.joined, count=len(given)), f"joined {len(given)}"
    if rule in _BY_INDICES:
        index, listed = given[1].val, args.get("indices", (0,))
        if dim or len(index.shape) != 1 or "int" not in index.dtype or len(listed) != 1 or listed[0] is None:
            return None  # by several indices these are entries, not rows
        if rule is not picking.added:
            signed = rule is picking.indexed
            return partial(choosing.picked, signed=signed), f"picked {signed}"
        alpha = args.get("alpha", 1)
        alike = op.name == "index_add.default" and given[2].length == given[1].length
        return (partial(choosing.added, alpha=alpha), f"added {alpha}") if alike else None
    if op.name == "select.int":
        return partial(choosing.row_of_each, index=args["index"]), f"row {args['index']}"
    if op.name == "slice.Tensor":
        key = slice(args.get("start"), args.get("end"), args.get("step"))
        return partial(choosing.sliced, key=key), f"{key}"
    return (choosing.reversed_rows, "reversed rows") if rule is shapes.flipped else None


def _without(shape: Shape, from_end: int) -> Shape:
    """The shape without an axis, counted from its end; a shorter one as it is."""
    place = len(shape) - from_end
    return shape if place < 0 else (*shape[:place], *shape[place + 1 :])


def _viewed(op: TraceOp, value: Packed, shaped: Shaped, axis: int) -> Val:
    """The same elements in the same order, for each row."""
    assert value.axis is not None
    if prod(value.val.shape[1 : value.axis + 1]) != prod(shaped[0][1 : axis + 1]) or shaped[1] != value.val.dtype:
        raise NotBatchable(f"{op.name}: it mixes the rows of a sample")
    return value.val._replace(shape=shaped[0])


def _reshaped(shape: Shape) -> Any:
    return lambda tensor: tensor.reshape(shape)


def _rows_of(tensor: Any, owners: Any) -> Any:
    return tensor.index_select(0, owners)
