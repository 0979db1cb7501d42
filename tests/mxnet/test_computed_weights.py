"""Weights that are computed in a sample, or were by a batch: oneDNN lays them out anew where they lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd
from support import assert_close

GIVEN: dict[str, tuple[Callable[..., Any], dict[str, tuple[int, ...]], list[tuple[int, ...]]]] = {
    "convolution": (
        lambda x, w: nd.Convolution(x, w / nd.norm(w), kernel=(3, 3), num_filter=16, no_bias=True),
        {"w": (16, 8, 3, 3)},
        [(1, 8, 9, 9)],
    ),
    "in groups": (
        lambda x, w: nd.Convolution(x, w / nd.norm(w), kernel=(3, 3), num_filter=16, num_group=2, no_bias=True),
        {"w": (16, 4, 3, 3)},
        [(1, 8, 9, 9)],
    ),
    "by channel": (
        lambda x, w: nd.Convolution(x, w / nd.norm(w), kernel=(3, 3), num_filter=8, num_group=8, no_bias=True),
        {"w": (8, 1, 3, 3)},
        [(1, 8, 9, 9)],
    ),
    "of volumes": (
        lambda x, w: nd.Convolution(x, w / nd.norm(w), kernel=(2, 3, 3), num_filter=16, no_bias=True),
        {"w": (16, 8, 2, 3, 3)},
        [(1, 8, 4, 6, 6)],
    ),
    "with a bias": (
        lambda x, w, b: nd.Convolution(x, w * 2, b / nd.norm(b), kernel=(3, 3), num_filter=16),
        {"w": (16, 8, 3, 3), "b": (16,)},
        [(1, 8, 9, 9)],
    ),
    "deconvolution": (
        lambda x, w: nd.Deconvolution(x, w / nd.norm(w), kernel=(3, 3), num_filter=16, no_bias=True),
        {"w": (8, 16, 3, 3)},
        [(1, 8, 9, 9)],
    ),
    "dense": (
        lambda x, w, b: nd.FullyConnected(x, w * 2, b * 2, num_hidden=64),
        {"w": (64, 32), "b": (64,)},
        [(3, 32)],
    ),
    "of a sample": (
        lambda x, f: nd.Convolution(x, f * 2, kernel=(3, 3), num_filter=16, no_bias=True),
        {},
        [(1, 8, 9, 9), (16, 8, 3, 3)],
    ),
    "a slice of a result": (
        lambda x, f: nd.Convolution(x, (f * 1)[1:17], kernel=(3, 3), num_filter=16, no_bias=True),
        {},
        [(1, 8, 9, 9), (20, 8, 3, 3)],
    ),
}


class Net(gluon.Block):
    def __init__(self, body: Callable[..., Any], weights: dict[str, tuple[int, ...]]) -> None:
        super().__init__()
        self.body, self.names = body, [*weights]
        for name, shape in weights.items():
            setattr(self, name, self.params.get(name, shape=shape))

    def forward(self, *arrays: Any) -> Any:
        return self.body(*arrays, **{name: getattr(self, name).data() for name in self.names})


def made(body: Callable[..., Any], weights: dict[str, tuple[int, ...]]) -> Net:
    mx.random.seed(1)
    net = Net(body, weights)
    net.initialize(mx.init.Uniform(0.3))
    return net


@pytest.mark.parametrize("granularity", ["op", "cell"])
@pytest.mark.parametrize("name", GIVEN)
def test_results_with_computed_weights(name: str, granularity: str) -> None:
    body, weights, shapes = GIVEN[name]
    net, draw = made(body, weights), np.random.RandomState(0)
    samples = [[nd.array(draw.randn(*shape)) for shape in shapes] for _ in range(4)]
    wanted = [net(*sample).asnumpy() for sample in samples]
    net.hybridize(dynamic_batch=True, granularity=granularity)
    for _ in range(2):
        results = [net(*sample) for sample in samples]
        for number, (result, other) in enumerate(zip(results, wanted)):
            assert_close(result.asnumpy(), other, f"sample {number}")


@pytest.mark.parametrize("read", [False, True], ids=["pending", "read"])
@pytest.mark.parametrize("operator", [nd.Convolution, nd.Deconvolution])
def test_results_of_a_batch_as_weights(operator: Any, read: bool) -> None:
    def filters(x: Any, w: Any) -> Any:
        return w * x.mean()

    net = made(filters, {"w": (8, 8, 3, 3)})
    samples = [nd.array(np.random.RandomState(seed).randn(1, 8, 9, 9)) for seed in range(4)]

    def run() -> list[Any]:
        weights = [net(x) for x in samples]
        if read:
            nd.concat(*weights, dim=0).asnumpy()
        given = {"kernel": (3, 3), "num_filter": 8, "no_bias": True}
        results = [operator(x, weight, **given) for x, weight in zip(samples, weights)]
        return [array.asnumpy() for array in (*results, *weights)]

    wanted = run()
    net.hybridize(dynamic_batch=True, granularity="op")
    for result, other in zip(run(), wanted):
        assert_close(result, other, "a result, or a weight")


@pytest.mark.parametrize("sizes", [(6,), (6, 6, 6), (6, 4, 6, 4)], ids=str)
@pytest.mark.parametrize("granularity", ["op", "cell"])
def test_transposed_convolutions_train(granularity: str, sizes: tuple[int, ...]) -> None:
    """MXNet trains them by one call a backward pass: what it adds to, or a view of a weight, fails."""

    class Block(gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            self.inner = gluon.nn.Conv2DTranspose(8, 3, in_channels=4)
            self.scale = self.params.get("scale", shape=(1,))

        def forward(self, x: Any) -> Any:
            return (self.inner(x * self.scale.data()) ** 2).sum()

    net = Block()
    mx.random.seed(1)
    net.initialize(mx.init.Uniform(0.3))
    samples = [nd.array(np.random.RandomState(seed).randn(1, 4, size, size)) for seed, size in enumerate(sizes)]
    parameters = [*net.collect_params().values()]
    wanted: list[Any] = [0.0] * len(parameters)
    for sample in samples:
        with autograd.record():
            loss = net(sample)
        loss.backward()
        wanted = [before + parameter.grad().asnumpy() for before, parameter in zip(wanted, parameters)]
    net.hybridize(dynamic_batch=True, granularity=granularity)
    for _ in range(2):
        with autograd.record():
            total = nd.add_n(*[net(sample) for sample in samples])
        total.backward()
        for parameter, other in zip(parameters, wanted):
            assert_close(parameter.grad().asnumpy(), other, parameter.name)
