"""The cells that programs call, each pasted into a printed program that uses it."""

from __future__ import annotations

from typing import Any

from mxnet import gluon, nd
from mxnet.gluon import nn

import gluonjit
from experiments.fuzz.state import Notes, Reads


class Squash(gluon.HybridBlock):
    """One result."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.w = self.params.get("w", shape=(3, 3))
            self.b = self.params.get("b", shape=(3,), init="uniform")

    def hybrid_forward(self, F: Any, x: Any, w: Any, b: Any) -> Any:
        return F.tanh(F.FullyConnected(x, w, b, num_hidden=3))


class Memory(gluon.HybridBlock):
    """A tuple from states in a list or a tuple, which may be missing, and a number."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.w = self.params.get("w", shape=(6, 3))

    def hybrid_forward(self, F: Any, x: Any, states: Any, scale: float, w: Any) -> Any:
        gates = F.FullyConnected(x, w, no_bias=True, num_hidden=6)
        gate, value = F.split(gates, num_outputs=2, axis=1)
        c = F.sigmoid(gate) * F.tanh(value) * scale
        if states is not None:
            c = c + 0.5 * states[0] * F.sigmoid(states[-1])
        return F.tanh(c), c


class Nested(gluon.HybridBlock):
    """Lists and tuples in each other, and an argument that comes back."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.inner = nn.Dense(3, in_units=3, activation="sigmoid")

    def hybrid_forward(self, F: Any, x: Any, *states: Any) -> Any:
        total = self.inner(x)
        for state in states:
            total = total + 0.3 * state
        return [total, (x * 1.0, [F.sin(total)])]


class Pairs(gluon.HybridBlock):
    """Takes a dictionary's worth of nested lists, and gives one array for each."""

    def hybrid_forward(self, F: Any, pairs: Any, scale: float) -> Any:
        return [F.tanh(x * scale) + F.sin(y[0]) * y[-1] for x, y in pairs]


class Reader(gluon.HybridBlock):
    """No cell can be made of it: it looks at a number."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.sin(x) if float(x.mean().asscalar()) > 0.0217 else F.tanh(x) * 0.5


class Projector(gluon.Block):
    """A method as a cell, which uses a parameter of its block."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.weights = {n: self.params.get(f"w{n}", shape=(4, n)) for n in (1, 2, 3, 4)}
            self.w1, self.w2, self.w3, self.w4 = self.weights.values()

    @gluonjit.cell
    def project(self, x: Any, columns: int) -> Any:
        return nd.sin(nd.FullyConnected(x, self.weights[columns].data(), no_bias=True, num_hidden=4))


class Annealed(Reads, gluon.HybridBlock):
    """A cell that reads Python state."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.inner = nn.Dense(3, in_units=3, flatten=False)
        self.begin()

    def hybrid_forward(self, F: Any, x: Any, where: str) -> Any:
        return F.tanh(self.inner(x)) * self.factor(where)

    @gluonjit.cell
    def part(self, x: Any, where: str) -> Any:
        return nd.sin(x) * self.factor(where) + x


class Noting(Notes, gluon.HybridBlock):
    """A cell that takes notes."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.inner = nn.Dense(3, in_units=3, flatten=False)
        self.begin()

    def hybrid_forward(self, F: Any, x: Any, where: str) -> Any:
        return self.note(where, F.tanh(self.inner(x)))

    @gluonjit.cell
    def part(self, x: Any, where: str) -> Any:
        return self.note(where, nd.sin(x) * 0.5) + x


@gluonjit.cell
def blend(x: Any, y: Any, share: float = 0.5) -> Any:
    """A function as a cell."""
    return [nd.tanh(x * share + y * (1 - share)), x - y * share]


@gluonjit.cell
def fold(rows: Any, *, start: Any = None, scale: float = 0.5) -> Any:
    """A cell of any number of rows, with an array as keyword."""
    total = start
    for row in rows:
        total = nd.tanh(row) if total is None else nd.tanh(total * scale + row)
    return total
