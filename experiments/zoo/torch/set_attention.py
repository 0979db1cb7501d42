"""Attention over a set of any size: two rounds of a query that reads the set, as in Vinyals et al. 2016."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.zoo.row import Row
from experiments.zoo.samples.sets import FEATURES, largest

SIZE, ROUNDS = 12, 2


class Attend(nn.Module):
    """The mean of a set's values, weighted by how well its keys fit the query."""

    def forward(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Return (SIZE,)."""
        return torch.softmax(keys @ query, 0) @ values


class SetNet(nn.Module):
    """A number from a set, the same in whatever order its elements come."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(FEATURES, SIZE), nn.ReLU())
        self.key = nn.Linear(SIZE, SIZE, bias=False)
        self.value = nn.Linear(SIZE, SIZE)
        self.attend = Attend()
        self.think = nn.GRUCell(SIZE, SIZE)
        self.out = nn.Linear(SIZE, 1)

    def forward(self, elements: Tensor) -> Tensor:
        """Return a number without axes."""
        encoded = self.encode(elements)
        keys, values = self.key(encoded), self.value(encoded)
        query, read = torch.zeros(SIZE), torch.zeros(SIZE)
        for _ in range(ROUNDS):
            query = self.think(read, query)
            read = self.attend(query, keys, values)
        return self.out(read).squeeze(-1)


def loss(net: nn.Module, sample: Any) -> Tensor:
    """Return the loss of one set."""
    elements, target = sample
    return functional.mse_loss(net(elements), target)


ROW = Row("set-attention", "attention over a set of any size", SetNet, largest, loss)
