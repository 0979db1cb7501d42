"""The child-sum Tree-LSTM for semantic relatedness (Tai, Socher and Manning 2015), for one pair of sentences.

This one source runs imperatively and under dynamic batching. A state is a vector (size,).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.bench.model import HEAD_SIZE, MEMORY_SIZE
from experiments.data.trees import CLASSES, Pair, Tree

WORD_SIZE = 300

State = tuple[Tensor, Tensor]


class ChildSumCell(nn.Module):
    """One node: (h, c) from its word and any number of children.

    The gates of the word stand in the order i, o, u, f, those of the children's sum in the order i, o, u.
    """

    def __init__(self, size: int = MEMORY_SIZE, in_size: int = WORD_SIZE) -> None:
        super().__init__()
        self.word = nn.Linear(in_size, 4 * size)
        self.total = nn.Linear(size, 3 * size, bias=False)
        self.forget = nn.Linear(size, size, bias=False)

    def forward(self, x: Tensor, children: list[State]) -> State:
        """Compute the state of a node."""
        i, o, u, f = self.word(x).chunk(4, -1)
        if children:
            total = torch.stack([h for h, _ in children]).sum(0)
            i_h, o_h, u_h = self.total(total).chunk(3, -1)
            i, o, u = i + i_h, o + o_h, u + u_h
        c = torch.sigmoid(i) * torch.tanh(u)
        for h, memory in children:
            c = c + torch.sigmoid(f + self.forget(h)) * memory
        return torch.sigmoid(o) * torch.tanh(c), c


class TreeLSTM(nn.Module):
    """Encodes a tree by plain recursion: the hidden state of its root."""

    def __init__(self, size: int = MEMORY_SIZE, in_size: int = WORD_SIZE) -> None:
        super().__init__()
        self.cell = ChildSumCell(size, in_size)

    def forward(self, root: Tree, words: Tensor) -> Tensor:
        """Return h of the root of a tree over the rows of `words`."""
        return self.encode(root, words)[0]

    def encode(self, node: Tree, words: Tensor) -> State:
        """Return (h, c) of a node."""
        children = [self.encode(child, words) for child in node.children]
        return self.cell(words[node.index], children)


class Similarity(nn.Module):
    """Log-probabilities of the five classes of relatedness, from the hidden states of two roots."""

    def __init__(self, size: int = MEMORY_SIZE, hidden: int = HEAD_SIZE) -> None:
        super().__init__()
        self.product = nn.Linear(size, hidden, bias=False)
        self.distance = nn.Linear(size, hidden)
        self.out = nn.Linear(hidden, CLASSES)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """Compare the product and the distance of two hidden states."""
        hidden = torch.sigmoid(self.product(left * right) + self.distance((left - right).abs()))
        return functional.log_softmax(self.out(hidden), -1)


class Relatedness(nn.Module):
    """The whole model for one pair of sentences; the word vectors stay fixed."""

    def __init__(self, words: int, in_size: int = WORD_SIZE, size: int = MEMORY_SIZE, hidden: int = HEAD_SIZE) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, in_size)
        self.tree = TreeLSTM(size, in_size)
        self.head = Similarity(size, hidden)
        self.embed.weight.requires_grad_(False)

    def forward(self, pair: Pair) -> Tensor:
        """Return the log-probabilities (5,) of a pair; one look-up a sentence."""
        left = self.tree(pair.left.root, self.embed(pair.left.tokens))
        right = self.tree(pair.right.root, self.embed(pair.right.tokens))
        return self.head(left, right)


def loss(net: nn.Module, pair: Pair) -> Tensor:
    """Return the Kullback-Leibler divergence of one pair."""
    return functional.kl_div(net(pair), pair.target, reduction="sum")
