"""The same model, batched by level by hand: the baseline that the library must beat without this code.

Each level runs its inner nodes together and its leaves together. States are rows (h, c) of 2 * size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import gluon
from mxnet.gluon import nn

from experiments.bench.model import HEAD_SIZE, MEMORY_SIZE
from experiments.data.trees import Pair
from experiments.treelstm.levels import Level, Plan, plan
from experiments.treelstm.model import WORD_SIZE, ChildSumCell, Similarity


class _Part(gluon.HybridBlock):
    """A part of the cell, over all rows of a level; it shares the cell's parameters."""

    names: tuple[str, ...] = ()

    def __init__(self, cell: ChildSumCell, size: int) -> None:
        super().__init__(params=cell.params)
        self._size = size
        for name in self.names:
            setattr(self, name, self.params.get(name))

    def _cut(self, F: Any, rows: Any, first: int, count: int = 1) -> Any:
        """Cut columns out, counted in memory sizes."""
        return F.slice_axis(rows, axis=1, begin=first * self._size, end=(first + count) * self._size)

    def _state(self, F: Any, gates: Any, kept: Any = None) -> Any:
        """Return rows (h, c) from the gates i, o, u and the contribution of the children's memory."""
        c = F.Activation(self._cut(F, gates, 0), act_type="sigmoid") * F.Activation(
            self._cut(F, gates, 2), act_type="tanh"
        )
        c = c if kept is None else c + kept
        h = F.Activation(self._cut(F, gates, 1), act_type="sigmoid") * F.Activation(c, act_type="tanh")
        return F.concat(h, c, dim=1)


class Leaves(_Part):
    """The states of leaves from their words; no forget gate is needed."""

    names = ("x_weight", "x_bias")

    def hybrid_forward(self, F: Any, x: Any, x_weight: Any, x_bias: Any) -> Any:
        """Use the rows of i, o, u alone."""
        weight = F.slice_axis(x_weight, axis=0, begin=0, end=3 * self._size)
        bias = F.slice_axis(x_bias, axis=0, begin=0, end=3 * self._size)
        return self._state(F, F.FullyConnected(x, weight, bias, num_hidden=3 * self._size))


class Children(_Part):
    """The gates i, o, u that words give, and one row (h, forget * c) for each child."""

    names = ("x_weight", "x_bias", "f_weight")

    def hybrid_forward(
        self, F: Any, x: Any, below: Any, rows: Any, parents: Any, x_weight: Any, x_bias: Any, f_weight: Any
    ) -> tuple[Any, Any]:
        """Gather the states of the children from the level below."""
        from_x = F.FullyConnected(x, x_weight, x_bias, num_hidden=4 * self._size)
        states = F.take(below, rows)
        h = self._cut(F, states, 0)
        forget = F.take(self._cut(F, from_x, 3), parents)
        forget = forget + F.FullyConnected(h, f_weight, num_hidden=self._size, no_bias=True)
        kept = F.Activation(forget, act_type="sigmoid") * self._cut(F, states, 1)
        return self._cut(F, from_x, 0, 3), F.concat(h, kept, dim=1)


class Parents(_Part):
    """The states of inner nodes from their gates and the sums over their children."""

    names = ("h_weight",)

    def hybrid_forward(self, F: Any, from_x: Any, sums: Any, h_weight: Any) -> Any:
        """Add the product of the sum of the children's h."""
        total = self._cut(F, sums, 0)
        gates = from_x + F.FullyConnected(total, h_weight, num_hidden=3 * self._size, no_bias=True)
        return self._state(F, gates, self._cut(F, sums, 1))


class HandBatched(gluon.Block):
    """The model for a minibatch of pairs: a Python loop over levels."""

    def __init__(
        self,
        words: int,
        in_size: int = WORD_SIZE,
        size: int = MEMORY_SIZE,
        hidden: int = HEAD_SIZE,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._width = 2 * size
        with self.name_scope():
            self.embed = nn.Embedding(words, in_size)
            self.cell = ChildSumCell(size, in_size)
            self.head = Similarity(size, hidden)
        self.embed.weight.grad_req = "null"
        self.leaves = Leaves(self.cell, size)
        self.gather = Children(self.cell, size)
        self.parents = Parents(self.cell, size)
        for part in (self.leaves, self.gather, self.parents, self.head):
            part.hybridize()

    def forward(self, pairs: Sequence[Pair]) -> Any:
        """Return the (n, 5) log-probabilities of a minibatch."""
        left = [pair.left for pair in pairs]
        right = [pair.right for pair in pairs]
        schedule = plan(left + right)
        states, roots = self._climb(schedule)
        h = mx.nd.slice_axis(states, axis=1, begin=0, end=self._width // 2)
        return self.head(mx.nd.take(h, roots[: len(pairs)]), mx.nd.take(h, roots[len(pairs) :]))

    def _climb(self, schedule: Plan) -> tuple[Any, Any]:
        """Run all levels; return the states of the last and the rows of the roots in it."""
        indices = mx.nd.array(schedule.indices, dtype="int32")
        states, at = None, 0
        for level in schedule.levels:
            ends = np.cumsum([at, level.inner, level.leaves, level.children, level.children]).tolist()
            inner, leaves, rows, parents = (indices[a:b] if b > a else None for a, b in zip(ends, ends[1:]))
            found = []
            if level.inner:
                found.append(self._inner(level, states, inner, rows, parents))
            if level.leaves:
                found.append(self.leaves(self.embed(leaves)))
            states = mx.nd.concat(*found, dim=0) if len(found) > 1 else found[0]
            at = ends[-1]
        return states, indices[at:]

    def _inner(self, level: Level, below: Any, inner: Any, rows: Any, parents: Any) -> Any:
        """Return the states of the inner nodes of a level."""
        from_x, children = self.gather(self.embed(inner), below, rows, parents)
        return self.parents(from_x, self._sums(level, children))

    def _sums(self, level: Level, children: Any) -> Any:
        """Sum the children of each parent; parents with equally many lie together, first children first."""
        sums, at = [], 0
        for arity, count in level.blocks:
            block = mx.nd.slice_axis(children, axis=0, begin=at, end=at + arity * count)
            if arity > 1:  # a product with a row of ones is far faster than `sum` here
                flat = mx.nd.dot(mx.nd.ones((1, arity)), block.reshape((arity, -1)))
                block = flat.reshape((-1, self._width))
            sums.append(block)
            at += arity * count
        return mx.nd.concat(*sums, dim=0) if len(sums) > 1 else sums[0]
