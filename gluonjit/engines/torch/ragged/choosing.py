"""Rows chosen from those of each node: by an integer, a slice, in reverse, or by indices of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gluonjit.engines.torch.arrays import sent


def begins_of(sizes: Any) -> Any:
    """Finds where the rows of each node begin, of those of all."""
    return np.cumsum(sizes) - sizes


def within(sizes: Any) -> Any:
    """Numbers the rows of each node."""
    return np.arange(sizes.sum()) - np.repeat(begins_of(sizes), sizes)


def row_of_each(rows: Any, sizes: Any, index: int) -> Any:
    """One row of each node. Raises IndexError."""
    starts = begins_of(sizes)
    if sizes.min() < (index + 1 if index >= 0 else -index):
        raise IndexError(f"index {index} is out of bounds for dimension 0 with size {sizes.min()}")
    return rows.index_select(0, sent(starts + (index if index >= 0 else sizes + index), rows.device))


def sliced(rows: Any, sizes: Any, key: slice) -> Any:
    """The rows of each node that a slice keeps."""
    starts = begins_of(sizes)
    kept = [np.arange(start, start + size)[key] for start, size in zip(starts, sizes)]
    return rows.index_select(0, sent(np.concatenate(kept), rows.device))


def reversed_rows(rows: Any, sizes: Any) -> Any:
    """The rows of each node in reverse."""
    ends = np.cumsum(sizes)
    return rows.index_select(0, sent(np.repeat(2 * ends - sizes, sizes) - 1 - np.arange(ends[-1]), rows.device))


def counted(rows: Any, sizes: Any, *kept: Any, start: int | None, step: int, most: int) -> Any:
    """Takes as many rows of each node as are kept, from a place on, one in `step`; without one the last rows.

    kept: how many of each, if that is not `most` for all.
    """
    each = kept[0] if kept else np.full(len(sizes), most)
    begins = begins_of(sizes) + (sizes - each if start is None else start if start >= 0 else sizes + start)
    return rows.index_select(0, sent(np.repeat(begins, each) + within(each) * step, rows.device))


def joined(*given: Any, fixed: tuple[int, ...], dim: int) -> Any:
    """The rows of several values, one after the other for each node.

    given: the values, then the numbers of rows of those that have no `fixed` number in each node, as which they lie as
    (nodes, *shape), with their rows at `dim` of that shape.
    """
    values, own = given[: len(fixed)], iter(given[len(fixed) :])
    nodes = len(given[-1])
    sizes = np.stack([np.full(nodes, size) if size else next(own) for size in fixed])
    rows = [value.movedim(dim + 1, 1).flatten(0, 1) if size else value for value, size in zip(values, fixed)]
    begins = begins_of(sizes.sum(0)) + np.cumsum(sizes, 0) - sizes
    flat = sizes.reshape(-1)
    ends = np.cumsum(flat)
    places = np.repeat(begins.reshape(-1) - (ends - flat), flat) + np.arange(ends[-1])
    return torch.cat(rows).index_select(0, sent(np.argsort(places), rows[0].device))


def _among_all(index: Any, owners: Any, sizes: Any, signed: bool = False) -> Any:
    """Indices into the rows of each node, as indices into the rows of all. Raises IndexError."""
    counts = sent(np.stack([begins_of(sizes), sizes]), index.device).index_select(1, owners)
    starts, most = counts.unbind(0)
    index = index.to(torch.int64)
    if signed:
        index = torch.where(index < 0, index + most, index)
    outside = (index < 0) | (index >= most)
    if bool(outside.any()):
        place = int(outside.nonzero()[0])
        raise IndexError(f"index {int(index[place])} is out of bounds for dimension 0 with size {int(most[place])}")
    return index + starts


def picked(rows: Any, index: Any, owners: Any, sizes: Any, signed: bool) -> Any:
    """The rows that each node's indices name; `signed` ones may count from the end."""
    return rows.index_select(0, _among_all(index, owners, sizes, signed))


def added(rows: Any, index: Any, source: Any, owners: Any, sizes: Any, alpha: Any) -> Any:
    """Adds rows to those that each node's indices name."""
    return rows.index_add(0, _among_all(index, owners, sizes), source, alpha=alpha)
