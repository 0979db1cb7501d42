"""Arrays that a program makes and then writes to are its own, though equal ones are made only once."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import gluon, nd
from mxnet.gluon import nn
from support import assert_close, assert_same, rows

SIZE = 3


class Masked(gluon.Block):
    """Masks that begin equal and are filled in by hand."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.dense = nn.Dense(SIZE, in_units=SIZE)

    def forward(self, x: Any, hidden: int) -> Any:
        mask, other = nd.ones((len(x), 1)), nd.ones((len(x), 1))
        mask[hidden] = 0
        other[0] = 5
        return self.dense(x) * mask + x * other


def loss(net: gluon.Block, sample: Any) -> Any:
    return (net(*sample) ** 2).sum()


@pytest.mark.parametrize("sharing", [True, False])
def test_a_mask_is_written_to(sharing: bool) -> None:
    net = Masked()
    net.initialize(mx.init.Uniform(0.7))
    samples = [(rows(4, SIZE, seed=k), k % 4) for k in range(6)]
    assert_same(net, samples, loss, sharing=sharing)


class Accumulates(gluon.Block):
    """Adds to an array in place."""

    def forward(self, x: Any) -> Any:
        total, untouched = nd.zeros((1, SIZE)), nd.zeros((1, SIZE))
        total += 1
        for k in range(len(x)):
            total += x[k : k + 1]
        return total - 3 * untouched


def test_an_array_is_added_to_in_place() -> None:
    net, samples = Accumulates(), [rows(count, SIZE, seed=count) for count in (2, 3, 2)]
    expected = [net(x).asnumpy() for x in samples]
    net.hybridize(dynamic_batch=True)
    found = [net(x) for x in samples]
    for array, wanted in zip(found, expected):
        assert_close(array.asnumpy(), wanted, "total")


class GivesAway(gluon.Block):
    """Returns an array that it made from nothing."""

    def forward(self, x: Any) -> Any:
        return nd.zeros((1, SIZE))


def test_results_made_from_nothing_are_apart() -> None:
    net = GivesAway()
    net.hybridize(dynamic_batch=True)
    one, two = net(rows(1, SIZE)), net(rows(1, SIZE))
    one[:] = 7
    assert (one.asnumpy() == 7).all() and not np.any(two.asnumpy())


class Layer(gluon.Block):
    """One layer."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.dense = nn.Dense(SIZE, in_units=SIZE)

    def forward(self, x: Any) -> Any:
        return self.dense(x)


def reinitialize(net: Any) -> None:
    net.initialize(mx.init.Constant(3), force_reinit=True)


def reset_and_write(net: Any) -> None:
    net.dense.weight.reset_ctx(mx.cpu(0))
    net.dense.weight.data()[:] = 3


def set_data(net: Any) -> None:
    net.dense.weight.set_data(nd.ones((SIZE, SIZE)) * 3)


@pytest.mark.parametrize("change", [reinitialize, reset_and_write, set_data])
def test_what_was_captured_has_the_parameters_of_then(change: Any) -> None:
    net, x = Layer(), nd.ones((1, SIZE))
    net.initialize(mx.init.One())
    net.hybridize(dynamic_batch=True)
    before = net(x)
    change(net)
    after = net(x)
    assert (before.asnumpy() == SIZE).all()
    assert (after.asnumpy() == 3 * SIZE).all()
