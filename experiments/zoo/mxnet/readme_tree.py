"""The example of the README: a number from a sentence with its tree, whose nodes are calls of a HybridBlock."""

from __future__ import annotations

from typing import Any

from mxnet import gluon

from experiments.zoo.row import Row
from experiments.zoo.samples.trees import Tree, rated


class Cell(gluon.HybridBlock):
    """One node of a tree: its word and any number of children."""

    def __init__(self) -> None:
        super().__init__()
        self.word, self.child = gluon.nn.Dense(64), gluon.nn.Dense(64, use_bias=False, in_units=64)

    def hybrid_forward(self, F: Any, word: Any, *children: Any) -> Any:
        """Return the state of a node, (1, 64)."""
        return F.tanh(self.word(word) + (self.child(F.add_n(*children)) if children else 0))


class TreeModel(gluon.Block):
    """One look-up for the sentence, then plain recursion."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.cell, self.head = gluon.nn.Embedding(1000, 32), Cell(), gluon.nn.Dense(1)

    def forward(self, tokens: Any, tree: Tree) -> Any:
        """Return (1, 1)."""
        return self.head(self.encode(tree, self.embed(tokens)))

    def encode(self, node: Tree, words: Any) -> Any:
        """Return the state of a tree over the rows of `words`."""
        index, children = node
        return self.cell(words[index : index + 1], *[self.encode(child, words) for child in children])


_loss = gluon.loss.L2Loss()


def loss(net: gluon.Block, sample: Any) -> Any:
    """Return the loss of one sentence."""
    tokens, tree, y = sample
    return _loss(net(tokens, tree), y)


ROW = Row("readme-tree", "the README's example, the node a HybridBlock", TreeModel, rated, loss, scale=0.3)
