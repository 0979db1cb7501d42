"""Pointer network (Vinyals et al. 2015), with teacher forcing: at each step it points at one of its inputs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.zoo.row import Row
from experiments.zoo.samples.sets import around

SIZE = 12


class Point(nn.Module):
    """The fit of each input to the decoder's state: v tanh(W1 inputs + W2 state)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.from_inputs = nn.Linear(size, size, bias=False)
        self.from_state = nn.Linear(size, size, bias=False)
        self.score = nn.Linear(size, 1, bias=False)

    def forward(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Return (inputs,)."""
        return self.score(torch.tanh(self.from_inputs(inputs) + self.from_state(state))).squeeze(-1)


class PointerNet(nn.Module):
    """Scores of the inputs for each step of a given order."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(2, SIZE)
        self.encoder, self.decoder = nn.LSTMCell(SIZE, SIZE), nn.LSTMCell(SIZE, SIZE)
        self.point = Point(SIZE)
        self.start = nn.Parameter(torch.randn(SIZE))

    def forward(self, points: Tensor, order: list[int]) -> Tensor:
        """Return (steps, inputs)."""
        inputs = self.embed(points)
        h, c = torch.zeros(SIZE), torch.zeros(SIZE)
        encoded = []
        for step in inputs:
            h, c = self.encoder(step, (h, c))
            encoded.append(h)
        memory = torch.stack(encoded)
        step, scores = self.start, []
        for target in order:
            h, c = self.decoder(step, (h, c))
            scores.append(self.point(memory, h))
            step = inputs[target]
        return torch.stack(scores)


def loss(net: nn.Module, sample: Any) -> Tensor:
    """Return the mean loss of a set's steps."""
    points, order, labels = sample
    return functional.cross_entropy(net(points, order), labels)


ROW = Row("pointer-net", "pointer network with teacher forcing", PointerNet, around, loss)
