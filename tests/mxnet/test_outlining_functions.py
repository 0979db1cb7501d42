"""Functions of the program that are no methods of a block, and operators by their rows: values, gradients, calls."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import pytest
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

import gluonjit
from gluonjit.engines.mxnet.capture.outlining import KNOWN
from gluonjit.hybrid.capture.outlining.free_functions import forget_functions

SIZE = 4
LOG: list[Any] = []
BATCHED: dict[str, Any] = {"granularity": "cell"}


@pytest.fixture(autouse=True)
def anew() -> Any:
    """No function has cells yet."""
    LOG.clear()
    yield
    forget_functions()


class Net(gluon.Block):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.out = nn.Dense(SIZE, in_units=SIZE), nn.Dense(5, in_units=SIZE)

    def forward(self, xs: Any) -> Any:
        h = nd.zeros((1, SIZE))
        for x in xs:
            h = nd.tanh(self.a(h + x))
        return self.out(h)


def log_sum_exp(x: Any, axis: int) -> Any:
    most = x.max(axis=axis, keepdims=True)
    return nd.log(nd.exp(nd.broadcast_sub(x, most)).sum(axis=axis)) + most.squeeze(axis)


def entropy(net: Any, s: Any) -> Any:
    out = net(s[0])
    return (log_sum_exp(out, axis=1) - out[0, :2].mean()) * 0.5


def distance(net: Any, s: Any) -> Any:
    v = net(s[0])
    d = nd.broadcast_sub(v[:, :2], s[1].expand_dims(0))
    return (d * d).sum(axis=1) + 0.1 * nd.abs(v[:, 2:]).mean() - nd.log(nd.exp(v).sum() + 1)


def negative(net: Any, s: Any) -> Any:
    return -net(s[0])[0].mean()


def logs(net: Any, s: Any) -> Any:
    out = nd.tanh(net(s[0])) * 2
    LOG.append(len(s[0]))
    found = nd.exp(out - 1).sum()
    LOG.append("end")
    return found


def writes(net: Any, s: Any) -> Any:
    with autograd.pause():
        out = net(s[0]) * 2 + 1
        part = out[0, :2]
        first = out[:, 1:] * 2
        part[:] = 5
        out[:, 3:] = 7
    return net(s[0]).sum() * 2 + (out * 3).sum() + part.sum() + first.sum()


def expanded(net: Any, s: Any) -> Any:
    with autograd.pause():
        out = net(s[0]) * 2
        one, other = out.expand_dims(0), out.reshape((5, 1))
        one += 1
        other += 3
    return (one.sum() + out.sum() * 2 + other.sum() * 3) * 0 + net(s[0]).sum() * one.mean() * out.mean()


FUNCTIONS = [entropy, distance, negative, logs, writes, expanded]


def both() -> tuple[Any, Any]:
    nets = [Net(), Net()]
    for net in nets:
        net.initialize(mx.init.Uniform(0.5))
        net([nd.ones((1, SIZE))])
    for one, other in zip(*[net.collect_params().values() for net in nets]):
        other.set_data(one.data())
    nets[1].hybridize(dynamic_batch=True, **BATCHED)
    return nets[0], nets[1]


def samples(seed: int, count: int = 6) -> list[Any]:
    mx.random.seed(seed)
    return [
        ([nd.random.normal(shape=(1, SIZE)) for _ in range(1 + (k + seed) % 4)], nd.random.normal(shape=(2,)))
        for k in range(count)
    ]


def run(function: Any, net: Any, given: list[Any], training: bool) -> tuple[list[Any], list[Any]]:
    LOG.clear()
    if training:
        with autograd.record():
            found = [function(net, s) for s in given]
            total = sum(each.sum() for each in found)
        total.backward()
    else:
        found = [function(net, s) for s in given]
    gradients = [p.grad() for p in net.collect_params().values()] if training else []
    return [x.asnumpy() for x in [*found, *gradients]], list(LOG)


@pytest.mark.parametrize("training", [True, False], ids=["training", "inference"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_values_gradients_and_effects_are_those_of_the_eager_program(function: Any, training: bool) -> None:
    eager, net = both()
    for seed in range(4):
        expected, found = run(function, eager, samples(seed), training), run(function, net, samples(seed), training)
        for one, other in zip(expected[0], found[0]):
            assert abs(one - other).max() <= 1e-5 * max(1.0, abs(one).max())
        assert found[1] == expected[1]


@pytest.mark.parametrize("function", [entropy, distance, negative], ids=lambda function: function.__name__)
def test_a_function_is_one_call_and_one_launch_from_the_second_minibatch_on(function: Any) -> None:
    net = both()[1]
    reports = []
    for seed in range(2):
        given = samples(seed)
        with gluonjit.batching(**BATCHED) as batch:
            found = [function(net, s) for s in given]
        assert len(found) == 6
        reports.append(batch.report)
    (row,) = [row for name, row in reports[1].kinds.items() if name.startswith(function.__name__)]
    assert row == (6, 6, 1)
    assert reports[1].launches < reports[0].launches


def test_functions_of_the_framework_are_known_by_the_rows_of_their_operators() -> None:
    for name in "softmax batch_dot expand_dims squeeze transpose broadcast_to tile repeat norm swapaxes".split():
        assert KNOWN.function(getattr(nd, name)), name
    for name in "squeeze expand_dims transpose softmax norm broadcast_to swapaxes".split():
        assert KNOWN.method(name), name
    for name in "Dropout RNN BatchNorm Embedding Reshape sample_normal random_normal linalg_potrf zeros".split():
        assert not KNOWN.function(getattr(nd, name)), f"{name} draws, keeps state, looks up, is a view, or may fail"
    assert not any(map(KNOWN.method, "reshape detach copy asnumpy attach_grad backward take one_hot".split()))
