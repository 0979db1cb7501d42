"""The form that traces of PyTorch's operators have in common which differ in sizes alone."""

from __future__ import annotations

from typing import Any

import torch

from gluonjit.program.sizes import NamedSizes, OtherForm
from gluonjit.program.trace import Operand, Trace, TraceOp


class Form(NamedSizes):
    """Such a form; `ops` are the operators as they are to be written for any length."""

    def __init__(self, trace: Trace, other: Trace) -> None:
        """Compares two traces. Raises OtherForm."""
        super().__init__(trace, other, _equal)
        self.ops = [self._expanding(op) for op in trace.ops]
        for op in trace.ops:
            self._note_product(op)

    def differing(self, op: TraceOp) -> set[str]:
        """The names of the arguments of an operator that differ."""
        return {name for position, name, *_ in self.numbers if position == op.outputs[0]}

    def _expanding(self, op: TraceOp) -> TraceOp:
        """An operator that repeats axes of one entry as an expansion."""
        if op.name != "repeat.default":
            return op
        (given,), (made,) = op.inputs, op.outputs
        before, after = self.trace.shapes[given][0], self.trace.shapes[made][0]
        more = len(after) - len(before)
        for axis, size in enumerate(before):
            alike = size == after[axis + more] and self.sizes.get((given, axis)) == self.sizes.get((made, axis + more))
            if size != 1 and not alike:
                return op
        return op._replace(name="expand.default", attrs=(("self", Operand(0)), ("size", after)))

    def _note_product(self, op: TraceOp) -> None:
        if op.name.split(".")[0] not in ("view", "_unsafe_view", "reshape"):
            return
        for two, one in ((op.inputs[0], op.outputs[0]), (op.outputs[0], op.inputs[0])):
            shapes = self.trace.shapes[two][0], self.trace.shapes[one][0]
            if self.axes(two) == [0, 1] and self.axes(one) == [0] and shapes[0][2:] == shapes[1][1:]:
                self.products[self.sizes[one, 0]] = self.sizes[two, 0], self.sizes[two, 1]


def _equal(one: Any, other: Any) -> bool:
    if one.requires_grad or other.requires_grad:
        raise OtherForm("they have other weights")
    return bool(one.shape == other.shape and torch.equal(one, other))
