"""DAG-RNN (Shuai et al. 2016): a recurrent network along the edges of a directed acyclic graph, both ways."""

from __future__ import annotations

from typing import Any

import mxnet as mx
from mxnet import gluon
from mxnet.gluon import nn
from numpy.random import RandomState

from experiments.zoo.row import Row

FEATURES, CLASSES, SIZE = 10, 4, 12

Edges = list[list[int]]
"""For each vertex those it has edges from. Vertices are in topological order."""


class VertexCell(gluon.HybridBlock):
    """The state of a vertex, from its features and the states of its predecessors."""

    def __init__(self, size: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.from_features = nn.Dense(size)
            self.from_states = nn.Dense(size, use_bias=False, in_units=size)

    def hybrid_forward(self, F: Any, features: Any, *states: Any) -> Any:
        """Return h."""
        total = self.from_features(features)
        if states:
            total = total + self.from_states(F.add_n(*states))
        return F.relu(total)


class DagRNN(gluon.Block):
    """Scores of the classes for each vertex."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.down, self.up = VertexCell(SIZE), VertexCell(SIZE)
            self.out = nn.Dense(CLASSES)

    def forward(self, features: Any, edges: Edges) -> Any:
        """Return (vertices, CLASSES)."""
        count = len(edges)
        backwards: Edges = [[] for _ in edges]
        for vertex, sources in enumerate(edges):
            for source in sources:
                backwards[source].append(vertex)
        down = self.run(self.down, features, edges, range(count))
        up = self.run(self.up, features, backwards, reversed(range(count)))
        return self.out(mx.nd.concat(mx.nd.concat(*down, dim=0), mx.nd.concat(*up, dim=0), dim=1))

    def run(self, cell: gluon.Block, features: Any, edges: Edges, order: Any) -> list[Any]:
        """Return the state of each vertex, computed in an order in which its sources come first."""
        states: list[Any] = [None] * len(edges)
        for vertex in order:
            states[vertex] = cell(features[vertex : vertex + 1], *[states[source] for source in edges[vertex]])
        return states


def random_dag(random: RandomState, size: int) -> Edges:
    """A graph in which each vertex but the first has one to three predecessors."""
    edges: Edges = [[]]
    for vertex in range(1, size):
        count = int(random.randint(1, min(vertex, 3) + 1))
        edges.append(sorted(random.choice(vertex, count, replace=False).tolist()))
    return edges


def make_samples(count: int, random: RandomState) -> list[Any]:
    """Graphs of 2 to 12 vertices, with features and a class for each vertex."""
    samples = []
    for _ in range(count):
        size = int(random.randint(2, 13))
        features = mx.nd.array(random.uniform(-1, 1, (size, FEATURES)))
        samples.append(
            (features, random_dag(random, size), mx.nd.array(random.randint(0, CLASSES, size), dtype="int32"))
        )
    return samples


_loss = gluon.loss.SoftmaxCrossEntropyLoss()


def loss(net: gluon.Block, sample: Any) -> Any:
    """Return the mean loss of a graph's vertices."""
    features, edges, classes = sample
    return _loss(net(features, edges), classes).mean()


ROW = Row("dag-rnn", "DAG-RNN, both ways along the edges", DagRNN, make_samples, loss)
