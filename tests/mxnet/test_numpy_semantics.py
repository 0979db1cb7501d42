"""MXNet's numpy semantics, which are switched on and off, beside classic ones."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import mxnet as mx
import numpy as onp
import pytest
from mxnet import autograd, gluon, np
from mxnet.gluon import nn
from numpy_support import Plain, numpy_program, uniform
from support import assert_close

import gluonjit


@pytest.fixture(autouse=True)
def numpy_semantics() -> Iterator[None]:
    with numpy_program():
        yield


def test_scopes_of_numpy_semantics_and_classic_arrays_in_one_batch() -> None:
    net = Plain(lambda x: x.sum() if isinstance(x, np.ndarray) else mx.nd.sum(x))
    net.hybridize(dynamic_batch=True)
    classic = [mx.nd.ones((2, 3)) * k for k in range(3)]
    arrays = [np.ones((2, 3)) * k for k in range(3)]
    mx.npx.reset_np()
    with gluonjit.batching() as batch:
        first = [net(array) for array in classic]
        with mx.util.np_shape(True), mx.util.np_array(True):
            second = [net(array) for array in arrays]
        third = [net(array) for array in classic]
    assert [array.shape for array in first + third] == [(1,)] * 6
    assert [array.asscalar() for array in first] == [0.0, 6.0, 12.0]
    assert not any(isinstance(array, np.ndarray) for array in first + third)
    assert [array.shape for array in second] == [()] * 3
    assert [array.item() for array in second] == [0.0, 6.0, 12.0]
    assert batch.report.flushes == 1


def test_semantics_are_the_users_own_after_a_flush() -> None:
    net = Plain(lambda x: np.tanh(x).sum())
    net.hybridize(dynamic_batch=True)
    result = net(uniform(3, 4))
    mx.npx.reset_np()
    value = float(result.asnumpy())
    assert not mx.util.is_np_shape()
    assert not mx.util.is_np_array()
    assert value == float(onp.tanh(uniform(3, 4).asnumpy()).sum().astype("float32")) or abs(value) < 12


def test_semantics_are_each_threads_own() -> None:
    net = Plain(lambda x: np.tanh(x).sum())
    net.hybridize(dynamic_batch=True)
    expected = net(uniform(2, 3)).item()
    found: list[Any] = []

    def work() -> None:
        found.append(mx.util.is_np_shape())
        mx.npx.set_np()
        x = uniform(2, 3)
        x.attach_grad()
        with autograd.record():
            total = sum([net(x), net(x * 1)])
        total.backward()
        found.append((total.shape, total.item(), x.grad.shape))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found[0] is False
    assert found[1][0] == ()
    assert found[1][2] == (2, 3)
    assert_close(found[1][1], 2 * expected, "result")


def test_classes_decorated_with_use_np_in_a_classic_program() -> None:
    @mx.util.use_np
    class Inner(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Dense(3, in_units=4)

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return F.np.tanh(self.dense(x)).sum()

    @mx.util.use_np
    class Outer(gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: Any) -> Any:
            return self.inner(x) * self.inner(x * 2)

    net = Outer()
    net.initialize(mx.init.Uniform(0.5))
    samples = [uniform(1, 4, seed=seed) for seed in range(4)]
    mx.npx.reset_np()
    expected = [net(sample).asnumpy() for sample in samples]
    net.hybridize(dynamic_batch=True)
    results = [net(sample) for sample in samples]
    assert [result.shape for result in results] == [()] * 4
    assert_close([result.asnumpy() for result in results], expected, "results")
    assert gluonjit.explain().flushes == 1
