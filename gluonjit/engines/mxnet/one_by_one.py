"""Runs nodes of a step one by one, from their traces: to compare a program with them, and in its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mxnet as mx
import numpy as np

from gluonjit.analysis.plan import Step
from gluonjit.engines.mxnet.arrays import context_of, room_for, spec_of
from gluonjit.engines.mxnet.history import has_history
from gluonjit.engines.mxnet.hooked import original_backward
from gluonjit.engines.mxnet.modes import as_captured
from gluonjit.engines.mxnet.program import build, interpret, join, program_of
from gluonjit.engines.mxnet.semantics import as_shape, classic, learned_rows, piece, shapes
from gluonjit.graph import Kind
from gluonjit.graph.modes import RECORDING, TRAINING
from gluonjit.hybrid.check.runner import NodeRunner
from gluonjit.program.trace import Trace


class MXNetNodes(NodeRunner):
    """MXNet's."""

    once = frozenset("_linalg_det _linalg_slogdet _npi_det _npi_slogdet SpatialTransformer".split())
    piece, spec_of, build = staticmethod(piece), staticmethod(spec_of), staticmethod(build)

    def numbers(self, array: Any, rows: list[int]) -> Any:
        with as_captured(0):
            return array.asnumpy()[rows]

    def numbers_of(self, array: Any) -> Any:
        return array.asnumpy()

    def array_of(self, numbers: Any, dtype: str, device: str) -> Any:
        numbers = np.asarray(numbers)
        with shapes(not numbers.shape):
            found = mx.nd.empty(numbers.shape, context_of(device), dtype)
        found._sync_copyfrom(np.ascontiguousarray(numbers, dtype))
        return found

    def detached(self, array: Any, copied: bool) -> Any:
        plain = classic(array).detach()
        return plain.copy() if copied else plain

    def learns(self, array: Any) -> bool:
        return has_history(classic(array))

    def track(self, array: Any) -> None:
        array.attach_grad()

    def gradients(self, pairs: list[tuple[Any, Any]], sources: list[Any]) -> Sequence[Any]:
        original_backward(*map(list, zip(*pairs)), False, True)
        return [array.grad.asnumpy() for array in sources]

    @contextmanager
    def region(self, kind: Kind, mode: int, recorded: bool) -> Iterator[None]:
        with as_captured(mode & TRAINING | RECORDING * recorded), shapes(program_of(kind).numpy):
            yield

    def interpret(self, trace: Trace, operands: Sequence[Any], consts: Sequence[Any]) -> Sequence[Any]:
        """Runs a trace; each result is an array of its own: MXNet forgets a head that is there twice, or a variable."""
        found = interpret(trace, operands, consts)
        return [as_shape(array, shape) for array, (shape, _) in zip(found, trace.shaped_results())]

    def together(self, kind: Kind, groups: list[list[Any]], consts: Sequence[Any], count: int) -> Sequence[Any]:
        found = [room_for(output.spec, count * output.spec.rows) for output in kind.outputs]
        joined = [mx.nd.concat(*arrays, dim=0) if len(arrays) > 1 else arrays[0] for arrays in groups]
        program_of(kind)(joined, consts, count, found)
        return found


NODES = MXNetNodes()


def compute_alone(step: Step, operands: Sequence[Any], consts: Sequence[Any], results: Sequence[Any]) -> None:
    """Computes a step's nodes one by one into `results`; operands are the groups of the step's kind."""
    roles = [part for group, rows in zip(step.kind.groups, operands) for part in _parts(rows, len(group))]
    parts = NODES.compute(step, roles, list(map(classic, consts)))
    for output, listed, result in zip(step.kind.outputs, parts, results):
        join(output.spec, listed, result)


def _parts(rows: Any, count: int) -> list[Any]:
    """Rows in this many equal parts, one after the other."""
    each = rows.shape[0] // count
    return [learned_rows(rows, k * each, (k + 1) * each) for k in range(count)]
