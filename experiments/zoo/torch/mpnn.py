"""Message-passing network on molecules (Gilmer et al. 2017): messages along bonds, a GRU for each atom, a readout."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.zoo.row import Row
from experiments.zoo.samples.graphs import BONDS, ELEMENTS, Bonds, molecules

SIZE, ROUNDS = 12, 3


class Readout(nn.Module):
    """Computes what an atom adds to the molecule, from its first and its last state."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.gate, self.value = nn.Linear(2 * size, size), nn.Linear(size, size)

    def forward(self, last: Tensor, first: Tensor) -> Tensor:
        """Return (size,)."""
        return torch.sigmoid(self.gate(torch.cat([last, first]))) * torch.tanh(self.value(last))


class MessagePassing(nn.Module):
    """A property of a molecule."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(ELEMENTS, SIZE)
        self.message = nn.ModuleList([nn.Linear(SIZE, SIZE, bias=False) for _ in range(BONDS)])
        self.update = nn.GRUCell(SIZE, SIZE)
        self.readout = Readout(SIZE)
        self.out = nn.Linear(SIZE, 1)

    def forward(self, elements: Tensor, bonds: Bonds) -> Tensor:
        """Return a number without axes."""
        first = states = list(self.embed(elements))
        for _ in range(ROUNDS):
            states = [self.step(state, neighbours, states) for state, neighbours in zip(states, bonds)]
        total = torch.stack([self.readout(*both) for both in zip(states, first)]).sum(0)
        return self.out(total).squeeze(-1)

    def step(self, state: Tensor, neighbours: list[tuple[int, int]], states: list[Tensor]) -> Tensor:
        """Return an atom's next state."""
        messages = [self.message[kind](states[atom]) for atom, kind in neighbours]
        return self.update(torch.stack(messages).sum(0), state)


def loss(net: nn.Module, sample: Any) -> Tensor:
    """Return the loss of one molecule."""
    elements, bonds, target = sample
    return functional.mse_loss(net(elements, bonds), target)


ROW = Row("mpnn", "message passing on molecules, three rounds and a readout", MessagePassing, molecules, loss)
