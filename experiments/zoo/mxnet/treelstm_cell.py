"""Child-sum Tree-LSTM (Tai, Socher and Manning 2015) whose node is a HybridBlock: the class of a tree's root."""

from __future__ import annotations

from typing import Any

from mxnet import gluon
from mxnet.gluon import nn

from experiments.zoo.row import Row
from experiments.zoo.samples.trees import CLASSES, WORDS, Tree, sentences

SIZE = 16


class ChildSumCell(gluon.HybridBlock):
    """One node, from its word and the states of any number of children."""

    def __init__(self, size: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.from_word = nn.Dense(4 * size)
            self.from_children = nn.Dense(3 * size, use_bias=False, in_units=size)
            self.from_child = nn.Dense(size, use_bias=False, in_units=size)

    def hybrid_forward(self, F: Any, word: Any, *children: Any) -> Any:
        """Return (h, c)."""
        i, o, u, f = F.split(self.from_word(word), num_outputs=4, axis=1)
        if children:
            total = F.add_n(*[h for h, _ in children])
            more_i, more_o, more_u = F.split(self.from_children(total), num_outputs=3, axis=1)
            i, o, u = i + more_i, o + more_o, u + more_u
        c = F.sigmoid(i) * F.tanh(u)
        for child_h, child_c in children:
            c = c + F.sigmoid(f + self.from_child(child_h)) * child_c
        return F.sigmoid(o) * F.tanh(c), c


class TreeLSTM(gluon.Block):
    """One look-up for the sentence, then plain recursion."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.embed = nn.Embedding(WORDS, SIZE)
            self.cell = ChildSumCell(SIZE)
            self.out = nn.Dense(CLASSES)

    def forward(self, tokens: Any, tree: Tree) -> Any:
        """Return the scores of the classes, (1, CLASSES)."""
        h, _ = self.encode(tree, self.embed(tokens))
        return self.out(h)

    def encode(self, tree: Tree, words: Any) -> Any:
        """Return (h, c) of a tree over the rows of `words`."""
        index, children = tree
        return self.cell(words[index : index + 1], *[self.encode(child, words) for child in children])


_loss = gluon.loss.SoftmaxCrossEntropyLoss()


def loss(net: gluon.Block, sample: Any) -> Any:
    """Return the loss of one sentence."""
    tokens, tree, label = sample
    return _loss(net(tokens, tree), label)


ROW = Row("treelstm-cell", "child-sum Tree-LSTM, the node a HybridBlock", TreeLSTM, sentences, loss)
