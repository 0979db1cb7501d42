"""Binary Tree-LSTM (Tai, Socher and Manning 2015) for one sentence: a class for each of its phrases."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.data.phrases import Sentence

State = tuple[Tensor, Tensor]


class Leaf(nn.Module):
    """The state of a word."""

    def __init__(self, in_size: int, size: int) -> None:
        super().__init__()
        self.gates = nn.Linear(in_size, 3 * size)

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
        i, o, u, f_left, f_right = self.gates(torch.cat([left[0], right[0]], -1)).chunk(5, -1)
        c = torch.sigmoid(i) * torch.tanh(u) + torch.sigmoid(f_left) * left[1] + torch.sigmoid(f_right) * right[1]
        return torch.sigmoid(o) * torch.tanh(c), c


class BinaryTreeLSTM(nn.Module):
    """Scores for every phrase of a sentence; the word vectors stay fixed."""

    def __init__(self, words: int, classes: int, in_size: int, size: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, in_size)
        self.leaf = Leaf(in_size, size)
        self.compose = Compose(size)
        self.out = nn.Linear(size, classes)
        self.embed.weight.requires_grad_(False)

    def forward(self, sample: Sentence) -> Tensor:
        """Return (phrases, classes), in the order in which phrases end."""
        words = self.embed(sample.tokens)
        phrases: list[Tensor] = []
        self.encode(sample.tree, words, phrases)
        return self.out(torch.stack(phrases))

    def encode(self, tree: Any, words: Tensor, phrases: list[Tensor]) -> State:
        """Return (h, c) of a phrase, and append the h of all phrases in it."""
        if isinstance(tree, tuple):
            left, right = [self.encode(part, words, phrases) for part in tree]
            state = self.compose(left, right)
        else:
            state = self.leaf(words[tree])
        phrases.append(state[0])
        return state


def loss(net: nn.Module, sample: Sentence) -> Tensor:
    """Return the losses of all phrases, added up."""
    return functional.cross_entropy(net(sample), sample.target, reduction="sum")
