"""The example of the README: a number from a sentence with its tree, in one Module with recursion in a method."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from experiments.zoo.row import Row
from experiments.zoo.samples.trees import Tree, rated


class TreeModel(nn.Module):
    """One layer for words, one for children, whose sum is 0 if there are none."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(1000, 32), nn.Linear(64, 1)
        self.word, self.child = nn.Linear(32, 64), nn.Linear(64, 64, bias=False)

    def forward(self, tokens: Tensor, tree: Tree) -> Tensor:
        """Return (1,)."""
        return self.head(self.encode(tree, self.embed(tokens)))

    def encode(self, node: Tree, words: Tensor) -> Tensor:
        """Return the state of a tree over the rows of `words`."""
        index, children = node
        below = sum(self.child(self.encode(child, words)) for child in children)
        return torch.tanh(self.word(words[index]) + below)


def loss(net: nn.Module, sample: Any) -> Tensor:
    """Return the loss of one sentence."""
    tokens, tree, y = sample
    return nn.functional.mse_loss(net(tokens, tree), y)


ROW = Row("readme-tree", "the README's example, operators in a recursion", TreeModel, rated, loss, scale=0.3)
