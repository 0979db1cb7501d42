"""Child-sum Tree-LSTM (Tai, Socher and Manning 2015) whose node is a Module: the class of a tree's root."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.zoo.row import Row
from experiments.zoo.samples.trees import CLASSES, WORDS, Tree, sentences

SIZE = 16

State = tuple[Tensor, Tensor]


class ChildSumCell(nn.Module):
    """One node, from its word and the states of any number of children."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.from_word = nn.Linear(size, 4 * size)
        self.from_children = nn.Linear(size, 3 * size, bias=False)
        self.from_child = nn.Linear(size, size, bias=False)

    def forward(self, word: Tensor, children: list[State]) -> State:
        """Return (h, c)."""
        i, o, u, f = self.from_word(word).chunk(4, -1)
        if children:
            more = self.from_children(torch.stack([h for h, _ in children]).sum(0))
            more_i, more_o, more_u = more.chunk(3, -1)
            i, o, u = i + more_i, o + more_o, u + more_u
        c = torch.sigmoid(i) * torch.tanh(u)
        for child_h, child_c in children:
            c = c + torch.sigmoid(f + self.from_child(child_h)) * child_c
        return torch.sigmoid(o) * torch.tanh(c), c


class TreeLSTM(nn.Module):
    """One look-up for the sentence, then plain recursion."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, SIZE)
        self.cell = ChildSumCell(SIZE)
        self.out = nn.Linear(SIZE, CLASSES)

    def forward(self, tokens: Tensor, tree: Tree) -> Tensor:
        """Return the scores of the classes, (CLASSES,)."""
        h, _ = self.encode(tree, self.embed(tokens))
        return self.out(h)

    def encode(self, tree: Tree, words: Tensor) -> State:
        """Return (h, c) of a tree over the rows of `words`."""
        index, children = tree
        return self.cell(words[index], [self.encode(child, words) for child in children])


def loss(net: nn.Module, sample: Any) -> Tensor:
    """Return the loss of one sentence."""
    tokens, tree, label = sample
    return functional.cross_entropy(net(tokens, tree), label)


ROW = Row("treelstm-cell", "child-sum Tree-LSTM, the node a Module", TreeLSTM, sentences, loss)
