"""Matrix-vector recursive network (Socher et al. 2012): each phrase is a vector and a matrix that acts on others."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.zoo.row import Row
from experiments.zoo.samples.trees import FEW_CLASSES, WORDS, Binary, binary_sentences

SIZE = 6

State = tuple[Tensor, Tensor]


class Compose(nn.Module):
    """A phrase from two parts, each (vector (size,), matrix (size, size))."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.vector = nn.Linear(2 * size, size)
        self.matrix = nn.Parameter(torch.empty(size, 2 * size))
        nn.init.xavier_uniform_(self.matrix)

    def forward(self, left: State, right: State) -> State:
        """Return (vector, matrix): each side's matrix changes the other's vector."""
        (a, a_matrix), (b, b_matrix) = left, right
        vector = torch.tanh(self.vector(torch.cat([b_matrix @ a, a_matrix @ b])))
        return vector, self.matrix @ torch.cat([a_matrix, b_matrix])


class MVRNN(nn.Module):
    """The class of a sentence."""

    def __init__(self) -> None:
        super().__init__()
        self.vectors = nn.Embedding(WORDS, SIZE)
        self.matrices = nn.Embedding(WORDS, SIZE * SIZE)
        self.compose = Compose(SIZE)
        self.out = nn.Linear(SIZE, FEW_CLASSES)

    def forward(self, tokens: Tensor, tree: Binary) -> Tensor:
        """Return the scores of the classes, (FEW_CLASSES,)."""
        matrices = self.matrices(tokens).view(-1, SIZE, SIZE)
        vector, _ = self.encode(tree, self.vectors(tokens), matrices)
        return self.out(vector)

    def encode(self, tree: Binary, vectors: Tensor, matrices: Tensor) -> State:
        """Return (vector, matrix) of a phrase."""
        if isinstance(tree, tuple):
            left, right = [self.encode(part, vectors, matrices) for part in tree]
            return self.compose(left, right)
        return vectors[tree], matrices[tree]


def loss(net: nn.Module, sample: Any) -> Tensor:
    """Return the loss of one sentence."""
    tokens, tree, label = sample
    return functional.cross_entropy(net(tokens, tree), label)


ROW = Row("mv-rnn", "matrix-vector recursive network", MVRNN, binary_sentences, loss)
