"""Message-passing network on molecules (Gilmer et al. 2017): messages along bonds, a GRU for each atom, a readout."""

from __future__ import annotations

from typing import Any

import mxnet as mx
from mxnet import gluon
from mxnet.gluon import nn, rnn
from numpy.random import RandomState

from experiments.zoo.row import Row

ELEMENTS, BONDS, SIZE, ROUNDS = 5, 3, 12, 3
VALENCES = (4, 3, 2, 1, 1)  # of the elements

Bonds = list[list[tuple[int, int]]]
"""For each atom its neighbours: (atom, kind of bond)."""


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


def random_molecule(random: RandomState, size: int) -> tuple[list[int], Bonds]:
    """Elements and bonds of a connected molecule that keeps to the valences, with a ring now and then."""
    elements = [0] + random.randint(0, ELEMENTS, size - 1).tolist()
    bonds: Bonds = [[]]
    free = [VALENCES[elements[0]]]
    for atom in range(1, size):
        open_atoms = [other for other in range(atom) if free[other] > 0]
        if not open_atoms:
            return elements[:atom], bonds
        bonds.append([])
        free.append(VALENCES[elements[atom]])
        _bind(random, bonds, free, atom, int(random.choice(open_atoms)))
    ends = [atom for atom in range(2, size) if free[atom] > 0 and free[0] > 0 and not _bound(bonds, 0, atom)]
    if ends:
        _bind(random, bonds, free, ends[-1], 0)
    return elements, bonds


def _bind(random: RandomState, bonds: Bonds, free: list[int], one: int, two: int) -> None:
    """Bind two atoms, up to three times."""
    kind = int(random.randint(0, min(free[one], free[two], BONDS)))
    bonds[one].append((two, kind))
    bonds[two].append((one, kind))
    free[one] -= kind + 1
    free[two] -= kind + 1


def _bound(bonds: Bonds, one: int, two: int) -> bool:
    return any(atom == two for atom, _ in bonds[one])


def make_samples(count: int, random: RandomState) -> list[Any]:
    """Molecules of 2 to 10 atoms with a number each."""
    samples = []
    for _ in range(count):
        elements, bonds = random_molecule(random, int(random.randint(2, 11)))
        samples.append((mx.nd.array(elements, dtype="int32"), bonds, mx.nd.array(random.uniform(-1, 1, (1, 1)))))
    return samples


_loss = gluon.loss.L2Loss()


def loss(net: gluon.Block, sample: Any) -> Any:
    """Return the loss of one molecule."""
    elements, bonds, target = sample
    return _loss(net(elements, bonds), target)


ROW = Row("mpnn", "message passing on molecules, three rounds and a readout", MessagePassing, make_samples, loss)
