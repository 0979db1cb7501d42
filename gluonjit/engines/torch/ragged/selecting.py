"""Writes operators down that choose or join rows of each node: `choosing` has the functions that run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

from gluonjit.engines.torch.operators.binding import Writer
from gluonjit.engines.torch.ragged import choosing
from gluonjit.engines.torch.ragged.classes import class_of
from gluonjit.engines.torch.ragged.form import Form
from gluonjit.engines.torch.ragged.stages import Packed
from gluonjit.program.arguments import counted
from gluonjit.program.axes.values import ROWS, Shape, Shaped, Values
from gluonjit.program.trace import NotBatchable, TraceOp

_BY_INDICES = ("pick", "index", "add")
_CHOOSING = ("cut", "flip", *_BY_INDICES)
"""Rules of what chooses rows, where it works along the packed axis."""
_END = 1 << 62  # what comes after it is no end of a slice
Output = tuple[Shaped, int | None, int | None]  # with the packed axis in front, that axis, and its length
Slots = Callable[[Any], int]


class Selector:
    """Writes operators down that work along the packed axis of values by choosing rows.

    owners, sizes: functions from a length to the slot of the node of each of its rows, and of the rows of each node.
    """

    def __init__(self, form: Form, writer: Writer, owners: Slots, sizes: Slots) -> None:
        self.form = form
        self.writer = writer
        self._owners = owners
        self._sizes = sizes

    def select(self, number: int, op: TraceOp, given: list[Packed], output: Output) -> Packed | None:
        """Writes an operator down if it chooses or joins rows of each node; else returns None. Raises NotBatchable."""
        rule = class_of(op.name)
        if rule == "join":
            return self._joined(op, given, output)
        if rule == "cut" and number in self.form.numbered:
            return self._cut(op, given[0], output, self.form.differing(op))
        if rule not in _CHOOSING or not given or given[0].axis is None:
            return None
        (shape, dtype), axis, _ = output
        found = _how_chosen(op, rule, given, len(given[0].val.shape))
        if found is None or (axis is None and op.name != "select.int" and prod(shape[: given[0].axis]) != 1):
            return None
        function, text = found
        values = [each for each in given if each.axis is not None]
        slots = [self.rows(op, each).slot for each in values]
        if rule in _BY_INDICES:
            slots += [self._owners(given[1].length), self._sizes(given[0].length)]
        else:
            slots += [self._sizes(each.length) for each in values]
        (slot,) = self.writer.add(function, slots, text)
        if op.name == "select.int":
            return Packed(Values(slot, shape, dtype, 1, shape))
        return self._rows_of_each(slot, output, given[0].axis)

    def rows(self, op: TraceOp, value: Packed) -> Values:
        """A packed value, row by row. Raises NotBatchable."""
        return self.writer.form(value.val, ROWS, value.val.shape[1:])

    def _rows_of_each(self, slot: int, output: Output, place: int) -> Packed:
        """Rows that were chosen along an axis: packed, or as many of each node."""
        (shape, dtype), axis, length = output
        if axis is not None:
            return Packed(Values(slot, shape, dtype, ROWS, shape[1:]), axis, length)
        if not place:
            return Packed(Values(slot, shape, dtype, shape[0], shape[1:]))
        (slot,) = self.writer.add(reshaped((-1, *shape)), [slot], f"as {shape}")
        return Packed(Values(slot, shape, dtype, 1, shape))

    def _joined(self, op: TraceOp, given: list[Packed], output: Output) -> Packed | None:
        """The rows of several values, one after the other for each node; some have as many in each."""
        (shape, dtype), axis, length = output
        dim = counted(len(shape), dict(op.attrs).get("dim", 0))
        if axis != dim or {each.axis for each in given} - {None} != {dim}:
            return None
        slots = [(self.writer.each(each.val) if each.axis is None else self.rows(op, each)).slot for each in given]
        fixed = tuple([each.val.shape[dim] if each.axis is None else 0 for each in given])
        slots += [self._sizes(each.length) for each in given if each.axis is not None]
        run = partial(choosing.joined, fixed=fixed, dim=dim)
        (slot,) = self.writer.add(run, slots, f"joined {fixed} {dim}")
        return Packed(Values(slot, shape, dtype, ROWS, shape[1:]), axis, length)

    def _cut(self, op: TraceOp, value: Packed, output: Output, differ: set[str]) -> Packed:
        """The rows that a slice keeps whose beginning or end differs, as many as its result has.

        Raises NotBatchable if that does not tell which.
        """
        args, ((shape, _), axis, length) = dict(op.attrs), output
        place, start, end, step = value.axis, args.get("start") or 0, args.get("end"), args.get("step", 1)
        along = op.name == "slice.Tensor" and place is not None and counted(len(shape), args.get("dim", 0)) == place
        last = differ == {"start"} and step == 1 and (end is None or end >= _END)
        kept = axis == place or (axis is None and prod(shape[:place]) == 1)
        if place is None or not (along and kept and (last or differ == {"end"})):
            raise NotBatchable(f"{op.name}: of numbers that differ")
        start = None if last else start
        slots = [self.rows(op, value).slot, self._sizes(value.length)]
        slots += [] if axis is None else [self._sizes(length)]
        most = shape[place] if axis is None else 0
        run = partial(choosing.counted, start=start, step=step, most=most)
        (slot,) = self.writer.add(run, slots, f"counted {start} {step} {most}")
        return self._rows_of_each(slot, output, place)


def _how_chosen(op: TraceOp, rule: Any, given: Sequence[Packed], rank: int) -> tuple[Callable[..., Any], str] | None:
    """A function of rows and their numbers for an operator along the packed axis, and its text; None for others."""
    args, axes = dict(op.attrs), [each.axis for each in given]
    dim = counted(rank, args["dims"][0] if rule == "flip" and args["dims"] else args.get("dim", 0))
    if set(axes) != {dim} or (rule == "flip" and len(args["dims"]) != 1):
        return None
    if rule in _BY_INDICES:
        index, listed = given[1].val, args.get("indices", (0,))
        if dim or len(index.shape) != 1 or "int" not in index.dtype or len(listed) != 1 or listed[0] is None:
            return None  # by several indices these are entries, not rows
        if rule != "add":
            signed = rule == "index"
            return partial(choosing.picked, signed=signed), f"picked {signed}"
        alpha = args.get("alpha", 1)
        alike = op.name == "index_add.default" and given[2].length == given[1].length
        return (partial(choosing.added, alpha=alpha), f"added {alpha}") if alike else None
    if op.name == "select.int":
        return partial(choosing.row_of_each, index=args["index"]), f"row {args['index']}"
    if op.name == "slice.Tensor":
        key = slice(args.get("start"), args.get("end"), args.get("step"))
        return partial(choosing.sliced, key=key), f"{key}"
    return (choosing.reversed_rows, "reversed rows") if rule == "flip" else None


def reshaped(shape: Shape) -> Any:
    """Returns a function that gives tensors a shape."""
    return lambda tensor: tensor.reshape(shape)
