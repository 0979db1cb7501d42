"""Programs that differed from eager execution when MXNet's own operators were compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon

import gluonjit

GRANULARITIES = pytest.mark.parametrize("granularity", ["op", "cell"])


class Program(gluon.HybridBlock):
    """A function of a sample's array, which waits."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.function = function
        with self.name_scope():
            self.one = self.params.get("one", shape=(1,), init=mx.init.One())

    def hybrid_forward(self, F: Any, x: Any, one: Any) -> Any:
        return self.function(F, F.broadcast_mul(x, F.reshape(one, shape=(1, 1))))


def outcome(function: Callable[[Any, Any], Any], granularity: str | None) -> list[np.ndarray]:
    """Losses, and gradients of the inputs of three samples; eagerly without a granularity."""
    net = Program(function)
    net.initialize()
    if granularity is not None:
        net.hybridize(dynamic_batch=True, granularity=granularity)
    random = np.random.RandomState(0)
    inputs = [mx.nd.array(random.uniform(size=(3, 3)) + 2 * np.eye(3)) for _ in range(3)]
    for x in inputs:
        x.attach_grad()
    with autograd.record():
        losses = [net(x).astype("float32").sum() for x in inputs]
    autograd.backward(losses)
    return [x.asnumpy() for x in losses] + [x.grad.asnumpy() for x in inputs]


@GRANULARITIES
@pytest.mark.parametrize(
    "function",
    [
        lambda F, x: F.linalg.det(x) * 0.5,
        lambda F, x: F.linalg.slogdet(x)[1] * 0.5,
        lambda F, x: F.SpatialTransformer(
            F.reshape(x, shape=(1, 1, 3, 3)),
            F.reshape(F.slice_axis(x, axis=0, begin=0, end=2), shape=(1, 6)) * 0.3,
            transform_type="affine",
            sampler_type="bilinear",
            target_shape=(3, 3),
        ),
    ],
    ids=["det", "slogdet", "SpatialTransformer"],
)
def test_what_cannot_go_backward_twice_is_not_compared_backward(
    function: Callable[[Any, Any], Any], granularity: str
) -> None:
    for got, wanted in zip(outcome(function, granularity), outcome(function, None)):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-6)


@GRANULARITIES
def test_a_cast_of_mixed_precision_is_not_left_out(granularity: str) -> None:
    """MXNet leaves amp_cast out of a graph's JSON unless it is told not to."""
    for function in (
        lambda F, x: F.amp_cast(x, dtype="float16"),
        lambda F, x: F.amp_cast(F.amp_cast(F.exp(x), dtype="float16") + 1, dtype="float32"),
    ):
        found = []
        for batched in (False, True):
            net = Program(function)
            net.initialize()
            if batched:
                net.hybridize(dynamic_batch=True, granularity=granularity)
            results = [net(mx.nd.ones((3, 3)) * k / 7) for k in range(3)]
            found.append([x.asnumpy() for x in results])
        for got, wanted in zip(*found):
            assert got.dtype == wanted.dtype
            np.testing.assert_array_equal(got, wanted)
    assert gluonjit.explain() is not None


def test_allclose_gives_what_it_gives_eagerly() -> None:
    def run(F: Any, x: Any) -> Any:
        return mx.nd.contrib.allclose(x, x + 1), mx.nd.contrib.allclose(x * 2, x + x)

    class Plain(gluon.Block):
        def forward(self, x: Any) -> Any:
            return run(mx.nd, x * 2)

    net = Plain()
    wanted = net(mx.nd.ones((3, 4)))
    net.hybridize(dynamic_batch=True, granularity="op")
    got = net(mx.nd.ones((3, 4)))
    assert [x.asscalar() for x in got] == [x.asscalar() for x in wanted] == [0, 1]
    assert [x.shape for x in got] == [x.shape for x in wanted]
