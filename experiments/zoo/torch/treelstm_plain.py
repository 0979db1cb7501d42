"""Child-sum Tree-LSTM in one Module, with Parameters of its own and recursion in a method.

No Module is called in the recursion, so what is captured is operators.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.zoo.row import Row
from experiments.zoo.samples.trees import CLASSES, WORDS, Tree, sentences
from experiments.zoo.torch.treelstm_cell import SIZE, State, loss


class PlainTreeLSTM(nn.Module):
    """The class of a tree's root."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, SIZE)
        self.from_word = nn.Parameter(torch.empty(4 * SIZE, SIZE))
        self.from_word_bias = nn.Parameter(torch.empty(4 * SIZE))
        self.from_children = nn.Parameter(torch.empty(3 * SIZE, SIZE))
        self.from_child = nn.Parameter(torch.empty(SIZE, SIZE))
        self.out = nn.Linear(SIZE, CLASSES)
        for weight in (self.from_word, self.from_children, self.from_child):
            nn.init.xavier_uniform_(weight)
        nn.init.zeros_(self.from_word_bias)

    def forward(self, tokens: Tensor, tree: Tree) -> Tensor:
        """Return the scores of the classes, (CLASSES,)."""
        h, _ = self.encode(tree, self.embed(tokens))
        return self.out(h)

    def encode(self, tree: Tree, words: Tensor) -> State:
        """Return (h, c) of a tree over the rows of `words`."""
        index, children = tree
        states = [self.encode(child, words) for child in children]
        i, o, u, f = functional.linear(words[index], self.from_word, self.from_word_bias).chunk(4)
        if not states:
            c = torch.sigmoid(i) * torch.tanh(u)
            return torch.sigmoid(o) * torch.tanh(c), c
        hidden, memory = (torch.stack(parts) for parts in zip(*states))
        more_i, more_o, more_u = functional.linear(hidden.sum(0), self.from_children).chunk(3)
        forget = torch.sigmoid(f + functional.linear(hidden, self.from_child))
        c = torch.sigmoid(i + more_i) * torch.tanh(u + more_u) + (forget * memory).sum(0)
        return torch.sigmoid(o + more_o) * torch.tanh(c), c


ROW = Row("treelstm-plain", "child-sum Tree-LSTM of single operators", PlainTreeLSTM, sentences, loss)
