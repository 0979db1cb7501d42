"""Matrix-vector recursive network (Socher et al. 2012): each phrase is a vector and a matrix that acts on others."""

from __future__ import annotations

from typing import Any

from mxnet import gluon
from mxnet.gluon import nn

from experiments.zoo.row import Row
from experiments.zoo.samples.trees import FEW_CLASSES, WORDS, Binary, binary_sentences

SIZE = 6


class Compose(gluon.HybridBlock):
    """A phrase from two parts, each (vector (1, SIZE), matrix (SIZE, SIZE))."""

    def __init__(self, size: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.vector = nn.Dense(size, activation="tanh")
            self.matrix = nn.Dense(size, use_bias=False)

    def hybrid_forward(self, F: Any, left: Any, right: Any) -> Any:
        """Return (vector, matrix): each side's matrix changes the other's vector."""
        (a, a_matrix), (b, b_matrix) = left, right
        changed = F.concat(F.dot(a, b_matrix, transpose_b=True), F.dot(b, a_matrix, transpose_b=True), dim=1)
        return self.vector(changed), self.matrix(F.concat(a_matrix, b_matrix, dim=1))


class MVRNN(gluon.Block):
    """The class of a sentence."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.vectors = nn.Embedding(WORDS, SIZE)
            self.matrices = nn.Embedding(WORDS, SIZE * SIZE)
            self.compose = Compose(SIZE)
            self.out = nn.Dense(FEW_CLASSES)

    def forward(self, tokens: Any, tree: Binary) -> Any:
        """Return the scores of the classes, (1, FEW_CLASSES)."""
        matrices = self.matrices(tokens).reshape((-1, SIZE, SIZE))
        vector, _ = self.encode(tree, self.vectors(tokens), matrices)
        return self.out(vector)

    def encode(self, tree: Binary, vectors: Any, matrices: Any) -> Any:
        """Return (vector, matrix) of a phrase."""
        if isinstance(tree, tuple):
            left, right = [self.encode(part, vectors, matrices) for part in tree]
            return self.compose(left, right)
        return vectors[tree : tree + 1], matrices[tree]


_loss = gluon.loss.SoftmaxCrossEntropyLoss()


def loss(net: gluon.Block, sample: Any) -> Any:
    """Return the loss of one sentence."""
    tokens, tree, label = sample
    return _loss(net(tokens, tree), label)


ROW = Row("mv-rnn", "matrix-vector recursive network", MVRNN, binary_sentences, loss)
