"""Runs nodes of a step one by one, from their traces: to compare a program with them, and in its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import mxnet as mx
import numpy as np

from gluonjit.analysis.plan import Step, node_operands
from gluonjit.engines.mxnet.arrays import context_of, device_of, dtype_name, room_for
from gluonjit.engines.mxnet.history import has_history
from gluonjit.engines.mxnet.hooked import original_backward, run_operator
from gluonjit.engines.mxnet.modes import POOLING, as_captured, in_training
from gluonjit.engines.mxnet.operators.attributes import written
from gluonjit.engines.mxnet.operators.symbols import operator_handle
from gluonjit.engines.mxnet.operators.traits import NO_GRADIENT
from gluonjit.engines.mxnet.program import Built, build, join, program_of
from gluonjit.engines.mxnet.semantics import as_shape, classic, learned_rows, piece, shapes
from gluonjit.graph import Kind
from gluonjit.graph.modes import RECORDING, TRAINING
from gluonjit.hybrid.check.rounding import PLAINLY, Manner
from gluonjit.hybrid.check.runner import NodeRun
from gluonjit.program.trace import Trace, TraceOp

_FLOATS = {"float16", "float32", "float64"}


class MXNetNodes:
    """Implements `gluonjit.hybrid.check.runner.NodeRunner`."""

    once = frozenset("_linalg_det _linalg_slogdet _npi_det _npi_slogdet SpatialTransformer".split())

    def compute(self, step: Step, operands: Sequence[Any], consts: Sequence[Any], results: Sequence[Any]) -> None:
        """Computes a step's nodes into `results`, from their traces; operands are the groups of the step's kind."""
        leaves = {id(own): classic(leaf) for own, leaf in zip(program_of(step.kind).consts, consts)}
        roles = [part for group, rows in zip(step.kind.groups, operands) for part in _parts(rows, len(group))]
        parts: list[list[Any]] = [[] for _ in results]
        for kind, given in node_operands(step, roles, piece):
            own = [leaves.get(id(array), array) for array in kind.call.consts]
            for listed, array in zip(parts, _run(kind, given, own)):
                listed.append(array)
        for output, listed, result in zip(step.kind.outputs, parts, results):
            join(output.spec, listed, result)

    def numbers(self, array: Any, rows: list[int]) -> Any:
        """Reads rows of an arena."""
        with as_captured(0):
            return array.asnumpy()[rows]

    def build(self, trace: Trace) -> Built:
        """Makes the batched program of a trace."""
        return build(trace)

    def alone(
        self,
        kind: Kind,
        operands: Sequence[Any],
        mode: int,
        manner: Manner,
        heads: Sequence[Any] | None = None,
        together: int = 0,
    ) -> NodeRun:
        """Runs a node's operators one by one, or a kind's program."""
        consts = [_copied(own, manner) for own in kind.call.consts]
        weights = {id(own): leaf for own, leaf in zip(kind.call.consts, consts) if has_history(classic(own))}
        given = [_array(array, spec.dtype, spec.device, manner) for array, spec in zip(operands, kind.operands)]
        call = _widened(kind.call) if manner.exact else kind.call

        def run() -> list[Any]:
            if not together:
                return _run(replace(kind, call=call), given, consts)
            groups = [[given[position] for (position,) in group] for group in kind.groups]
            found = [room_for(output.spec, together * output.spec.rows) for output in kind.outputs]
            joined = [mx.nd.concat(*arrays, dim=0) if len(arrays) > 1 else arrays[0] for arrays in groups]
            program_of(kind)(joined, consts, together, found)
            return found

        return _differentiated(kind, run, given, weights if heads else {}, mode, heads)


def _parts(rows: Any, count: int) -> list[Any]:
    """Rows in this many equal parts, one after the other."""
    each = rows.shape[0] // count
    return [learned_rows(rows, k * each, (k + 1) * each) for k in range(count)]


def _run(kind: Kind, operands: Sequence[Any], consts: Sequence[Any]) -> list[Any]:
    """The results of a kind's trace; a sum of numbers has no axes where it was captured with numpy's shapes."""
    found: list[Any] = kind.call.run(_operator, operands, consts)
    return [as_shape(found[0], kind.outputs[0].spec.shape)] if kind.sum_of else found


def _operator(op: TraceOp, inputs: list[Any]) -> list[Any]:
    for blocked in NO_GRADIENT.get(op.name, ()):
        if blocked < len(inputs):
            inputs[blocked] = inputs[blocked].detach()
    with in_training(op.name in POOLING):
        return run_operator(operator_handle(op.name), inputs, written(op.attrs))


def _differentiated(
    kind: Kind, run: Any, given: Sequence[Any], weights: dict[int, Any], mode: int, heads: Sequence[Any] | None
) -> NodeRun:
    """Runs something, and backward through it."""
    learned = [array for array in given if heads and dtype_name(array) in _FLOATS]
    with as_captured(mode & TRAINING), shapes(program_of(kind).numpy):
        for array in (*learned, *weights.values()):
            array.attach_grad()
        with as_captured(mode & TRAINING | (RECORDING if heads else 0)):
            found = [
                mx.nd.identity(array) for array in run()
            ]  # MXNet forgets a head that is there twice, or a variable
        pairs = [
            (result, _array(np.reshape(head, result.shape), dtype_name(result), device_of(result), PLAINLY))
            for result, head in zip(found, heads or ())
            if head is not None
        ]
        if pairs and (learned or weights):
            original_backward(*map(list, zip(*pairs)), False, True)
        known = {id(array): array.grad.asnumpy() for array in learned}
        return NodeRun(
            [array.asnumpy() for array in found],
            [known.get(id(array)) for array in given],
            {key: array.grad.asnumpy() for key, array in weights.items()},
        )


def _array(array: Any, dtype: str, device: str, manner: Manner) -> Any:
    wide = "float64" if manner.exact and dtype in _FLOATS else dtype
    numbers = np.asarray(manner.of(array))
    with shapes(True) if not numbers.shape else shapes(False):
        found = mx.nd.empty(numbers.shape, context_of(device), wide)
    found._sync_copyfrom(np.ascontiguousarray(numbers, wide))
    return found


def _copied(array: Any, manner: Manner) -> Any:
    """A constant that the run may write to, as to running statistics."""
    plain = classic(array).detach()
    if manner == PLAINLY:
        return plain if len(plain.shape) > 1 else plain.copy()
    return _array(plain.asnumpy(), dtype_name(plain), device_of(plain), manner)


def _widened(trace: Trace) -> Trace:
    """The trace with its floats, where operators name them, in float64."""
    ops = [
        op._replace(attrs=tuple([(key, "float64" if value in _FLOATS else value) for key, value in op.attrs]))
        for op in trace.ops
    ]
    return replace(trace, ops=tuple(ops))


NODES = MXNetNodes()
