"""Values that the program reads, or uses eagerly, while the minibatch is still being recorded."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import pytest
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn
from support import assert_close, assert_same, gradients, rows

import gluonjit

SIZE = 4


class Chooses(gluon.Block):
    """Goes on from the row that it likes best, which takes a number."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.dense = nn.Dense(SIZE, in_units=SIZE, activation="tanh")
            self.score = nn.Dense(1, in_units=SIZE)

    def forward(self, x: Any) -> Any:
        h = self.dense(x)
        scores = self.score(h)
        best = int(scores.argmax(axis=0).asscalar())
        return h[best : best + 1] * scores[best : best + 1]


def loss(net: gluon.Block, sample: Any) -> Any:
    return (net(sample) ** 2).sum()


def test_many_samples_read_a_number_while_recording() -> None:
    """Each read runs a batch; the batches use each other's results, and the work does not multiply."""
    mx.random.seed(3)  # of weights with which no loss cancels
    net = Chooses()
    net.initialize(mx.init.Uniform(0.7))
    report = assert_same(net, [rows(3 + k % 3, SIZE, seed=k) for k in range(30)], loss)
    assert report.flushes >= 30


class Deep(gluon.Block):
    """Layers; after each of them the program looks at a number."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        with self.name_scope():
            self.dense = nn.Dense(SIZE, in_units=SIZE, activation="tanh")
        self.layers = layers

    def forward(self, x: Any) -> Any:
        for _ in range(self.layers):
            left, right = self.dense(x), nd.sin(x)
            x = left + right if left.sum().asscalar() > 0 else left - right
        return x


@pytest.mark.parametrize("eager", [False, True])
def test_history_through_many_batches(eager: bool) -> None:
    """Whether backward begins at a captured value, or at one that eager operators made of it."""
    mx.random.seed(3)  # of weights with which the sum does not cancel
    net = Deep(16)
    net.initialize(mx.init.Uniform(0.9))

    def run() -> Any:
        with autograd.record():
            out = net(rows(2, SIZE, seed=3))
            total = mx.np.sum(out.as_np_ndarray()) if eager else out.sum()
        total.backward()
        return total.asnumpy(), gradients(net)

    expected, wanted = run()
    net.hybridize(dynamic_batch=True)
    found, actual = run()
    assert gluonjit.explain().flushes >= 16
    assert_close(found, expected, "sum")
    for name, gradient in wanted.items():
        assert_close(actual[name], gradient, f"gradient of {name}")


def test_results_read_one_by_one_after_a_minibatch() -> None:
    """Once the first has been read nothing waits, so that what is taken of the others runs no further batch."""
    mx.random.seed(3)
    net = nn.Sequential()
    net.add(nn.Dense(SIZE, in_units=SIZE, flatten=False))
    net.initialize(mx.init.Uniform(0.7))
    samples = [rows(6, SIZE, seed=k).reshape((2, 3, SIZE)) for k in range(5)]

    def run() -> Any:
        results = [net(x) for x in samples]
        numbers = [[row[0].asscalar() for row in result[1]] for result in results]
        best = [result[0].argmax(axis=1).asnumpy().tolist() for result in results]
        return numbers, best, [(result.softmax() * result).sum().asscalar() for result in results]

    wanted = run()
    net.hybridize(dynamic_batch=True, granularity="cell")
    for found, expected in zip(run(), wanted):
        assert_close(mx.nd.array(found).asnumpy(), mx.nd.array(expected).asnumpy(), "numbers")
    assert gluonjit.explain().flushes == 1


@pytest.mark.parametrize("record", [False, True])
def test_a_part_of_an_unread_result_after_a_minibatch_shares_its_memory(record: bool) -> None:
    """Whether it is taken while recording or not; the result has run with another one that was read."""
    net = nn.Sequential()
    net.add(nn.Dense(SIZE, in_units=SIZE))
    net.initialize(mx.init.Uniform(0.7))
    net.hybridize(dynamic_batch=True, granularity="cell")
    for take in (lambda x: x.detach(), lambda x: x[0:1], lambda x: x.reshape((-1,))):
        with autograd.record():
            first, result = net(rows(2, SIZE, seed=1)), net(rows(2, SIZE, seed=2))
        first.asnumpy()
        with autograd.record() if record else autograd.pause():
            part = take(result)
        result[:] = 7
        assert (part.asnumpy() == 7).all()
        part[0] = 5
        assert (result[0].asnumpy() == 5).any()


def test_many_values_of_one_batch_used_eagerly() -> None:
    """MXNet calls the backward of each in a thread of its own."""
    net = gluon.nn.Sequential()
    for _ in range(4):
        net.add(nn.Dense(128, in_units=128, activation="tanh"))
    net.initialize(mx.init.Uniform(0.2))
    samples = [rows(16, 128, seed=k) for k in range(8)]

    def run() -> Any:
        with autograd.record():
            captured = [net(x) for x in samples]
            eager = [output.as_np_ndarray() for output in captured]
            total = gluonjit.add_n([mx.np.sum(output * output, axis=1).as_nd_ndarray() for output in eager])
        total.backward()
        return gradients(net)

    wanted = run()
    net.hybridize(dynamic_batch=True)
    for _ in range(15):
        for name, gradient in run().items():
            assert_close(gradient, wanted[name], f"gradient of {name}")
