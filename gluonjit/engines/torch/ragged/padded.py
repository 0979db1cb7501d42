"""A trace in which every node has the sizes of the longest one: the rest of its values is padding.

All entries of padding are finite, and so are derivatives there, so that gradients of zero stay zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, isfinite
from typing import Any

import torch

from gluonjit.engines.torch.ragged.form import Form
from gluonjit.engines.torch.ragged.windows import MEANS
from gluonjit.graph import intern_spec
from gluonjit.program.axes.values import Shape, Shaped
from gluonjit.program.trace import Attrs, NotBatchable, Operand, TraceBuilder, TraceOp

HOLE, BAR, COUNT, NUMBER = "hole", "bar", "count", "number"
"""What a padded program is given of a length: where padding is, -inf there and 0 elsewhere, and how many are not. And
the number that each node has in place of an operator's own."""
_COUNTED = ("mean.dim", "mean.default", *MEANS)
"""Operators that divide by a number of entries."""


Need = tuple[str, int, str]
"""What is needed, the number of the length or the place of the operator, and the dtype."""


class PaddedTrace:
    """A trace of operators of a form, at given sizes.

    sources: positions in the form's trace of what nodes have for themselves; needed: the operands that follow them, by
    default all that may be; known: positions in this trace, by those in the form's; held: the axes of values whose
    padding is zeros; wild: values that may be infinite where padding is; taken: of what is needed, what is used.
    """

    def __init__(
        self,
        form: Form,
        places: Sequence[int],
        sources: Sequence[int],
        sizes: Sequence[int],
        needed: Sequence[Need] | None = None,
    ) -> None:
        self.form = form
        self.sizes = sizes
        self.known: dict[Any, int] = {}
        self.held: dict[int, frozenset[int]] = {}  # axes whose padding is zeros, by positions in the trace
        self.wild: set[int] = set()  # what may be infinite where padding is
        self.taken: dict[Need, None] = {}
        device = form.trace.device
        operands = [(self.shape(position), form.trace.shapes[position][1]) for position in sources]
        needed = self._needs(places) if needed is None else needed
        operands += [(() if what in (COUNT, NUMBER) else (sizes[length],), dtype) for what, length, dtype in needed]
        self.trace = TraceBuilder([intern_spec(shape, dtype, device, "stack") for shape, dtype in operands], device)
        for place, position in enumerate(sources):
            self.known[position] = place
            self.held[place] = frozenset(range(len(operands[place][0])))
        for place, need in enumerate(needed, len(sources)):
            self.known[need] = place
        self._place_constants(places)

    def need(self, what: str, length: int, dtype: str) -> int:
        """The operand with what is needed of a length."""
        self.taken[what, length, dtype] = None
        return self.known[what, length, dtype]

    def shape(self, position: int) -> Shape:
        """The shape of a value of the form, at these sizes; an axis that is a product has two."""
        sizes, found = self.form.sizes, []
        for axis, size in enumerate(self.form.trace.shapes[position][0]):
            length = sizes.get((position, axis))
            if length is None:
                found.append(size)
            else:
                found += [self.sizes[each] for each in self.form.products.get(length, (length,))]
        return tuple(found)

    def folded(self, position: int) -> bool:
        """Tells whether a value has an axis that is a product of lengths."""
        sizes, products = self.form.sizes, self.form.products
        return any(sizes[position, axis] in products for axis in self.form.axes(position))

    def _needs(self, places: Sequence[int]) -> list[Need]:
        """All that may be needed."""
        form = self.form
        found: dict[Need, None] = {}
        for place in places:
            op = form.ops[place]
            if place in form.numbered and takes_number(op):
                found[NUMBER, place, form.trace.shapes[op.inputs[0]][1]] = None
            for position in (*op.inputs, *op.outputs):
                for length in self.ragged(position).values():
                    found[HOLE, length, "bool"] = None
                    dtype = form.trace.shapes[position][1]
                    if op.name in _COUNTED or "loss" in op.name or "cross_entropy" in op.name:
                        found[COUNT, length, dtype] = None
                    elif "attention" in op.name:
                        found[BAR, length, dtype] = None
        return list(found)

    def _place_constants(self, places: Sequence[int]) -> None:
        used = {position for place in places for position in self.form.trace.ops[place].inputs}
        for position, tensor in self.form.trace.constants():
            if position in used and position not in self.known:
                place = self.known[position] = self.trace.constant(tensor, self.form.trace.shapes[position])
                if tensor.is_floating_point() and not tensor.requires_grad and not bool(torch.isfinite(tensor).all()):
                    self.wild.add(place)

    def emit(self, name: str, inputs: Sequence[int], attrs: Attrs, outputs: Sequence[Shaped]) -> tuple[int, ...]:
        return self.trace.op(name, attrs, inputs, outputs)

    def view(self, place: int, shape: Shape) -> int:
        before, dtype = self.trace.shapes[place]
        if before == shape:
            return place
        return self.emit("view.default", [place], (("self", Operand(0)), ("size", shape)), [(shape, dtype)])[0]

    def ragged(self, position: int) -> dict[int, int]:
        """The lengths of a value of the form, by axis. Raises NotBatchable for a product beside others."""
        found = {axis: self.form.sizes[position, axis] for axis in self.form.axes(position)}
        if not self.folded(position):
            return found
        if set(found) != {0}:
            raise NotBatchable("a product of lengths along another axis than the first, or beside another length")
        return dict(enumerate(self.form.products[found[0]]))

    def _hole(self, axes: Mapping[int, int], rank: int) -> int:
        """Tells for each entry of a value whether padding is there, along some axes: it broadcasts to the value."""
        key = (HOLE, tuple(axes.items()), rank)
        found = self.known.get(key)
        if found is None:
            parts = []
            for axis, length in axes.items():
                shape = tuple([self.sizes[length] if place == axis else 1 for place in range(rank)])
                parts.append(self.view(self.need(HOLE, length, "bool"), shape))
            found = parts[0]
            for part in parts[1:]:
                shape = tuple(map(max, self.trace.shapes[found][0], self.trace.shapes[part][0]))
                attrs = (("self", Operand(0)), ("other", Operand(1)))
                (found,) = self.emit("logical_or.default", [found, part], attrs, [(shape, "bool")])
            self.known[key] = found
        return found

    def filled(self, place: int, axes: Mapping[int, int], value: Any) -> int:
        """A value with this entry wherever padding is along these axes."""
        if not axes or (value == 0 and self.held.get(place, frozenset()) >= set(axes)):
            return place
        shape, dtype = self.trace.shapes[place]
        if not isfinite(value) and not dtype.startswith(("float", "bfloat")):
            value = _limit(dtype, value != -inf)
        hole = self._hole(axes, len(shape))
        attrs = (("self", Operand(0)), ("mask", Operand(1)), ("value", value))
        (found,) = self.emit("masked_fill.Scalar", [place, hole], attrs, [(shape, dtype)])
        if value == 0:
            self.held[found] = self.held.get(place, frozenset()) | set(axes)
        return found

    def outputs(self, op: TraceOp) -> list[Shaped]:
        """The results of an operator of the form, at these sizes."""
        return [(self.shape(position), self.form.trace.shapes[position][1]) for position in op.outputs]

    def again(self, op: TraceOp, given: Sequence[int], **changed: Any) -> tuple[int, ...]:
        """Writes an operator of the form, with some arguments changed."""
        attrs = tuple([(name, changed.get(name, value)) for name, value in op.attrs])
        return self.emit(op.name, given, attrs, self.outputs(op))


def _limit(dtype: str, largest: bool) -> Any:
    """The largest or the smallest number of a dtype that has no infinity. Raises NotBatchable."""
    if dtype == "bool":
        return largest
    if dtype.startswith("complex"):
        raise NotBatchable(f"numbers of {dtype} have no order")
    limits = torch.iinfo(getattr(torch, dtype))
    return limits.max if largest else limits.min


def takes_number(op: TraceOp) -> bool:
    """Tells whether an operator is one of arithmetic with a number."""
    args = dict(op.attrs)
    number = args.get("other")
    base = op.name.split(".")[0]
    return (
        base in ("add", "sub", "mul", "div")
        and len(args) == 2
        and isinstance(number, (int, float))
        and not isinstance(number, Operand)
    )
