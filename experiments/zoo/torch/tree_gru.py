"""Child-sum Tree-GRU: a reset gate for each child, one update gate; the relatedness of two sentences."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.zoo.row import Row
from experiments.zoo.samples.trees import WORDS, Tree, pairs

SIZE = 16


class TreeGRUCell(nn.Module):
    """One node, from its word and the states of its children in a list, which may be empty."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.from_word = nn.Linear(size, 3 * size)
        self.update = nn.Linear(size, size, bias=False)
        self.reset = nn.Linear(size, size, bias=False)
        self.new = nn.Linear(size, size, bias=False)

    def forward(self, word: Tensor, children: list[Tensor]) -> Tensor:
        """Return h."""
        z, r, h = self.from_word(word).chunk(3, -1)
        if not children:
            return (1 - torch.sigmoid(z)) * torch.tanh(h)
        states = torch.stack(children)
        total = states.sum(0)
        z = torch.sigmoid(z + self.update(total))
        kept = (torch.sigmoid(r + self.reset(states)) * states).sum(0)
        return z * total + (1 - z) * torch.tanh(h + self.new(kept))


class Relatedness(nn.Module):
    """A number from two sentences, each with its tree."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, SIZE)
        self.cell = TreeGRUCell(SIZE)
        self.head = nn.Sequential(nn.Linear(2 * SIZE, SIZE), nn.ReLU(), nn.Linear(SIZE, 1))

    def forward(self, left: Tensor, left_tree: Tree, right: Tensor, right_tree: Tree) -> Tensor:
        """Return a number without axes."""
        one = self.encode(left_tree, self.embed(left))
        two = self.encode(right_tree, self.embed(right))
        return self.head(torch.cat([one * two, (one - two).abs()])).squeeze(-1)

    def encode(self, tree: Tree, words: Tensor) -> Tensor:
        """Return h of a tree over the rows of `words`."""
        index, children = tree
        return self.cell(words[index], [self.encode(child, words) for child in children])


def loss(net: nn.Module, sample: Any) -> Tensor:
    """Return the loss of one pair."""
    *sides, score = sample
    return functional.mse_loss(net(*sides), score)


ROW = Row("tree-gru", "child-sum Tree-GRU over pairs of sentences", Relatedness, pairs, loss)
