"""Runs nodes one by one, from their traces: to compare a program with them, in its place, and where inputs decide.

The last are values that the numbers of inputs alone decide, read in the middle of a sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mxnet as mx
import numpy as np
from mxnet.ndarray import NDArray

from gluonjit.analysis.plan import Step
from gluonjit.engines.mxnet.framework.arrays import address_of, context_of, room_for, sent, spec_of
from gluonjit.engines.mxnet.framework.originals import original_backward, slice_rows
from gluonjit.engines.mxnet.framework.semantics import as_captured, as_shape, classic, learned_rows, piece, shapes
from gluonjit.engines.mxnet.run.inference import reason_of
from gluonjit.engines.mxnet.run.program import build, interpret, join, joined, program_of
from gluonjit.engines.mxnet.run.results import Imported, has_history, is_learned
from gluonjit.graph import Arrays, Kind, Leaf, Spec
from gluonjit.graph.modes import RECORDING, TRAINING
from gluonjit.hybrid.check.runner import NodeRunner
from gluonjit.hybrid.run.decided import DecidedValues, NeedsMore, batch_to_ask
from gluonjit.program.trace import Trace


class MXNetNodes(NodeRunner):
    """MXNet's."""

    once = frozenset("_linalg_det _linalg_slogdet _npi_det _npi_slogdet SpatialTransformer".split())
    index_type = np.int32
    piece, spec_of, build, wait = map(staticmethod, (piece, spec_of, build, mx.nd.waitall))
    room_for, slice_rows, take, reason_of = map(staticmethod, (room_for, slice_rows, mx.nd.take, reason_of))

    def sent(self, numbers: Any, device: str) -> NDArray:
        with as_captured(0):
            return sent(numbers, context_of(device))

    def copy(self, rows: NDArray, to: NDArray) -> None:
        with as_captured(0):
            rows.copyto(to)

    def address(self, array: NDArray) -> int | None:
        array = classic(array)
        return address_of(array) if array.stype == "default" and array.context.device_type.startswith("cpu") else None

    def numbers(self, array: Any, rows: list[int]) -> Any:
        with as_captured(0):
            return array.asnumpy()[rows]

    def numbers_of(self, array: Any) -> Any:
        return array.asnumpy()

    def array_of(self, numbers: Any, dtype: str, device: str) -> Any:
        with shapes(not np.shape(numbers)):
            return sent(np.asarray(numbers, dtype), context_of(device))

    def detached(self, array: Any, copied: bool) -> Any:
        plain = classic(array).detach()
        return plain.copy() if copied else plain

    def learns(self, array: Any) -> bool:
        return has_history(classic(array))

    def track(self, array: Any) -> None:
        array.attach_grad()

    def constant(self, array: NDArray, leaf: NDArray, node: int) -> NDArray:
        """Running statistics are mixed in for each node by itself."""
        return leaf if leaf.shape == array.shape else as_shape(slice_rows(leaf, node, node + 1), array.shape)

    def gradients(self, pairs: list[tuple[Any, Any]], sources: list[Any]) -> Arrays:
        """Each head is an array of its own: MXNet forgets one that is there twice, or a variable."""
        heads, given = zip(*pairs)
        original_backward([as_shape(head, head.shape) for head in heads], list(given), False, True)
        return [array.grad.asnumpy() for array in sources]

    @contextmanager
    def region(self, kind: Kind, mode: int, recorded: bool) -> Iterator[None]:
        with as_captured(mode & TRAINING | RECORDING * recorded), shapes(program_of(kind).numpy):
            yield

    def interpret(self, trace: Trace, operands: Arrays, consts: Arrays) -> Arrays:
        """Runs a trace; results look as it says: an operator of old gives one number where it has none."""
        found = interpret(trace, operands, consts)
        return [as_shape(array, shape) for array, (shape, _) in zip(found, trace.shaped_results())]

    def together(self, kind: Kind, groups: list[list[Any]], consts: Arrays, count: int) -> Arrays:
        found = [room_for(output.spec, count * output.spec.rows) for output in kind.outputs]
        joined = [mx.nd.concat(*arrays, dim=0) if len(arrays) > 1 else arrays[0] for arrays in groups]
        program_of(kind)(joined, consts, count, found)
        return found


NODES = MXNetNodes()


def compute_alone(step: Step, operands: Arrays, consts: Arrays, results: Arrays) -> None:
    """Computes a step's nodes one by one into `results`; operands are the groups of the step's kind."""
    roles = [part for group, rows in zip(step.kind.groups, operands) for part in _parts(rows, len(group))]
    parts = NODES.compute(step, roles, list(map(classic, consts)))
    for output, listed, result in zip(step.kind.outputs, parts, results):
        join(output.spec, listed, result)


def _parts(rows: Any, count: int) -> list[Any]:
    """Rows in this many equal parts, one after the other."""
    if count == 1:
        return [rows]
    each = rows.shape[0] // count
    return [learned_rows(rows, k * each, (k + 1) * each) for k in range(count)]


def decided(lazy: Any, constant: bool = False) -> NDArray | None:
    """A pending array, if its numbers follow from inputs by a few calls, for who reads them; else None.

    constant: whether only from inputs that gradients do not go on to.
    """
    batch = batch_to_ask()
    if batch is None:
        return None
    with as_captured(0):
        rows = _Values.of(batch, lazy._v, constant)
        return None if rows is None else lazy._in_kind(piece(rows, lazy._v.spec, 0))


def as_decided(item: Any, constant: bool = False) -> Any:
    """This part of an index, or operand, or the array that it is if it waits and follows from (`constant`) inputs."""
    found = decided(item, constant) if getattr(item, "_v", None) is not None and item._c is None else None
    return item if found is None else found


def as_rows(array: NDArray, spec: Spec) -> NDArray:
    """An array of this spec as rows of an arena."""
    shape = (spec.rows, *spec.row_shape)
    return array if array.shape == shape else as_shape(array, shape)


class _Values(DecidedValues):
    """Computes values one by one, by MXNet's own operators."""

    runner, as_rows, joined = NODES, staticmethod(as_rows), staticmethod(joined)

    def may_fail(self, kind: Kind) -> bool:
        return program_of(kind).may_fail

    def leaf_rows(self, leaf: Leaf) -> NDArray:
        payload, earlier = leaf.payload, isinstance(leaf.payload, Imported)
        array = payload.array if earlier else payload
        learns = payload.tape is not None if earlier else leaf.taped and is_learned(payload)
        if array.stype != "default" or (learns and self.constant):
            raise NeedsMore
        return as_rows(classic(array), leaf.spec)
