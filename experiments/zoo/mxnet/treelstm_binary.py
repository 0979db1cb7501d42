"""Binary Tree-LSTM (Tai, Socher and Manning 2015): words at the leaves, a forget gate for each side, a class a node."""

from __future__ import annotations

from typing import Any

import mxnet as mx
from mxnet import gluon
from mxnet.gluon import nn

from experiments.zoo.row import Row
from experiments.zoo.samples.trees import CLASSES, WORDS, Binary, phrases

SIZE = 16


class Leaf(gluon.HybridBlock):
    """The state of a word."""

    def __init__(self, size: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.gates = nn.Dense(3 * size)

    def hybrid_forward(self, F: Any, word: Any) -> Any:
        """Return (h, c)."""
        i, o, u = F.split(self.gates(word), num_outputs=3, axis=1)
        c = F.sigmoid(i) * F.tanh(u)
        return F.sigmoid(o) * F.tanh(c), c


class Compose(gluon.HybridBlock):
    """The state of a phrase from those of its two parts."""

    def __init__(self, size: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.gates = nn.Dense(5 * size)

    def hybrid_forward(self, F: Any, left: Any, right: Any) -> Any:
        """Return (h, c)."""
        gates = self.gates(F.concat(left[0], right[0], dim=1))
        i, o, u, f_left, f_right = F.split(gates, num_outputs=5, axis=1)
        c = F.sigmoid(i) * F.tanh(u) + F.sigmoid(f_left) * left[1] + F.sigmoid(f_right) * right[1]
        return F.sigmoid(o) * F.tanh(c), c


class BinaryTreeLSTM(gluon.Block):
    """Scores for every phrase of a sentence, as in the Stanford Sentiment Treebank."""

    def __init__(
        self, words: int = WORDS, classes: int = CLASSES, in_size: int = SIZE, size: int = SIZE, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.embed = nn.Embedding(words, in_size)
            self.leaf = Leaf(size)
            self.compose = Compose(size)
            self.out = nn.Dense(classes)

    def forward(self, tokens: Any, tree: Binary) -> Any:
        """Return (phrases, classes), in the order in which phrases end."""
        words = self.embed(tokens)
        phrases: list[Any] = []
        self.encode(tree, words, phrases)
        return self.out(mx.nd.concat(*phrases, dim=0))

    def encode(self, tree: Binary, words: Any, phrases: list[Any]) -> Any:
        """Return (h, c) of a phrase, and append the h of all phrases in it."""
        if isinstance(tree, tuple):
            left, right = [self.encode(part, words, phrases) for part in tree]
            state = self.compose(left, right)
        else:
            state = self.leaf(words[tree : tree + 1])
        phrases.append(state[0])
        return state


_loss = gluon.loss.SoftmaxCrossEntropyLoss()


def loss(net: gluon.Block, sample: Any) -> Any:
    """Return the losses of all phrases, added up."""
    tokens, tree, labels = sample
    return _loss(net(tokens, tree), labels).sum()


ROW = Row("treelstm-binary", "binary Tree-LSTM, a class for each phrase", BinaryTreeLSTM, phrases, loss)
