"""DAG-RNN (Shuai et al. 2016): a recurrent network along the edges of a directed acyclic graph, both ways."""

from __future__ import annotations

from typing import Any

import mxnet as mx
from mxnet import gluon
from mxnet.gluon import nn

from experiments.zoo.row import Row
from experiments.zoo.samples.graphs import CLASSES, Edges, dags, reversed_edges

SIZE = 12


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
        down = self.run(self.down, features, edges, range(count))
        up = self.run(self.up, features, reversed_edges(edges), reversed(range(count)))
        return self.out(mx.nd.concat(mx.nd.concat(*down, dim=0), mx.nd.concat(*up, dim=0), dim=1))

    def run(self, cell: gluon.Block, features: Any, edges: Edges, order: Any) -> list[Any]:
        """Return the state of each vertex, computed in an order in which its sources come first."""
        states: list[Any] = [None] * len(edges)
        for vertex in order:
            states[vertex] = cell(features[vertex : vertex + 1], *[states[source] for source in edges[vertex]])
        return states


_loss = gluon.loss.SoftmaxCrossEntropyLoss()


def loss(net: gluon.Block, sample: Any) -> Any:
    """Return the mean loss of a graph's vertices."""
    features, edges, classes = sample
    return _loss(net(features, edges), classes).mean()


ROW = Row("dag-rnn", "DAG-RNN, both ways along the edges", DagRNN, dags, loss)
