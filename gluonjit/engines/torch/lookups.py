"""Look-ups in a table by integers that are known: each entry is a row, and equal entries are equal rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gluonjit.engines.torch.arrays import name_of_device, name_of_dtype
from gluonjit.graph import Spec, Value, intern_spec
from gluonjit.hybrid import Batch
from gluonjit.hybrid.failures import refused


class Table:
    """A weight whose rows are looked up in one batch. `attrs` are arguments of torch.nn.functional.embedding."""

    __slots__ = ("attrs", "row", "size", "taped", "weight")

    def __init__(self, weight: Any, attrs: Mapping[str, Any], taped: bool) -> None:
        self.weight = weight
        self.attrs = attrs
        self.taped = taped
        self.size = int(weight.shape[0])
        device = name_of_device(weight.device)
        self.row = intern_spec(tuple(weight.shape[1:]), name_of_dtype(weight.dtype), device, "stack")


class Integers:
    """The numbers of the host's integer tensors, as a table of themselves."""

    weight = None
    taped = False


def table_of(batch: Batch, weight: Any, attrs: tuple[tuple[str, Any], ...], taped: bool) -> Table:
    """The batch's table for a weight."""
    key = (id(weight), attrs, taped)
    table: Table | None = batch.tables.get(key)
    if table is None:
        table = batch.tables[key] = Table(weight, dict(attrs), taped)
    return table


def look_up(batch: Batch, indices: Any, table: Table) -> Value | None:
    """The entries at these indices, a tensor that is there; None where it has two dimensions or more, or none at all.

    Raises CaptureError for an index outside of the table.
    """
    if indices.dim() > 1 or not indices.numel() or indices.dtype.is_floating_point:
        return None
    listed = indices.tolist()
    single = not isinstance(listed, list)
    numbers = [listed] if single else listed
    if not 0 <= min(numbers) <= max(numbers) < table.size:
        wrong = next(number for number in numbers if not 0 <= number < table.size)
        text = (
            f"embedding: index {wrong} in a look-up of {len(numbers)} entries, but the table has {table.size} rows "
            f"(0 to {table.size - 1}): index out of range in self. Check the vocabulary that made the indices."
        )
        raise refused(IndexError, text)
    return _rows_of(batch, table, table.row, numbers, single, table.taped, None)


def host_rows(batch: Batch, tensor: Any, spec: Spec) -> Value:
    """An integer, or a one-dimensional tensor of them, as rows numbered by value."""
    key = ("host", spec.dtype, spec.device)
    table = batch.tables.get(key)
    if table is None:
        table = batch.tables[key] = Integers()
    row = intern_spec((), spec.dtype, spec.device, "stack")
    listed = tensor.tolist()
    single = not spec.shape
    return _rows_of(batch, table, row, [listed] if single else listed, single, False, tensor)


def _rows_of(batch: Batch, table: Any, row: Spec, numbers: list[int], single: bool, taped: bool, base: Any) -> Value:
    rows = batch.graph.lookup_rows(table, row, numbers)
    if single:
        return Value(rows[0], 0, row, batch.graph, taped, base)
    return Value(rows if len(rows) > 1 else rows[0], 0, row.stacked(len(rows)), batch.graph, taped, base)
