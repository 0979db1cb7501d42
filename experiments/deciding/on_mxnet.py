"""Parts of models in MXNet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mxnet import gluon, nd


class Layer(gluon.HybridBlock):
    """A Transformer's layer, with one head."""

    def __init__(self, size: int) -> None:
        super().__init__()
        with self.name_scope():
            self.asks, self.gives, self.out = (gluon.nn.Dense(size, in_units=size) for _ in range(3))
            self.keys = gluon.nn.Dense(size, in_units=size, use_bias=False)  # of which softmax takes no notice
            self.wide = gluon.nn.Dense(2 * size, in_units=size, activation="relu")
            self.narrow = gluon.nn.Dense(size, in_units=2 * size)
        self.scale = size**-0.5

    def hybrid_forward(self, F: Any, h: Any) -> Any:
        scores = F.dot(self.asks(h), self.keys(h), transpose_b=True) * self.scale
        h = h + self.out(F.dot(F.softmax(scores, axis=-1), self.gives(h)))
        return h + self.narrow(self.wide(h))


def _several(blocks: Sequence[Any]) -> Any:
    found = gluon.nn.Sequential()
    found.add(*blocks)
    return found


class Base(gluon.Block):
    """Layers of models, and functions that use them."""

    layer, several = Layer, staticmethod(_several)

    def linear(self, inputs: int, size: int) -> Any:
        """Return a layer."""
        return gluon.nn.Dense(size, in_units=inputs)

    def gru(self, inputs: int, size: int) -> Any:
        """Return a cell."""
        return gluon.rnn.GRUCell(size, input_size=inputs)

    def table(self, words: int, size: int) -> Any:
        """Return an embedding."""
        return gluon.nn.Embedding(words, size)

    def step(self, cell: Any, x: Any, h: Any) -> Any:
        """Return the next state."""
        return cell(x, [h])[0]

    def zeros(self, size: int, rows: int = 1) -> Any:
        """Return a first state."""
        return nd.zeros((rows, size))

    def token(self, number: int) -> Any:
        """Return a word, or a class."""
        return nd.array([number], dtype="int32")

    def floats(self, rows: Sequence[Sequence[float]]) -> Any:
        """Return numbers as an array."""
        return nd.array(rows)

    def joined(self, *parts: Any) -> Any:
        """Return parts of a row as one."""
        return nd.concat(*parts, dim=1)

    def rows(self, parts: Sequence[Any]) -> Any:
        """Return rows of several samples as one array."""
        return nd.concat(*parts, dim=0)

    def number(self, x: Any) -> float:
        """Read one number."""
        return float(x.asscalar())

    def numbers(self, x: Any) -> list[float]:
        """Read a row."""
        return list(x.asnumpy()[0].tolist())

    def loss_of(self, scores: Any, label: Any) -> Any:
        """Return the loss of a row of scores."""
        return -nd.pick(self.logs(scores), label)

    losses_of = loss_of

    def shares(self, x: Any) -> Any:
        """Return what adds up to one."""
        return x.softmax(axis=-1)

    def logs(self, x: Any) -> Any:
        """Return its logarithms."""
        return x.log_softmax(axis=-1)

    def floats_of(self, true: Any) -> Any:
        """Return 1 where something is true, else 0."""
        return true


MASKED: dict[str, Any] = {}
