"""Look-ups in a table by known integers: each entry is a row, and equal entries are equal rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import torch

from gluonjit.engines.torch.framework.applying import applied
from gluonjit.engines.torch.framework.arrays import by_one_thread, spec_of
from gluonjit.engines.torch.framework.buffers import note_versions
from gluonjit.engines.torch.run.chunks import Chunk
from gluonjit.graph import Spec, Value, intern_spec, mode_of
from gluonjit.graph.entries import rows_of
from gluonjit.graph.joining import same_rows
from gluonjit.graph.references import table_rows
from gluonjit.hybrid.capture import tables
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.state import Results, placed

_MANY = 1 << 21  # numbers that are looked up at once by as many threads as PyTorch takes


class _LookedUp(torch.autograd.Function):  # type: ignore[misc]
    """Entries of a table. Samples may be differentiated one by one as well as together: none of them frees anything."""

    @staticmethod
    def forward(ctx: Any, weight: Any, index: Any, attrs: Mapping[str, Any]) -> Any:
        """Looks them up. What autograd saved it would free."""
        ctx.set_materialize_grads(False)
        ctx.given = index, weight.shape[0], attrs
        return torch.embedding(weight, index, **attrs)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        """The gradient of the table."""
        if gradient is None:  # backward does not come from any of them
            return None, None, None
        index, size, attrs = ctx.given
        options = attrs.get("padding_idx", -1), attrs.get("scale_grad_by_freq", False), attrs.get("sparse", False)
        return torch.ops.aten.embedding_backward(gradient, index, size, *options), None, None


def looked_up(weight: Any, index: Any, attrs: Mapping[str, Any]) -> Any:
    """Entries of a table, with their history where that is recorded."""
    if index.numel() * weight.shape[-1] <= _MANY:
        return by_one_thread(_look_up, weight, index, attrs)
    return _look_up(weight, index, attrs)


def _look_up(weight: Any, index: Any, attrs: Mapping[str, Any]) -> Any:
    if torch.is_grad_enabled() and weight.requires_grad:
        return applied(_LookedUp, weight, index, attrs)
    return torch.embedding(weight, index, **attrs)


class Table(tables.Table):
    """A weight. `attrs` are arguments of torch.nn.functional.embedding; `whole`: the weight, which entries show."""

    whole: Any = None
    look = staticmethod(spec_of)

    def __init__(self, batch: Batch, *key: Any) -> None:
        super().__init__(batch, *key)
        self.attrs = dict(self.attrs)
        note_versions(batch, key[:1])

    def number(self, places: Sequence[Any]) -> int:
        """Returns the number of the entry at these places, one for each dimension; -1 where there is none."""
        number = 0
        for place, size in zip(places, self.sizes):
            if place.__class__ is not int or not -size <= place < size:
                return -1
            number = number * size + place % size
        return number

    @property
    def fits(self) -> bool:
        """True if an entry is a row of the weight, in plain memory."""
        weight = self.weight
        return weight.dim() == 2 and self.dims == 1 and weight.is_contiguous() and not weight.is_neg()

    def entries(self, numbers: Any) -> Any:
        """The entries of these numbers, a tensor, with their history where that is recorded."""
        weight = self.weight
        if weight.dim() == 2 and self.dims == 1:
            return looked_up(weight, numbers, self.attrs)
        flat = weight.reshape(self.size, prod(self.row.shape))
        return looked_up(flat, numbers, self.attrs).reshape(-1, *self.row.shape)


class Carried(tables.Table):
    """Rows that an earlier flush left, as a table: each is a row of what comes now, and none becomes a tensor.

    entered: the rows of the open graph that those have which it reads, by number.
    """

    fits = True
    look = staticmethod(spec_of)

    def __init__(self, batch: Batch, chunk: Chunk, taped: bool) -> None:
        super().__init__(batch, chunk.tensor, (), taped)
        self.chunk = chunk
        self.entered = batch.graph.entries(self, self.row)

    def entries(self, numbers: Any) -> Any:
        """The rows of these numbers, a tensor, with their history where that is recorded."""
        return self.chunk.taken(numbers.tolist())


def carried(batch: Batch, value: Value) -> Value | None:
    """The result of an earlier flush as rows of what that left; None if they are not rows of one step."""
    spec = value.spec
    if value.result is not None:
        chunk, first = value.result
        numbers: Sequence[int] = range(first, first + spec.rows)
    else:
        owner = getattr(value.graph, "owner", None)
        found = owner.session.left(*placed(value, owner)) if isinstance(owner, Results) else None
        if found is None:
            return None
        chunk, numbers = found
    taped = value.taped and torch.is_grad_enabled() and chunk.tensor.requires_grad
    table = batch.tables.get((id(chunk), taped))
    if table is None:
        table = batch.tables[id(chunk), taped] = Carried(batch, chunk, taped)
    if taped:
        chunk.readers.taken.update(numbers)
    rows = rows_of(batch.graph, table.entered, numbers)
    return Value(rows if len(rows) > 1 else rows[0], 0, spec, batch.graph, taped)


def look_up(batch: Batch, indices: Any, table: Table) -> Value | None:
    """Returns the entries at these indices, an existing tensor; None if they are not one, or in one line.

    Raises CaptureError for an index outside of the table.
    """
    shape = tuple(indices.shape)
    if prod(shape[:-1]) != 1 or not indices.numel() or indices.dtype.is_floating_point:
        return None
    listed = (indices if len(shape) < 2 else indices.reshape(-1)).tolist()
    single = not isinstance(listed, list)
    numbers = [listed] if single else listed
    table.check("embedding", numbers)
    found = entries(batch, table, table.row, numbers, single, table.taped)
    if len(shape) < 2:
        return found
    row = table.row
    whole_shape = (*shape, *row.shape)
    return same_rows(found, intern_spec(whole_shape, row.dtype, row.device, mode_of(len(shape))), found.rows)


def host_rows(batch: Batch, tensor: Any, row: Spec) -> Value:
    """An integer, or a one-dimensional tensor of them, as rows numbered by value, each of which looks like `row`."""
    listed = tensor.tolist()
    single = listed.__class__ is not list
    table = batch.host_table(row.dtype, row.device)
    return entries(batch, table, row, [listed] if single else listed, single, False, tensor)


def numbers_of(batch: Batch, dtype: str) -> tuple[dict[Any, int], Spec]:
    """The rows of the host's numbers of this dtype, by number, and how one looks."""
    row = intern_spec((), dtype, "cpu", "stack")
    return batch.graph.entries(batch.host_table(dtype, "cpu"), row), row


def entries(
    batch: Batch, table: Any, row: Spec, numbers: list[int], single: bool, taped: bool, base: Any = None
) -> Value:
    """The entries of these numbers, or a `single` one, each of which looks like `row`."""
    if single:
        return Value(
            rows_of(batch.graph, batch.graph.entries(table, row), numbers)[0], 0, row, batch.graph, taped, base
        )
    return table_rows(batch.graph, table, row, numbers, taped, base)
