"""The same model as a plain Block with its own Parameters, in the style of MXNet's Tree-LSTM example.

The recursion contains no HybridBlock: dynamic batching sees operators, or nodes that `gluonjit.cell` marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import mxnet as mx
from mxnet import gluon

import gluonjit
from experiments.bench.model import MEMORY_SIZE
from experiments.data.trees import Pair, Tree
from experiments.treelstm.model import WORD_SIZE, Relatedness, State


class PlainTreeLSTM(gluon.Block):
    """Recursion through `forward`, gates by operators of `F`, weights by `data()`."""

    def __init__(self, size: int = MEMORY_SIZE, in_size: int = WORD_SIZE, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._size = size
        with self.name_scope():
            self.x_weight = self.params.get("x_weight", shape=(4 * size, in_size))
            self.x_bias = self.params.get("x_bias", shape=(4 * size,))
            self.h_weight = self.params.get("h_weight", shape=(3 * size, size))
            self.f_weight = self.params.get("f_weight", shape=(size, size))

    def forward(self, F: ModuleType, inputs: Any, tree: Tree) -> State:
        """Return (h, c) of the root of a tree over the rows of `inputs`."""
        states = [self.forward(F, inputs, child) for child in tree.children]
        return self.node(F, F.expand_dims(inputs[tree.index], axis=0), states)

    def node(self, F: ModuleType, x: Any, states: Sequence[State]) -> State:
        """Return (h, c) of a node from its word and the states of its children."""
        from_x = F.FullyConnected(x, self.x_weight.data(), self.x_bias.data(), num_hidden=4 * self._size)
        i, o, u, forget = F.split(from_x, num_outputs=4, axis=1)
        if states:
            total = F.add_n(*[h for h, _ in states])
            from_h = F.FullyConnected(total, self.h_weight.data(), num_hidden=3 * self._size, no_bias=True)
            i_h, o_h, u_h = F.split(from_h, num_outputs=3, axis=1)
            i, o, u = i + i_h, o + o_h, u + u_h
        c = F.Activation(i, act_type="sigmoid") * F.Activation(u, act_type="tanh")
        if states:
            c = F.add_n(c, *[self._kept(F, forget, h, memory) for h, memory in states])
        return F.Activation(o, act_type="sigmoid") * F.Activation(c, act_type="tanh"), c

    def _kept(self, F: ModuleType, forget: Any, h: Any, memory: Any) -> Any:
        """Return what is kept of one child's memory."""
        from_h = F.FullyConnected(h, self.f_weight.data(), num_hidden=self._size, no_bias=True)
        return F.Activation(forget + from_h, act_type="sigmoid") * memory


class PlainCellTreeLSTM(PlainTreeLSTM):
    """The same with its node function declared a cell."""

    node = gluonjit.cell(PlainTreeLSTM.node)


class PlainRelatedness(Relatedness):
    """The whole model around a plain encoder."""

    def forward(self, pair: Pair) -> Any:
        """Return the (1, 5) log-probabilities of a pair."""
        left, _ = self.tree(mx.nd, self.embed(pair.left.tokens), pair.left.root)
        right, _ = self.tree(mx.nd, self.embed(pair.right.tokens), pair.right.root)
        return self.head(left, right)
