"""Child-sum Tree-LSTM in the style of MXNet's own example: a plain Block with Parameters, recursion in `forward`.

There is no HybridBlock in the recursion, so what is captured is operators.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import mxnet as mx
from mxnet import gluon
from mxnet.gluon import nn

from experiments.zoo.mxnet.treelstm_cell import SIZE, loss
from experiments.zoo.row import Row
from experiments.zoo.samples.trees import CLASSES, WORDS, Tree, sentences


class ChildSumTreeLSTM(gluon.Block):
    """Gates by operators of `F`, weights by `data()`."""

    def __init__(self, size: int, in_size: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._size = size
        with self.name_scope():
            self.x_weight = self.params.get("x_weight", shape=(4 * size, in_size))
            self.x_bias = self.params.get("x_bias", shape=(4 * size,), init="zeros")
            self.h_weight = self.params.get("h_weight", shape=(3 * size, size))
            self.f_weight = self.params.get("f_weight", shape=(size, size))

    def forward(self, F: ModuleType, words: Any, tree: Tree) -> Any:
        """Return (h, c) of the root."""
        index, children = tree
        states = [self.forward(F, words, child) for child in children]
        return self.node(F, F.expand_dims(words[index], axis=0), states)

    def node(self, F: ModuleType, x: Any, states: Any) -> Any:
        """Return (h, c) of a node."""
        from_x = F.FullyConnected(x, self.x_weight.data(), self.x_bias.data(), num_hidden=4 * self._size)
        i, o, u, f = F.split(from_x, num_outputs=4, axis=1)
        if states:
            total = F.add_n(*[h for h, _ in states])
            from_h = F.FullyConnected(total, self.h_weight.data(), num_hidden=3 * self._size, no_bias=True)
            i_h, o_h, u_h = F.split(from_h, num_outputs=3, axis=1)
            i, o, u = i + i_h, o + o_h, u + u_h
        c = F.Activation(i, act_type="sigmoid") * F.Activation(u, act_type="tanh")
        if states:
            c = F.add_n(c, *[self.kept(F, f, state) for state in states])
        return F.Activation(o, act_type="sigmoid") * F.Activation(c, act_type="tanh"), c

    def kept(self, F: ModuleType, f: Any, state: Any) -> Any:
        """Return what is kept of a child's memory."""
        h, c = state
        from_h = F.FullyConnected(h, self.f_weight.data(), num_hidden=self._size, no_bias=True)
        return F.Activation(f + from_h, act_type="sigmoid") * c


class PlainTreeLSTM(gluon.Block):
    """The class of a tree's root."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.embed = nn.Embedding(WORDS, SIZE)
            self.tree = ChildSumTreeLSTM(SIZE, SIZE)
            self.out = nn.Dense(CLASSES)

    def forward(self, tokens: Any, tree: Tree) -> Any:
        """Return the scores of the classes, (1, CLASSES)."""
        h, _ = self.tree(mx.nd, self.embed(tokens), tree)
        return self.out(h)


ROW = Row("treelstm-plain", "child-sum Tree-LSTM of single operators", PlainTreeLSTM, sentences, loss)
