"""Child-sum Tree-GRU: a reset gate for each child, one update gate; the relatedness of two sentences."""

from __future__ import annotations

from typing import Any

import mxnet as mx
from mxnet import gluon
from mxnet.gluon import nn

from experiments.zoo.row import Row
from experiments.zoo.samples.trees import WORDS, Tree, pairs

SIZE = 16


class TreeGRUCell(gluon.HybridBlock):
    """One node, from its word and the states of its children in a list, which may be empty."""

    def __init__(self, size: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.from_word = nn.Dense(3 * size)
            self.update = nn.Dense(size, use_bias=False, in_units=size)
            self.reset = nn.Dense(size, use_bias=False, in_units=size)
            self.new = nn.Dense(size, use_bias=False, in_units=size)

    def hybrid_forward(self, F: Any, word: Any, children: list[Any]) -> Any:
        """Return h."""
        z, r, h = F.split(self.from_word(word), num_outputs=3, axis=1)
        if not children:
            return (1 - F.sigmoid(z)) * F.tanh(h)
        total = F.add_n(*children)
        z = F.sigmoid(z + self.update(total))
        kept = F.add_n(*[F.sigmoid(r + self.reset(child)) * child for child in children])
        return z * total + (1 - z) * F.tanh(h + self.new(kept))


class Relatedness(gluon.Block):
    """A number from two sentences, each with its tree."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.embed = nn.Embedding(WORDS, SIZE)
            self.cell = TreeGRUCell(SIZE)
            self.hidden = nn.Dense(SIZE, activation="relu")
            self.out = nn.Dense(1)

    def forward(self, left: Any, left_tree: Tree, right: Any, right_tree: Tree) -> Any:
        """Return (1, 1)."""
        one = self.encode(left_tree, self.embed(left))
        two = self.encode(right_tree, self.embed(right))
        return self.out(self.hidden(mx.nd.concat(one * two, mx.nd.abs(one - two), dim=1)))

    def encode(self, tree: Tree, words: Any) -> Any:
        """Return h of a tree over the rows of `words`."""
        index, children = tree
        return self.cell(words[index].expand_dims(0), [self.encode(child, words) for child in children])


_loss = gluon.loss.L2Loss()


def loss(net: gluon.Block, sample: Any) -> Any:
    """Return the loss of one pair."""
    *sides, score = sample
    return _loss(net(*sides), score)


ROW = Row("tree-gru", "child-sum Tree-GRU over pairs of sentences", Relatedness, pairs, loss)
