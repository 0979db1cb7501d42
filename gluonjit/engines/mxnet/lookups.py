"""Look-ups in a table by integers that are known: each entry is a row, and equal entries are equal rows."""

from __future__ import annotations

from typing import Any

from gluonjit.engines.mxnet.trace import Attrs, dtype_name
from gluonjit.errors import CaptureError
from gluonjit.graph import Value, intern_spec
from gluonjit.hybrid import Batch


class Table:
    """A weight whose rows are looked up; None stands for the host's own integers."""

    def __init__(self, weight: Any, attrs: Attrs, dtype: str, device: Any, taped: bool = False) -> None:
        self.weight = weight
        self.taped = taped
        self.attrs = attrs
        self.dtype = dtype
        self.device = device


def host_values(batch: Batch, array: Any) -> list[Any]:
    """The numbers of a one-dimensional array, read once per batch."""
    known = batch.host.get(id(array))
    if known is None:
        known = batch.host[id(array)] = (array, array.asnumpy().tolist())
    return known[1]


def look_up(batch: Batch, indices: Any, weight: Any, attrs: Attrs, taped: bool) -> Value:
    """`Embedding(indices, weight)` for one-dimensional concrete indices.

    Raises CaptureError for an index outside the table, which MXNet would silently clip.
    """
    numbers = [int(number) for number in host_values(batch, indices)]
    size = weight.shape[0]
    if numbers and not 0 <= min(numbers) <= max(numbers) < size:
        wrong = next(number for number in numbers if not 0 <= number < size)
        raise CaptureError(
            f"Embedding: index {wrong} in a look-up of {len(numbers)} entries, but the table has {size} rows "
            f"(0 to {size - 1}). Check the vocabulary that made the indices."
        )
    key = (id(weight), attrs, taped)
    table = batch.tables.get(key)
    if table is None:
        table = batch.tables[key] = Table(weight, attrs, dtype_name(weight), weight.context, taped)
    shape = weight.shape[1:]
    row = intern_spec(shape, table.dtype, table.device, "stack")
    rows = batch.graph.lookup_rows(table, row, numbers)
    spec = intern_spec((len(numbers), *shape), table.dtype, table.device, "rows")
    return Value(rows if len(rows) > 1 else rows[0], 0, spec, batch.graph, taped)


def host_rows(batch: Batch, array: Any, dtype: str, device: Any) -> Value:
    """A one-dimensional integer array as rows numbered by value."""
    numbers = host_values(batch, array)
    key = ("host", dtype, device)
    table = batch.tables.get(key)
    if table is None:
        table = batch.tables[key] = Table(None, (), dtype, device)
    rows = batch.graph.lookup_rows(table, intern_spec((), dtype, device, "stack"), numbers)
    spec = intern_spec((len(numbers),), dtype, device, "rows")
    return Value(rows if len(rows) > 1 else rows[0], 0, spec, batch.graph, False)
