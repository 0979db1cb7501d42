"""Indexing by known integers: rows are references, entries of a weight are looked up.

The remaining cases are captured as nodes with the numbers as operands: one kind for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import numpy as np
import torch

from gluonjit.engines.torch.capture.cells import as_lazy, captured_operator, cell_of, open_batch
from gluonjit.engines.torch.framework.buffers import is_constant
from gluonjit.engines.torch.framework.input_version import InputVersion
from gluonjit.engines.torch.framework.originals import overridden, plain
from gluonjit.engines.torch.run.one_by_one import NODES
from gluonjit.engines.torch.run.program import as_rows, joined
from gluonjit.engines.torch.values.known import known
from gluonjit.engines.torch.values.lazy import LazyTensor, as_known, noted, wrap
from gluonjit.engines.torch.values.lookups import Carried, Table, entries, numbers_of
from gluonjit.engines.torch.values.operands import current
from gluonjit.engines.torch.values.references import value_to_slice
from gluonjit.graph import Leaf, Value
from gluonjit.graph.entries import number_in
from gluonjit.graph.references import indexed, row
from gluonjit.graph.slices import Key, picked
from gluonjit.hybrid.capture.structure import Args, Kwargs, map_structure
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.decided import DecidedValues, NeedsMore, batch_to_ask
from gluonjit.hybrid.run.places import are_many
from gluonjit.hybrid.run.state import LOCAL

_EVERYTHING = slice(None)


def decided(lazy: Any) -> Any:
    """The numbers of a pending tensor, if they follow from inputs by a few calls, for who reads them; else None."""
    batch = batch_to_ask()
    if batch is None:
        return None
    value = current(lazy)
    if value.spec.device != "cpu":
        return None
    with plain():
        found = _Values.of(batch, value)
    return found if found is None or value.spec.mode == "rows" else found.reshape(value.spec.shape)


def read_decided(args: Args) -> tuple[Any, ...]:
    """Arguments of a function that reads numbers, with those that follow from inputs in place of pending tensors."""
    return map_structure(args, _read)  # type: ignore[no-any-return]


def _read(item: Any) -> Any:
    found = decided(item) if item.__class__ is LazyTensor and item._c is None else None
    return item if found is None else found


class _Values(DecidedValues):
    """Computes values one by one, by PyTorch's own operators."""

    runner, joined, as_rows = NODES, staticmethod(joined), staticmethod(as_rows)

    def leaf_rows(self, leaf: Leaf) -> Any:
        held = leaf.payload
        if (
            leaf.taped
            or held.__class__ is not InputVersion
            or held.stale
            or isinstance(held.tensor, torch.nn.Parameter)
        ):
            raise NeedsMore
        return as_rows(held.rows, leaf.spec)

    def entry_rows(self, table: Any, entries: Sequence[Any]) -> Any:
        """Those that an earlier flush left, too."""
        if table.__class__ is Carried and not table.taped:
            return table.weight[entries]
        return super().entry_rows(table, entries)


def opened(key: Any, shape: Sequence[int]) -> Any:
    """Returns a key of `[]` with integers for known tensors, or computed tensors of one axis or more.

    Truth values are the places where they hold. None where something in it waits, or where truth values are not those
    of axes of this shape, which PyTorch refuses.
    """
    if key.__class__ is list and not all([type(number) in (int, bool) for number in key]):
        return None  # PyTorch may take it for a tuple
    parts = []
    axis, given = 0, key if key.__class__ is tuple else (key,)
    for number, part in enumerate(given):
        kind = part.__class__
        if kind is LazyTensor or kind is torch.Tensor:
            tensor = known(part)
            if tensor is None and kind is LazyTensor and part.dtype in (torch.bool, torch.uint8):
                tensor = decided(part)  # how many there are decides the shape: it must be read
            if tensor is None:
                return None
            if tensor.dtype is torch.bool or tensor.dtype is torch.uint8:
                if not tensor.dim() or tensor.shape != shape[axis : axis + tensor.dim()]:
                    return None
                parts += tensor.nonzero(as_tuple=True)
            else:
                parts.append(tensor if tensor.dim() else int(tensor))
        elif kind is list or kind is np.ndarray:
            tensor = torch.as_tensor(part) if len(part) else None
            if tensor is None or tensor.dtype is not torch.int64:
                return None
            parts.append(tensor)
        elif kind is slice:
            ends = [_number(end) for end in (part.start, part.stop, part.step)]
            if any(end is NotImplemented for end in ends):
                return None
            parts.append(slice(*ends))
        elif part is None or part is Ellipsis or (isinstance(part, (int, np.integer)) and kind is not bool):
            parts.append(int(part) if isinstance(part, np.integer) else part)
        else:
            return None
        axis = len(shape) - sum(map(_axes, given[number + 1 :])) if part is Ellipsis else axis + _axes(part)
    return tuple(parts)


def _axes(part: Any) -> int:
    """The number of axes that a part of a key is for."""
    if isinstance(part, torch.Tensor) and (part.dtype is torch.bool or part.dtype is torch.uint8):
        return int(part.dim())
    return int(part is not None)


def _number(end: Any) -> Any:
    if end.__class__ is LazyTensor or end.__class__ is torch.Tensor:
        tensor = known(end)
        return NotImplemented if tensor is None or tensor.dim() else int(tensor)
    return end


def index(batch: Batch, args: Args, kwargs: Kwargs) -> Any:
    """Returns `tensor[key]` by what is known; None if it must be captured unchanged."""
    if len(args) != 2 or kwargs:
        return None
    tensor, given = args
    key = opened(given, tensor.shape)
    if key is None:
        return None
    by_arrays = any(part.__class__ is torch.Tensor for part in key)
    if tensor.__class__ is not LazyTensor:
        found = _of_weight(batch, tensor, key)
        if found is not None or tensor.is_leaf or not by_arrays:
            return found
    value = value_to_slice(batch, tensor)
    if value is None:
        return None
    if not by_arrays:
        parts = given if given.__class__ is tuple else (given,)
        return _view(batch, tensor, value, key, any(isinstance(part, torch.Tensor) for part in parts))
    found = _rows(batch, value, key)
    return captured_operator(torch.Tensor.__getitem__, (tensor, key)) if found is None else found


def select(batch: Batch, args: Args, kwargs: Kwargs) -> Any:
    """`tensor.index_select(0, index)` by what is known."""
    if len(args) != 3 or kwargs or args[1] != 0:
        return None
    numbers = known(args[2])
    if numbers is None or numbers.dim() != 1 or (numbers < 0).any():
        return None
    return index(batch, (args[0], numbers), {})


def select_where(batch: Batch, args: Args, kwargs: Kwargs) -> Any:
    """`tensor.masked_select(mask)` by a known mask, which has no more axes or entries than the tensor."""
    if len(args) != 2 or kwargs or not isinstance(args[0], torch.Tensor):
        return None
    mask, shape = known(args[1]), args[0].shape
    if mask is None or mask.dtype is not torch.bool or mask.dim() > len(shape) or not len(shape):
        return None
    if any(one not in (1, other) for one, other in zip(reversed(mask.shape), reversed(shape))):
        return None
    return index(batch, (args[0], mask.expand(shape)), {})


def _rows(batch: Batch, value: Value, key: tuple[Any, ...]) -> Any:
    """Rows by an array of numbers, and of each an entry by another array."""
    arrays = list(takewhile(lambda part: part.__class__ is torch.Tensor, key))
    first = arrays[0] if arrays else None
    if first is None or first.dim() != 1 or any(part.shape != first.shape for part in arrays):
        return None
    if any(part.__class__ is not slice or part != _EVERYTHING for part in key[len(arrays) :]):
        return None
    found = picked(value, first.tolist())
    if found is None:
        return None
    rows = wrap(found)
    for part in arrays[1:]:
        size = rows.shape[1]
        _check(part.tolist(), size)
        rows = captured_operator(entry_of_each, (rows, as_known(part % size)))
    return rows


def _view(batch: Batch, tensor: Any, value: Value, key: tuple[Any, ...], changed: bool) -> Any:
    """Takes a row by integers and slices, and of that an entry."""
    found = indexed(value, key, ())
    if found is not None:
        return noted(wrap(found), tensor, key[0] if len(key) == 1 and key[0].__class__ is int else Key(key))
    if not key or any(part.__class__ is not int for part in key) or len(key) > len(value.spec.shape):
        return captured_operator(torch.Tensor.__getitem__, (tensor, key)) if changed else None
    numbers = list(key)
    if value.spec.mode == "rows":
        first = row(value, numbers.pop(0), ())
        assert first is not None
        value = first
    if not changed and not are_many(value.spec, key):
        return None
    known_numbers = numbers_of(batch, "int64")
    for number in numbers:
        size = value.spec.shape[0]
        _check([number], size)
        batch.operands.setdefault(ENTRY, {})[value.spec, int] = known_numbers  # C does the same from here on
        value = captured_operator(entry, (wrap(value), wrap(number_in(batch.graph, known_numbers, number % size))))._v
    return noted(wrap(value), tensor, Key(key))


def _check(numbers: list[int], size: int) -> None:
    for number in numbers:
        if not -size <= number < size:
            raise IndexError(f"x[...]: index {number} is out of bounds for size {size}: give {-size} to {size - 1}")


def entry(tensor: Any, number: Any) -> Any:
    """`tensor[number]`, of which backward saves nothing, as of a view."""
    return tensor.index_select(0, number.reshape(1)).squeeze(0)


ENTRY = cell_of(entry, entry.__name__)


def entry_of_each(rows: Any, numbers: Any) -> Any:
    """Takes one entry of each row, by the row's number."""
    rest = rows.shape[2:]
    return rows.gather(1, numbers.reshape(-1, 1, *[1] * len(rest)).expand(-1, 1, *rest)).squeeze(1)


def _of_weight(batch: Batch, tensor: Any, key: tuple[Any, ...]) -> Any:
    """Entries of a weight by numbers: they are looked up. Of another tensor they are taken at once."""
    if not isinstance(tensor, torch.nn.Parameter) and not tensor.requires_grad:
        return as_lazy(tensor[key])
    dims = len([part for part in key if part.__class__ is int or part.__class__ is torch.Tensor])
    arrays = [part for part in key[:dims] if part.__class__ is torch.Tensor]
    if not is_constant(batch, tensor) or not tensor.is_leaf or tensor.dim() < dims:
        return None
    if any(part.__class__ is not slice or part != _EVERYTHING for part in key[dims:]) or not dims:
        return None
    if any(part.dim() != 1 or part.shape != arrays[0].shape or not part.numel() for part in arrays):
        return None
    count = len(arrays[0]) if arrays else 1
    places = [part.tolist() if part.__class__ is torch.Tensor else [part] * count for part in key[:dims]]
    for listed, size in zip(places, tensor.shape):
        _check(listed, size)
    table = Table.of(batch, tensor, (), torch.is_grad_enabled() and tensor.requires_grad, dims)
    found = wrap(entries(batch, table, table.row, list(map(table.number, zip(*places))), not arrays, table.taped))
    if arrays:
        return found
    if table.whole is None:
        table.whole = as_known(tensor)
    return noted(found, table.whole, Key(key))


def entry_of_weight(weight: Any, key: Any) -> Any:
    """`weight[key]` by known numbers inside of a sample, which is looked up; None for other keys, and elsewhere."""
    state = LOCAL.state
    if not state.inside or state.paused or state.trace is not None or state.recorded is not None or overridden():
        return None
    parts = opened(key, weight.shape)
    if parts is None or any(part.__class__ is torch.Tensor for part in parts):
        return None
    return _of_weight(open_batch(), weight, parts)
