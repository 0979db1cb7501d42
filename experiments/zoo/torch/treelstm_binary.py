"""Binary Tree-LSTM (Tai, Socher and Manning 2015): words at the leaves, a forget gate for each side, a class a node."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.zoo.row import Row
from experiments.zoo.samples.trees import CLASSES, WORDS, Binary, phrases

SIZE = 16

State = tuple[Tensor, Tensor]


class Leaf(nn.Module):
    """The state of a word."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.gates = nn.Linear(size, 3 * size)

    def forward(self, word: Tensor) -> State:
        """Return (h, c)."""
        i, o, u = self.gates(word).chunk(3, -1)
        c = torch.sigmoid(i) * torch.tanh(u)
        return torch.sigmoid(o) * torch.tanh(c), c


class Compose(nn.Module):
    """The state of a phrase from those of its two parts."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.gates = nn.Linear(2 * size, 5 * size)

    def forward(self, left: State, right: State) -> State:
        """Return (h, c)."""
        (left_h, left_c), (right_h, right_c) = left, right
        i, o, u, f_left, f_right = self.gates(torch.cat([left_h, right_h], -1)).chunk(5, -1)
        c = torch.sigmoid(i) * torch.tanh(u) + torch.sigmoid(f_left) * left_c + torch.sigmoid(f_right) * right_c
        return torch.sigmoid(o) * torch.tanh(c), c


class BinaryTreeLSTM(nn.Module):
    """Scores for every phrase of a sentence, as in the Stanford Sentiment Treebank."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, SIZE)
        self.leaf, self.compose = Leaf(SIZE), Compose(SIZE)
        self.out = nn.Linear(SIZE, CLASSES)

    def forward(self, tokens: Tensor, tree: Binary) -> Tensor:
        """Return (phrases, CLASSES), in the order in which phrases end."""
        states: list[Tensor] = []
        self.encode(tree, self.embed(tokens), states)
        return self.out(torch.stack(states))

    def encode(self, tree: Binary, words: Tensor, states: list[Tensor]) -> State:
        """Return (h, c) of a phrase, and append the h of all phrases in it."""
        if isinstance(tree, tuple):
            left, right = [self.encode(part, words, states) for part in tree]
            state = self.compose(left, right)
        else:
            state = self.leaf(words[tree])
        states.append(state[0])
        return state


def loss(net: nn.Module, sample: Any) -> Tensor:
    """Return the losses of all phrases, added up."""
    tokens, tree, labels = sample
    return functional.cross_entropy(net(tokens, tree), labels, reduction="sum")


ROW = Row("treelstm-binary", "binary Tree-LSTM, a class for each phrase", BinaryTreeLSTM, phrases, loss)
