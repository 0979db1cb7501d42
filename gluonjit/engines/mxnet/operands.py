"""Arrays as operands of the open batch: lazy ones by their value, others as leaves."""

from __future__ import annotations

from typing import Any

from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet.arrays import spec_of
from gluonjit.engines.mxnet.lookups import host_rows
from gluonjit.engines.mxnet.trace import NeedsValue, Trace
from gluonjit.graph import Value, intern_spec
from gluonjit.hybrid import Batch
from gluonjit.hybrid.batch import results_of

_INTEGERS = {"int32", "int64", "int8", "uint8"}


def value_of(batch: Batch, array: Any) -> Value:
    """The value of an array in the batch's graph."""
    value: Value | None = getattr(array, "_v", None)
    if value is None:
        return leaf(batch, array)
    if value.graph is batch.graph:
        return value
    if array._c is not None:
        return leaf(batch, array._c)
    return imported(batch, value)


def leaf(batch: Batch, array: NDArray) -> Value:
    """A concrete array: equal when it is the same object, or for one-dimensional integers the same number."""
    known = batch.imports.get(id(array))
    if known is not None:
        return known[1]
    spec = spec_of(array)
    if spec.dtype in _INTEGERS and len(spec.shape) == 1:
        value = host_rows(batch, array, spec.dtype, spec.device)
    else:
        value = Value(batch.graph.add_leaf(id(array), array, spec).base, 0, spec, batch.graph, True)
    batch.imports[id(array)] = (array, value)
    return value


def imported(batch: Batch, value: Value) -> Value:
    """A value of another graph; its batch runs first if it has not."""
    if isinstance(value.graph, Trace):
        raise NeedsValue()
    known = batch.imports.get(id(value))
    if known is not None:
        return known[1]
    if value.graph is not None and isinstance(value.graph.owner, Batch):
        value.graph.owner.flush("a value was used in another batch")
    rows: Any
    if value.result is not None:
        chunk, position, _ = value.result
        rows = _chunk_base(batch, chunk, value) + position
    else:
        results = results_of(value)
        rows = tuple(
            _chunk_base(batch, results.chunks[results.chunk[row]], value) + int(results.position[row])
            for row in value.row_list()
        )
        if len(rows) == 1:
            (rows,) = rows
    new = Value(rows, 0, value.spec, batch.graph, value.taped, value)
    batch.imports[id(value)] = (value, new)
    return new


def _chunk_base(batch: Batch, chunk: NDArray, value: Value) -> int:
    """The first row of an earlier flush's chunk as a leaf."""
    key = ("chunk", id(chunk))
    known = batch.graph.leaves.get(key)
    if known is not None:
        return known.base
    spec = intern_spec((chunk.shape[0], *value.spec.row_shape), value.spec.dtype, value.spec.device, "rows")
    return batch.graph.add_leaf(key, chunk, spec).base
