"""Zeros inside a cell, which are not computed: products with a state that the program makes with `zeros`.

A weight left out this way still has a gradient of zeros: `PrunedTrace.weights` names it for the tape. Products of zeros
with weights, and with the results of sigmoid, tanh and softmax, are taken to be zero: all of these are finite as long
as nothing has gone wrong. Everything else is computed as usual.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from gluonjit.engines.mxnet.rules.attributes import Attributes
from gluonjit.engines.mxnet.rules.table import RULES
from gluonjit.engines.mxnet.trace import Recorder
from gluonjit.program.trace import TraceOp


class PrunedTrace(NamedTuple):
    """The rest of a trace, and the weights of which it has lost the products."""

    trace: Recorder
    results: list[int]
    weights: list[Any]


_SOURCES = {"_zeros", "_npi_zeros", "zeros_like"}
_KEEPING = {
    "relu",
    "tanh",
    "_npi_tanh",
    "_npx_relu",
    "Reshape",
    "SliceChannel",
    "slice",
    "slice_axis",
    "_copy",
    "Flatten",
}
_JOINING = {"Concat", "add_n", *(additions := ("elemwise_add", "broadcast_add", "_npi_add"))}
_PRODUCTS = {"elemwise_mul", "broadcast_mul", "_npi_multiply"}
_BOUNDED = {"sigmoid", "_npx_sigmoid", "tanh", "_npi_tanh", "softmax"}
_ADDITIONS = frozenset(additions)
_WIDE = 64  # columns from which on a product takes longer than to cut one of them out


def without_zeros(trace: Recorder, results: Sequence[int], operands: Collection[int]) -> PrunedTrace | None:
    """The trace without what these operands, all zeros, make zero; None if nothing is won."""
    made = _Rewriting(trace, operands)
    for op in trace.ops:
        made.take(op)
    places = [made.alias.get(position, position) for position in results]
    ops = _needed(made.ops, places)
    if not made.thin and len(ops) >= len(_needed(trace.ops, results)):
        return None
    before, after = _dependence(trace.ops, results), _dependence(ops, places)
    lost: set[int] = set()
    for one, other in zip(before, after):
        lost |= one - other
    lost -= set(operands)
    weights = dict(trace.consts)
    if not lost <= set(weights) or not all(lost <= one for one in before):
        return None
    left = Recorder(trace.operands, trace.mode, trace.constant)
    left.shapes, left.consts, left.known, left.ops = made.shapes, trace.consts, trace.known, ops
    return PrunedTrace(left, places, [weights[position] for position in sorted(lost)])


class _Rewriting:
    """The operators so far, what is zero, and what stands for what."""

    def __init__(self, trace: Recorder, operands: Collection[int]) -> None:
        self.trace = trace
        self.zero = set(operands)
        self.constants = {position for position, _ in trace.consts}
        self.bounded: set[int] = set()
        self.biases: dict[int, int] = {}  # results that are one bias in each row
        self.thin = 0  # products of one column in place of wide ones
        self.alias: dict[int, int] = {}
        self.shapes = list(trace.shapes)
        self.ops: list[TraceOp] = []

    def take(self, op: TraceOp) -> None:
        """The next operator. What is zero is noted and stays, in case that something needs it."""
        inputs = tuple([self.alias.get(position, position) for position in op.inputs])
        op = op._replace(inputs=inputs)
        if op.name in _BOUNDED or (op.name == "Activation" and _activation(op) in ("sigmoid", "tanh")):
            self.bounded.update(op.outputs)
        if self._is_zero(op):
            self.zero.update(op.outputs)
        elif op.name == "FullyConnected" and inputs[0] in self.zero and self.constants.issuperset(inputs[1:]):
            if not self.trace.training:
                self.biases[op.outputs[0]] = inputs[2]
            elif len(self.shapes[inputs[0]][0]) == 2 and self.shapes[inputs[0]][0][1] >= _WIDE:
                op = self._thin(op)
        elif op.name in _ADDITIONS or op.name == "add_n":
            op = self._sum(op)
        self.ops.append(op)

    def _is_zero(self, op: TraceOp) -> bool:
        zero = [position in self.zero for position in op.inputs]
        if op.name in _SOURCES:
            return True
        if op.name in _KEEPING or (op.name == "Activation" and _activation(op) in ("relu", "tanh")):
            return zero[0]
        if op.name in _JOINING:
            return all(zero)
        if op.name in _PRODUCTS:
            finite = [known or position in self.bounded for known, position in zip(zero, op.inputs)]
            return any(zero) and all(finite)
        if op.name == "FullyConnected":
            return zero[0] and len(op.inputs) == 2 and op.inputs[1] in self.constants
        return False

    def _thin(self, op: TraceOp) -> TraceOp:
        """A product of zeros by one column: its bias, whose gradient costs less than that of a bias added to rows."""
        inputs = []
        for position in op.inputs[:2]:
            (rows, _), dtype = self.shapes[position]
            inputs.append(len(self.shapes))
            self.shapes.append(((rows, 1), dtype))
            attrs = (("axis", "1"), ("begin", "0"), ("end", "1"))
            self.ops.append(TraceOp("slice_axis", attrs, (position,), (inputs[-1],)))
        self.thin += 1
        return op._replace(inputs=(*inputs, op.inputs[2]))

    def _sum(self, op: TraceOp) -> TraceOp:
        """Drops the terms of an addition that are zero, if another gives its shape."""
        shape = self.trace.shapes[op.outputs[0]]
        terms = [position for position in op.inputs if position not in self.zero]
        alike = [position for position in terms if self.trace.shapes[position] == shape]
        if len(terms) == 1 and alike == terms and terms[0] not in self.constants:
            self.alias[op.outputs[0]] = terms[0]
        elif len(alike) == len(terms) == 2 and op.name in _ADDITIONS:
            first, second = terms if terms[1] in self.biases else terms[::-1]
            if second in self.biases and first not in self.biases and first not in self.constants:
                return TraceOp("broadcast_add", (), (first, self.biases[second]), op.outputs)
        elif len(alike) == len(terms) > 1 and op.name == "add_n":
            return TraceOp("add_n", (("num_args", str(len(terms))),), tuple(terms), op.outputs)
        return op


def _activation(op: TraceOp) -> str:
    return Attributes(dict(op.attrs)).text("act_type", "")


def _needed(ops: Sequence[TraceOp], results: Sequence[int]) -> list[TraceOp]:
    """Drops operators whose results are not read and which have no other effect."""
    needed, kept = set(results), []
    for op in reversed(ops):
        rule = RULES.get(op.name)
        pure = rule is not None and not rule.stateful
        if not pure or not needed.isdisjoint(op.outputs):
            needed.update(op.inputs)
            kept.append(op)
    return kept[::-1]


def _dependence(ops: Sequence[TraceOp], results: Sequence[int]) -> list[set[int]]:
    """Finds the operands and constants that each result depends on."""
    found: dict[int, set[int]] = {}
    for op in ops:
        of: set[int] = set()
        for position in op.inputs:
            of |= found.get(position, {position})
        found.update(dict.fromkeys(op.outputs, of))
    return [found.get(position, {position}) for position in results]
