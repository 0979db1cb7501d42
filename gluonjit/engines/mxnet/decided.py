"""Values that the numbers of inputs alone decide, read in the middle of a sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mxnet as mx
import numpy as np
from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet.arrays import context_of
from gluonjit.engines.mxnet.lookups import Numbers
from gluonjit.engines.mxnet.modes import as_captured
from gluonjit.engines.mxnet.program import join, program_of, run_call
from gluonjit.engines.mxnet.results import Imported
from gluonjit.engines.mxnet.semantics import as_shape, classic, piece, shapes
from gluonjit.engines.mxnet.trace import CallOperators
from gluonjit.graph import Kind, Leaf, Spec, intern_spec
from gluonjit.graph.modes import TRAINING
from gluonjit.hybrid.run.decided import KEY, NeedsMore, Reader
from gluonjit.hybrid.run.state import LOCAL


def decided(lazy: Any) -> NDArray | None:
    """A pending array, if its numbers follow from inputs by a few calls, for who reads them; else None."""
    state = LOCAL.state
    batch, value = state.batch, lazy._v
    if batch is None or not state.inside or state.paused or state.trace is not None or state.recorded is not None:
        return None
    if value.graph is not batch.graph:
        return None
    with as_captured(0):
        try:
            rows = _Reader(batch.graph, batch.created.setdefault(KEY, {})).rows(value.rows, value.spec.rows)
        except NeedsMore:
            return None
        found: NDArray = lazy._in_kind(piece(rows, value.spec, 0))
    return found


def as_decided(item: Any) -> Any:
    """This part of an index, or the array that it is if it waits and follows from inputs."""
    found = decided(item) if getattr(item, "_v", None) is not None and item._c is None else None
    return item if found is None else found


class _Reader(Reader):
    """Computes values one by one, by MXNet's own operators."""

    def joined(self, parts: Sequence[NDArray]) -> NDArray:
        first = parts[0]
        shape = (sum([len(part) for part in parts]), *first.shape[1:])
        spec = intern_spec(shape, np.dtype(first.dtype).name, str(first.context), "rows")
        found: NDArray = join(spec, parts, None)
        return found

    def called(self, record: Any, operands: Sequence[Any]) -> Sequence[NDArray]:
        kind: Kind = record.kind
        call, program = kind.call, program_of(kind)
        if not isinstance(call, CallOperators) or call.consts or program.may_fail or len(kind.operands) < kind.sum_of:
            raise NeedsMore
        given = [piece(self.rows(rows, spec.rows), spec, 0) for rows, spec in zip(operands, kind.operands)]
        with as_captured(record.mode & TRAINING), shapes(program.numpy):
            found = run_call(call, given)
        return [_as_rows(array, output.spec) for array, output in zip(found, kind.outputs)]

    def leaf_rows(self, leaf: Leaf) -> NDArray:
        array = leaf.payload.array if isinstance(leaf.payload, Imported) else leaf.payload
        if array.stype != "default":
            raise NeedsMore
        return _as_rows(classic(array), leaf.spec)

    def entry_rows(self, table: Any, entries: Sequence[Any]) -> NDArray:
        """The rows of the host's numbers, each by its value."""
        if table.__class__ is not Numbers:
            raise NeedsMore
        numbers = np.array(entries).reshape(len(entries), *[1] * table.axes)
        return mx.nd.array(numbers, ctx=context_of(table.device), dtype=table.dtype)


def _as_rows(array: NDArray, spec: Spec) -> NDArray:
    """An array of this spec as rows of an arena."""
    shape = (spec.rows, *spec.row_shape)
    return array if array.shape == shape else as_shape(array, shape)
