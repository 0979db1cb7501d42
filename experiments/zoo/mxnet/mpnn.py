"""Message-passing network on molecules (Gilmer et al. 2017): messages along bonds, a GRU for each atom, a readout."""

from __future__ import annotations

from typing import Any

import mxnet as mx
from mxnet import gluon
from mxnet.gluon import nn, rnn

from experiments.zoo.row import Row
from experiments.zoo.samples.graphs import BONDS, ELEMENTS, Bonds, molecules

SIZE, ROUNDS = 12, 3


class MessagePassing(gluon.Block):
    """A property of a molecule."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.embed = nn.Embedding(ELEMENTS, SIZE)
            self.update = rnn.GRUCell(SIZE)
            self.gate = nn.Dense(SIZE, activation="sigmoid")
            self.value = nn.Dense(SIZE, activation="tanh")
            self.out = nn.Dense(1)
            self.message = [nn.Dense(SIZE, use_bias=False) for _ in range(BONDS)]  # a matrix for each kind of bond
            for layer in self.message:
                self.register_child(layer)

    def forward(self, elements: Any, bonds: Bonds) -> Any:
        """Return (1, 1)."""
        atoms = self.embed(elements)
        first = [atoms[k : k + 1] for k in range(len(bonds))]
        states = first
        for _ in range(ROUNDS):
            states = [self.step(state, neighbours, states) for state, neighbours in zip(states, bonds)]
        return self.out(self.read(states, first))

    def step(self, state: Any, neighbours: list[tuple[int, int]], states: list[Any]) -> Any:
        """Return an atom's next state."""
        messages = [self.message[kind](states[atom]) for atom, kind in neighbours]
        return self.update(mx.nd.add_n(*messages), [state])[0]

    def read(self, states: list[Any], first: list[Any]) -> Any:
        """Return the gated sum over all atoms."""
        gates = [self.gate(mx.nd.concat(last, start, dim=1)) for last, start in zip(states, first)]
        return mx.nd.add_n(*[gate * self.value(state) for gate, state in zip(gates, states)])


_loss = gluon.loss.L2Loss()


def loss(net: gluon.Block, sample: Any) -> Any:
    """Return the loss of one molecule."""
    elements, bonds, target = sample
    return _loss(net(elements, bonds), target)


ROW = Row("mpnn", "message passing on molecules, three rounds and a readout", MessagePassing, molecules, loss)
