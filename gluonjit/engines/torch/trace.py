"""A cell's program: the ATen operators that it calls, on placeholders of known shape."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple

import torch

from gluonjit.engines.torch.arrays import name_of_device
from gluonjit.graph.values import Spec

Attrs = tuple[tuple[str, Any], ...]
Shaped = tuple[tuple[int, ...], str]
RANDOM = torch.Tag.nondeterministic_seeded
DETACH = "detach.default"

FILLED = {name for kind in ("zeros", "ones", "full") for name in (f"{kind}_like.default", f"new_{kind}.default")}
"""Operators whose results have the same numbers, whatever they are given of its shape."""
WITHOUT_HISTORY = {
    DETACH,
    *[f"{name}_like.default" for name in ("empty", "rand", "randn")],
    "new_empty.default",
    *FILLED,
}
"""Operators whose results require no gradients, whatever they are given."""


RECURRENT = ("lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input")
"""Recurrent layers, each recorded as one operator."""
_PRODUCTS = {
    f"{name}.default"
    for name in ("mm", "addmm", "mv", "addmv", "bmm", "baddbmm", "addbmm", "convolution", "_trilinear")
}.union(RECURRENT)


class NeedsValue(Exception):
    """The traced function reads a tensor's numbers, writes to one from outside, or uses one that may differ."""


class Operand(int):
    """An argument in attributes that is the input of this number."""

    def __repr__(self) -> str:
        return f"input {int(self)}"


class TraceOp(NamedTuple):
    """One operator: `inputs` and `outputs` are positions in the trace's list of shapes.

    name: as ATen has it, with the overload: "add.Tensor"; attrs: its arguments by name, in which tensors are Operands.
    """

    name: str
    attrs: Attrs
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class Trace:
    """One program. Operands come first in `shapes`, then constants and results as they appear."""

    def __init__(self, operands: Sequence[Spec]) -> None:
        self.operands = tuple(operands)
        self.device = operands[0].device if operands else "cpu"
        self.shapes: list[Shaped] = [(spec.shape, spec.dtype) for spec in operands]
        self.consts: list[tuple[int, Any]] = []
        self.ops: list[TraceOp] = []
        self.built: dict[tuple[int, ...], Any] = {}  # by the results: what `program.build` has made, whatever weights

    def with_weights(self, consts: list[tuple[int, Any]]) -> Trace:
        """The same trace with other constants, which the same program runs."""
        found = copy(self)
        found.consts = consts
        return found

    def learns(self, results: Sequence[int]) -> bool:
        """Tells whether gradients can come to any of these positions: not to what is detached, say."""
        quiet: set[int] = set()
        for op in self.ops:
            if op.name in WITHOUT_HISTORY or quiet.issuperset(op.inputs):
                quiet.update(op.outputs)
        return not quiet.issuperset(results) or not results

    def apart(self) -> str:
        """Says that weights are on another device than operands; "" where they are not.

        A look-up is where its table is: its indices are numbers of the host.
        """
        others = sorted({name_of_device(tensor.device) for _, tensor in self.consts if tensor.dim()} - {self.device})
        if not others:
            return ""
        if len(others) == 1 and [op.name for op in self.ops] == ["embedding.default"]:
            self.device = others[0]
            return ""
        return f"its operands are on {self.device}, and its weights on {', '.join(others)}"


def renumbered(trace: Trace, new: Trace, sources: Sequence[int], results: list[int]) -> Trace:
    """Fills a trace, whose operands are these positions of another, with what the results need; they count anew."""
    place = {position: number for number, position in enumerate(sources)}
    needed: set[int] = set(results)
    ops: list[TraceOp] = []
    for op in reversed(trace.ops):
        if needed.intersection(op.outputs).difference(place):
            needed.update(op.inputs)
            ops.append(op)
    for position, tensor in trace.consts:
        if position in needed:
            place[position] = len(new.shapes)
            new.consts.append((len(new.shapes), tensor))
            new.shapes.append(trace.shapes[position])
    for op in reversed(ops):
        outputs = []
        for position in op.outputs:
            number = len(new.shapes)
            place.setdefault(position, number)
            outputs.append(number)
            new.shapes.append(trace.shapes[position])
        new.ops.append(TraceOp(op.name, op.attrs, tuple([place[k] for k in op.inputs]), tuple(outputs)))
    results[:] = [place[position] for position in results]
    return new


def placed(value: Any, inputs: Sequence[Any]) -> Any:
    """An argument as a trace has it, with values in place of inputs."""
    if value.__class__ is Operand:
        return inputs[value]
    return tuple([placed(item, inputs) for item in value]) if isinstance(value, tuple) else value


class TraceFindings(NamedTuple):
    """The findings of tracing a call: the trace, where the results are in it and in what the call returns.

    draws: whether it draws random numbers; learning: which of the trace's constants learned; asked: the sizes that the
    program has decided by, in order.
    """

    trace: Trace
    places: list[int]
    structure: Any
    draws: bool
    learning: list[bool]
    asked: tuple[int, ...]


class Loops:
    """Finds a weight that is used on what depends on an earlier use of it, as one of a loop over a sequence is.

    Of what is constant only parameters are weights: zeros that a cell begins with may be used twice.
    """

    __slots__ = ("_passed", "_weights", "found")

    def __init__(self) -> None:
        self.found = False
        self._weights: dict[int, int] = {}  # a bit each, by the positions of weights and of what is made of one alone
        self._passed: dict[int, int] = {}  # the bits of weights that a result depends on, where there are some

    def add_constant(self, position: int, tensor: Any) -> None:
        """Notes a constant."""
        if isinstance(tensor, torch.nn.Parameter) and tensor.dim() >= 2:
            self._weights[position] = 1 << position

    def add(self, name: str, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Notes an operator. A weight is used in products alone: to add one, as a learned query, makes no loop."""
        used = through = weights = 0
        for position in inputs:
            weight = self._weights.get(position, 0)
            weights += weight > 0
            used |= weight
            through |= self._passed.get(position, 0)
        self.found = self.found or (name in _PRODUCTS and used & through != 0)
        found = self._weights if inputs and weights == len(inputs) else self._passed
        if used | through:
            for position in outputs:
                found[position] = used | through
