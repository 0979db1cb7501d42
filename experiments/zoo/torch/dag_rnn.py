"""DAG-RNN (Shuai et al. 2016): a recurrent network along the edges of a directed acyclic graph, both ways."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.zoo.row import Row
from experiments.zoo.samples.graphs import CLASSES, FEATURES, Edges, dags, reversed_edges

SIZE = 12


class VertexCell(nn.Module):
    """The state of a vertex, from its features and the states of its predecessors."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.from_features = nn.Linear(FEATURES, size)
        self.from_states = nn.Linear(size, size, bias=False)

    def forward(self, features: Tensor, states: list[Tensor]) -> Tensor:
        """Return h."""
        total = self.from_features(features)
        if states:
            total = total + self.from_states(sum(states))
        return torch.relu(total)


class DagRNN(nn.Module):
    """Scores of the classes for each vertex."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = VertexCell(SIZE), VertexCell(SIZE)
        self.out = nn.Linear(2 * SIZE, CLASSES)

    def forward(self, features: Tensor, edges: Edges) -> Tensor:
        """Return (vertices, CLASSES)."""
        vertices = range(len(edges))
        down = self.run(self.down, features, edges, vertices)
        up = self.run(self.up, features, reversed_edges(edges), reversed(vertices))
        return self.out(torch.cat([down, up], 1))

    def run(self, cell: nn.Module, features: Tensor, edges: Edges, order: Iterable[int]) -> Tensor:
        """Return the states of all vertices, computed in an order in which the sources of each come first."""
        states: dict[int, Tensor] = {}
        for vertex in order:
            states[vertex] = cell(features[vertex], [states[source] for source in edges[vertex]])
        return torch.stack([states[vertex] for vertex in range(len(edges))])


def loss(net: nn.Module, sample: Any) -> Tensor:
    """Return the mean loss of a graph's vertices."""
    features, edges, classes = sample
    return functional.cross_entropy(net(features, edges), classes)


ROW = Row("dag-rnn", "DAG-RNN, both ways along the edges", DagRNN, dags, loss)
