"""What tests of training share: a recurrent net, its samples and a loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import gluon
from mxnet.gluon import nn
from support import assert_close, gradients, outcome, rows

SIZE = 5


class Rows(gluon.Block):
    """A recurrent net over the rows of a sample."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        with self.name_scope():
            self.cell = nn.Dense(SIZE, in_units=SIZE, activation="tanh")
            self.drop = nn.Dropout(dropout)
            self.out = nn.Dense(1, in_units=SIZE)

    def forward(self, x: Any) -> Any:
        h = x[0:1]
        for k in range(x.shape[0]):
            h = self.drop(self.cell(h + x[k : k + 1]))
        return self.out(h)


class Whole(gluon.Block):
    """A net and its loss as one block."""

    def __init__(self, net: gluon.Block, loss: Callable[[gluon.Block, Any], Any]) -> None:
        super().__init__()
        self.net = net
        self.loss = loss

    def forward(self, sample: Any) -> Any:
        return self.loss(self.net, sample)


@contextmanager
def rows_net() -> Iterator[Rows]:
    """The net with parameters that are the same each time."""
    mx.random.seed(0)
    made = Rows()
    made.initialize(mx.init.Uniform(0.7))
    yield made
    made.hybridize(dynamic_batch=False)


SAMPLES = [rows(k % 4 + 1, SIZE, seed=k) for k in range(9)]


def square(net: gluon.Block, sample: Any) -> Any:
    return (net(sample) ** 2).sum()


def zero(net: gluon.Block) -> None:
    for parameter in net.collect_params().values():
        parameter.zero_grad()


def eager(net: gluon.Block) -> dict[str, np.ndarray]:
    net.hybridize(dynamic_batch=False)
    found = outcome(net, SAMPLES, square)[1]
    net.hybridize(dynamic_batch=True)
    zero(net)
    return found


def assert_gradients(net: gluon.Block, expected: dict[str, np.ndarray], tolerance: float = 1e-5) -> None:
    for name, value in gradients(net).items():
        assert_close(value, expected[name], name, tolerance)
