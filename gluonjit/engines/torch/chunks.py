"""Flushed rows that somebody can still read: with those of their step, and taken apart when they are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from gluonjit.graph import Spec


class Chunk:
    """All rows of one result of a step. `tensor` has their history once the flush is over.

    size: rows of each node's value, 0 where they are not equally many.
    """

    __slots__ = ("name", "pieces", "size", "tensor")

    def __init__(self, tensor: Any, size: int, name: str) -> None:
        self.tensor = tensor
        self.size = size
        self.name = name
        self.pieces: Any = None

    def value(self, spec: Spec, row: int) -> Any:
        """The value of this spec that begins at a row."""
        if self.size and spec.rows == self.size and row % self.size == 0 and self.tensor.requires_grad:
            if self.pieces is None:
                # Each by a slice of its own would cost a gradient of the whole chunk for each.
                self.pieces = Pieces.apply(self.tensor, self.size)
            found = self.pieces[row // self.size]
        else:
            found = self.tensor[row : row + spec.rows]
        return found if spec.mode == "rows" else found.reshape(spec.shape)

    def rows(self, offsets: Sequence[int]) -> Any:
        """Some of the rows."""
        return self.tensor[torch.tensor(offsets, device=self.tensor.device)]


class Result(NamedTuple):
    """Where a flushed value lies: rows of a chunk from `row` on."""

    chunk: Chunk
    row: int


class Pieces(torch.autograd.Function):  # type: ignore[misc]
    """A chunk as tensors of so many rows, none of which is a view."""

    @staticmethod
    def forward(ctx: Any, rows: Any, size: int) -> Any:
        """Take it apart."""
        ctx.set_materialize_grads(False)
        ctx.like = rows.new_empty(0).expand(0)
        ctx.shape, ctx.size = rows.shape, size
        return tuple([part.clone() for part in rows.split(size)])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Put the gradients together."""
        whole = ctx.like.new_zeros(ctx.shape)
        for number, gradient in enumerate(gradients):
            if gradient is not None:
                whole[number * ctx.size : (number + 1) * ctx.size] = gradient
        return whole, None


def chunk_of(rows: Any, size: int, name: str) -> Chunk:
    """A chunk of these rows."""
    return Chunk(rows, size, name)
