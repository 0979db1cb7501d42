"""Rows moved between layouts: each gradient moves back the way that the rows came, and is added where it has to be.

PyTorch's own gradients of `index_select` add row by row. Here all but `spread` give each row at most once, so that
their gradients are copies; and what is computed of padding gets no gradient.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import Function

from gluonjit.engines.torch.framework.applying import applied


class _Take(Function):  # type: ignore[misc]
    """Rows by their places, each at most once."""

    @staticmethod
    def forward(ctx: Any, rows: Any, places: Any) -> Any:
        ctx.count = rows.shape[0]
        ctx.save_for_backward(places)
        return rows.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, found: Any) -> Any:
        (places,) = ctx.saved_tensors
        return applied(_Put, found, places, None, ctx.count, 0.0), None


class _Put(Function):  # type: ignore[misc]
    """Rows at places among so many; everywhere else a number, or other rows, to which no gradient goes."""

    @staticmethod
    def forward(ctx: Any, rows: Any, places: Any, clipped: Any, count: int, number: Any) -> Any:
        ctx.save_for_backward(places)
        return _placed(rows, places, clipped, count, number)

    @staticmethod
    def backward(ctx: Any, found: Any) -> Any:
        (places,) = ctx.saved_tensors
        return applied(_Take, found, places), None, None, None, None


class _Spread(Function):  # type: ignore[misc]
    """The row of each node once for each of its rows, which begin at `begins`."""

    @staticmethod
    def forward(ctx: Any, rows: Any, owners: Any, begins: Any) -> Any:
        ctx.save_for_backward(owners, begins)
        return rows.index_select(0, owners)

    @staticmethod
    def backward(ctx: Any, found: Any) -> Any:
        return applied(_Sums, found, *ctx.saved_tensors), None, None


class _Sums(Function):  # type: ignore[misc]
    """The sum of the rows of each node."""

    @staticmethod
    def forward(ctx: Any, rows: Any, owners: Any, begins: Any) -> Any:
        ctx.save_for_backward(owners, begins)
        if rows.dtype in (torch.float32, torch.float64) and rows.numel():
            numbers = torch.arange(rows.shape[0], device=rows.device)
            flat = rows.reshape(rows.shape[0], -1)
            return torch.embedding_bag(flat, numbers, begins, mode=0)[0].view(-1, *rows.shape[1:])
        return rows.new_zeros((len(begins), *rows.shape[1:])).index_add_(0, owners, rows)

    @staticmethod
    def backward(ctx: Any, found: Any) -> Any:
        return applied(_Spread, found, *ctx.saved_tensors), None, None


def take(rows: Any, places: Any) -> Any:
    """Rows by their places, each at most once."""
    return applied(_Take, rows, places) if _learns(rows) else rows.index_select(0, places)


def put(rows: Any, places: Any, clipped: Any, count: int, number: Any) -> Any:
    """Rows at places among `count`, else a number; or as `clipped` has them, which repeats some."""
    given = rows, places, clipped, count, number
    return applied(_Put, *given) if _learns(rows) else _placed(*given)


def _placed(rows: Any, places: Any, clipped: Any, count: int, number: Any) -> Any:
    if clipped is not None:
        return rows.index_select(0, clipped)
    return rows.new_full((count, *rows.shape[1:]), number).index_copy_(0, places, rows)


def spread(rows: Any, owners: Any, begins: Any) -> Any:
    """The row of each node once for each of its rows."""
    return applied(_Spread, rows, owners, begins) if _learns(rows) else rows.index_select(0, owners)


def sums(rows: Any, owners: Any, begins: Any) -> Any:
    """The sum of the rows of each node, (nodes, ...)."""
    return applied(_Sums, rows, owners, begins)


def _learns(rows: Any) -> bool:
    return bool(rows.requires_grad and torch.is_grad_enabled())


def among(index: Any, owners: Any, begins: Any, sizes: Any, signed: bool) -> Any:
    """Indices into the rows of each node, as indices into the rows of all. Raises IndexError."""
    starts, most = [each.index_select(0, owners).view(-1, *[1] * (index.dim() - 1)) for each in (begins, sizes)]
    index = index.to(torch.int64)
    if signed:
        index = torch.where(index < 0, index + most, index)
    outside = (index < 0) | (index >= most)
    if bool(outside.any()):
        number, size = [int(each.expand_as(index)[outside][0]) for each in (index, most)]
        raise IndexError(f"index {number} is out of bounds for dimension 0 with size {size}")
    return index + starts
