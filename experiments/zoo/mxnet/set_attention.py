"""Attention over a set of any size: two rounds of a query that reads the set, as in Vinyals et al. 2016."""

from __future__ import annotations

from typing import Any

import mxnet as mx
from mxnet import gluon
from mxnet.gluon import nn, rnn

from experiments.zoo.row import Row
from experiments.zoo.samples.sets import largest

SIZE, ROUNDS = 12, 2


class Attend(gluon.HybridBlock):
    """The mean of a set's values, weighted by how well its keys fit the query."""

    def hybrid_forward(self, F: Any, query: Any, keys: Any, values: Any) -> Any:
        """Return (1, SIZE)."""
        weights = F.softmax(F.dot(query, keys, transpose_b=True), axis=1)
        return F.dot(weights, values)


class SetNet(gluon.Block):
    """A number from a set, the same in whatever order its elements come."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.encode = nn.Dense(SIZE, activation="relu")
            self.key = nn.Dense(SIZE, use_bias=False)
            self.value = nn.Dense(SIZE)
            self.attend = Attend()
            self.think = rnn.GRUCell(SIZE)
            self.out = nn.Dense(1)

    def forward(self, elements: Any) -> Any:
        """Return (1, 1)."""
        encoded = self.encode(elements)
        keys, values = self.key(encoded), self.value(encoded)
        states = self.think.begin_state(batch_size=1)
        read = mx.nd.zeros((1, SIZE))
        for _ in range(ROUNDS):
            query, states = self.think(read, states)
            read = self.attend(query, keys, values)
        return self.out(read)


_loss = gluon.loss.L2Loss()


def loss(net: gluon.Block, sample: Any) -> Any:
    """Return the loss of one set."""
    elements, target = sample
    return _loss(net(elements), target)


ROW = Row("set-attention", "attention over a set of any size", SetNet, largest, loss)
