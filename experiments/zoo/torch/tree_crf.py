"""Tree-structured CRF: the tags of a sentence's words, whose tree is given; each fits its word and its head's tag."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from experiments.zoo.row import Row
from experiments.zoo.samples.trees import TAGS, WORDS, Tree, tagged

SIZE = 16


class TreeCRF(nn.Module):
    """The negative log-likelihood of given tags."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, SIZE)
        self.hidden, self.out = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, TAGS)
        self.transitions = nn.Parameter(torch.zeros(TAGS, TAGS))  # from a word's tag to that of a child

    def forward(self, tokens: Tensor, tree: Tree, tags: Tensor) -> Tensor:
        """Return the negative logarithm of the tags' probability, a number without axes."""
        scores = self.out(torch.tanh(self.hidden(self.embed(tokens))))
        return torch.logsumexp(self.inside(tree, scores), 0) - self.gold(tree, scores, tags)

    def inside(self, tree: Tree, scores: Tensor) -> Tensor:
        """Return (TAGS,): for each tag of a tree's root, the logarithm of the sum over all tags below."""
        index, children = tree
        total = scores[index]
        for child in children:
            total = total + torch.logsumexp(self.transitions + self.inside(child, scores), 1)
        return total

    def gold(self, tree: Tree, scores: Tensor, tags: Tensor) -> Tensor:
        """Return the score of a tree with the given tags, a number without axes."""
        index, children = tree
        total = scores[index, tags[index]]
        for child in children:
            total = total + self.transitions[tags[index], tags[child[0]]] + self.gold(child, scores, tags)
        return total


def loss(net: nn.Module, sample: Any) -> Tensor:
    """Return the loss of one sentence."""
    tokens, tree, tags = sample
    return net(tokens, tree, tags)


ROW = Row("tree-crf", "tree-structured CRF over the tags of words", TreeCRF, tagged, loss)
