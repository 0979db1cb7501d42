"""Pointer network (Vinyals et al. 2015), with teacher forcing: at each step it points at one of its inputs."""

from __future__ import annotations

from typing import Any

import mxnet as mx
from mxnet import gluon
from mxnet.gluon import nn, rnn

from experiments.zoo.row import Row
from experiments.zoo.samples.sets import around

SIZE = 12


class Point(gluon.HybridBlock):
    """The fit of each input to the decoder's state: v tanh(W1 inputs + W2 state)."""

    def __init__(self, size: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.from_inputs = nn.Dense(size, use_bias=False, in_units=size)
            self.from_state = nn.Dense(size, use_bias=False, in_units=size)
            self.score = nn.Dense(1, use_bias=False, in_units=size)

    def hybrid_forward(self, F: Any, inputs: Any, state: Any) -> Any:
        """Return (1, inputs)."""
        hidden = F.tanh(F.broadcast_add(self.from_inputs(inputs), self.from_state(state)))
        return F.transpose(self.score(hidden))


class PointerNet(gluon.Block):
    """Scores of the inputs for each step of a given order."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.embed = nn.Dense(SIZE)
            self.encoder, self.decoder = rnn.LSTMCell(SIZE), rnn.LSTMCell(SIZE)
            self.point = Point(SIZE)
            self.start = self.params.get("start", shape=(1, SIZE))

    def forward(self, points: Any, order: list[int]) -> Any:
        """Return (steps, inputs)."""
        embedded = self.embed(points)
        inputs = [embedded[k : k + 1] for k in range(len(order))]
        encoded, states = self.encoder.unroll(len(inputs), inputs, merge_outputs=False)
        memory = mx.nd.concat(*encoded, dim=0)
        scores = []
        step = self.start.data()
        for target in order:
            output, states = self.decoder(step, states)
            scores.append(self.point(memory, output))
            step = inputs[target]
        return mx.nd.concat(*scores, dim=0)


_loss = gluon.loss.SoftmaxCrossEntropyLoss()


def loss(net: gluon.Block, sample: Any) -> Any:
    """Return the mean loss of a set's steps."""
    points, order, labels = sample
    return _loss(net(points, order), labels).mean()


ROW = Row("pointer-net", "pointer network with teacher forcing", PointerNet, around, loss)
