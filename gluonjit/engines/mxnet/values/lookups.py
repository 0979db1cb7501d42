"""Look-ups in a table by known integers: each entry is a row, and equal entries are equal rows."""

from __future__ import annotations

from typing import Any

from mxnet.ndarray import NDArray

from gluonjit.compiled import FAST
from gluonjit.engines.mxnet.framework.arrays import spec_of
from gluonjit.engines.mxnet.framework.originals import operator_handle, run_operator
from gluonjit.engines.mxnet.framework.semantics import classic
from gluonjit.engines.mxnet.framework.shared import SHARED
from gluonjit.graph import Spec, Value, intern_spec
from gluonjit.graph.entries import entries_at
from gluonjit.graph.references import table_rows
from gluonjit.hybrid.capture import tables
from gluonjit.hybrid.run.batch import Batch

_EMBEDDING = operator_handle("Embedding")


class Table(tables.Table):
    """A weight. `attrs` are those of Embedding."""

    look = staticmethod(spec_of)

    def __init__(self, *key: Any) -> None:
        super().__init__(*key)
        self.known: dict[int, tuple[Any, Value]] = {}  # looked up before, by the index array's address

    def entries(self, index: NDArray) -> NDArray:
        """Looks entries up, by indices of their own: MXNet forgets about these after a backward pass."""
        return run_operator(_EMBEDDING, [index.detach(), classic(self.weight)], self.attrs)[0]

    def forget(self) -> None:
        """Releases values, whose graph refers to this: what runs is freed without the garbage collector."""
        self.known.clear()


def look_up(batch: Batch, indices: Any, table: Table) -> Value | None:
    """`Embedding(indices, weight)` for concrete indices; None if they are not one-dimensional.

    Raises CaptureError for an index outside the table, which MXNet would silently clip.
    """
    known = table.known.get(id(indices))
    if known is not None:
        return known[1]
    entries = batch.graph.lookups.get(table)
    if entries is not None and FAST is not None and (listed := FAST.numbers(indices)):
        value = entries_at(batch.graph, entries, listed, table.size, table.row, table.taped)
        if value is not None:
            return _noted(batch, indices, table, value)
    numbers = indices.asnumpy()
    if numbers.ndim != 1 or not numbers.size:
        return None
    listed = numbers.astype("int64").tolist()
    table.check("Embedding", listed)
    return _noted(batch, indices, table, table_rows(batch.graph, table, table.row, listed, table.taped))


def _noted(batch: Batch, indices: Any, table: Table, value: Value) -> Value:
    """The value of an index array, which the batch and the table know from now on: a write to the array is noticed."""
    if indices.__class__ not in SHARED:
        table.known[id(indices)] = batch.imports["index", id(indices)] = (indices, value)
    return value


def host_rows(batch: Batch, array: Any, dtype: str, device: str) -> Value:
    """A one-dimensional integer array as rows numbered by value."""
    numbers = FAST and FAST.numbers(array)
    return host_numbers(batch, numbers or array.asnumpy().tolist(), dtype, device, array)


def host_numbers(batch: Batch, numbers: list[Any], dtype: str, device: str, base: Any = None) -> Value:
    """Numbers of the host's, one or more, as an array of one axis: rows numbered by value."""
    row = intern_spec((), dtype, device, "stack")
    return table_rows(batch.graph, batch.host_table(dtype, device), row, numbers, False, base)


def host_number(batch: Batch, number: float, like: Spec) -> Value:
    """A number of the host's, as an array that gives with one that looks like `like` what the number gives."""
    axes = len(like.row_shape)
    row = intern_spec((1,) * axes, like.dtype, like.device, "stack")
    found = table_rows(batch.graph, batch.host_table(like.dtype, like.device, axes), row, [number])
    shape = like.shape[: len(like.shape) - axes] + row.shape
    rows = found.row_list() * like.rows
    whole = intern_spec(shape, like.dtype, like.device, like.mode)
    return Value(tuple(rows) if len(rows) > 1 else rows[0], 0, whole, batch.graph, False)
