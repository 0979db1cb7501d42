"""Runs nodes of a step one by one, from their traces: to compare a program with them, and in its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from gluonjit.analysis.plan import Step, node_operands
from gluonjit.engines.torch.arrays import LEARNABLE, device_named, dtype_named, host_numbers, name_of_dtype
from gluonjit.engines.torch.hooked import plain, run_backward
from gluonjit.engines.torch.program import Built, build, interpret, join, piece, program_of
from gluonjit.graph import Kind, Spec
from gluonjit.hybrid.check.rounding import Manner
from gluonjit.hybrid.check.runner import NodeRun
from gluonjit.program.trace import Trace

_WIDE = {"float32": torch.float64, "float16": torch.float64, "bfloat16": torch.float64, "complex64": torch.complex128}


class TorchNodes:
    """Implements `gluonjit.hybrid.check.runner.NodeRunner`."""

    once: frozenset[str] = frozenset()

    def compute(self, step: Step, operands: Sequence[Any], consts: Sequence[Any], results: Sequence[Any] = ()) -> Any:
        """Returns the results of all nodes of a step, one by one; operands are those that `pieces` gives."""
        leaves = {id(own): leaf for own, leaf in zip(program_of(step.kind).consts, consts)}
        parts: list[list[Any]] = [[] for _ in step.kind.outputs]
        for kind, given in node_operands(step, operands, piece):
            own = [leaves.get(id(tensor), tensor) for tensor in kind.call.consts]
            for listed, output, result in zip(parts, kind.outputs, interpret(kind.call, given, own)):
                listed.append(join(output.spec, [result]))
        return [torch.cat(listed) for listed in parts]

    def numbers(self, array: Any, rows: list[int]) -> Any:
        """Reads rows of an arena."""
        return self.numbers_of(array[rows])

    @staticmethod
    def numbers_of(tensor: Any) -> Any:
        """Reads a tensor's numbers, into an array of their own."""
        dense = tensor.to_dense() if tensor.layout is not torch.strided else tensor
        return host_numbers(dense.detach().resolve_conj().resolve_neg()).copy()

    def build(self, trace: Trace) -> Built:
        """Makes the batched program of a trace."""
        with plain():
            return build(trace, False)

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
        trace: Trace = kind.call
        wide = _WIDE if manner.exact else {}
        with plain(heads is not None):
            given = [_of_spec(manner.of(array), spec, wide) for array, spec in zip(operands, kind.operands)]
            consts = [_copied(tensor, wide, manner) for tensor in trace.consts]
            learned = [tensor for tensor, spec in zip(given, kind.operands) if heads and spec.dtype in LEARNABLE]
            weights = {id(own): leaf for own, leaf in zip(trace.consts, consts) if heads and own.requires_grad}
            for tensor in (*learned, *weights.values()):
                tensor.requires_grad_()
            if together:
                groups = [given[position] for group in kind.groups for (position,) in group]
                found = program_of(kind)(groups, consts, together)
            else:
                found = interpret(_widened(trace) if manner.exact else trace, given, consts)
            gradients = _gradients(found, heads or (), [*learned, *weights.values()])
        known = dict(zip(map(id, learned), gradients))
        return NodeRun(
            [self.numbers_of(tensor) for tensor in found],
            [known.get(id(tensor)) for tensor in given],
            {key: gradient for key, gradient in zip(weights, gradients[len(learned) :]) if gradient is not None},
        )


def _tensor(array: Any, device: Any, dtype: Any) -> Any:
    return torch.from_numpy(np.asarray(array)).to(device, dtype)


def _of_spec(array: Any, spec: Spec, wide: dict[str, Any]) -> Any:
    return _tensor(array, device_named(spec.device), wide.get(spec.dtype, dtype_named(spec.dtype)))


def _copied(tensor: Any, wide: dict[str, Any], manner: Manner) -> Any:
    """A constant that the run may write to, as to running statistics."""
    dtype = wide.get(name_of_dtype(tensor.dtype), tensor.dtype)
    if manner.move is not None:
        return _tensor(manner.of(TorchNodes.numbers_of(tensor)), tensor.device, dtype)
    return tensor.detach().to(dtype, copy=tensor.dim() <= 1)


def _gradients(results: Sequence[Any], heads: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    pairs = [
        (result, torch.from_numpy(head).to(result.device, result.dtype).reshape(result.shape))
        for result, head in zip(results, heads)
        if head is not None and result.requires_grad
    ]
    if not pairs or not inputs:
        return [None] * len(inputs)
    found = run_backward(*map(tuple, zip(*pairs)), False, False, tuple(inputs), True, False)
    return [None if gradient is None else TorchNodes.numbers_of(gradient) for gradient in found]


def _widened(trace: Trace) -> Trace:
    """The trace with its floats, where operators name them, in float64."""
    dtypes = {dtype_named(name): dtype for name, dtype in _WIDE.items()}

    def wide(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple([wide(item) for item in value])
        return dtypes.get(value, value) if isinstance(value, torch.dtype) else value

    ops = [op._replace(attrs=tuple([(name, wide(value)) for name, value in op.attrs])) for op in trace.ops]
    return replace(trace, ops=tuple(ops))


NODES = TorchNodes()


def run_step(step: Step, operands: Sequence[Any], consts: Sequence[Any], besides: Sequence[Any] = ()) -> list[Any]:
    """Runs a step by its program, or where that is not trusted one by one."""
    program = program_of(step.kind)
    trusted = program.checks is None or not program.checks.distrusted
    found: list[Any] = (
        program(operands, consts, step.count, besides) if trusted else NODES.compute(step, operands, consts)
    )
    return found
