"""Weights that calls are given, beside what is captured: constants of the calls, as their own weights are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd

import gluonjit

SIZE = 6


class Recurrent(gluon.Block):
    """A recurrent net whose step a test gives."""

    def __init__(self, step: Callable[..., Any], req: str = "write") -> None:
        super().__init__()
        self.step = step
        with self.name_scope():
            self.w = self.params.get("w", shape=(SIZE, SIZE), grad_req=req)
            self.many = [self.params.get(f"m{k}", shape=(SIZE, SIZE)) for k in range(8)]
            self.b = self.params.get("b", shape=(SIZE,))
            self.cell = gluon.rnn.GRUCell(SIZE, input_size=SIZE)

    def forward(self, xs: list[Any]) -> Any:
        h = nd.zeros((1, SIZE), ctx=xs[0].context)
        for k, x in enumerate(xs):
            h = self.step(self, x, h, k)
        return h.sum()


@gluonjit.cell
def product(x: Any, h: Any, w: Any, b: Any) -> Any:
    return nd.tanh(nd.dot(x, w) + nd.dot(h, w, transpose_b=True) + b)


@gluonjit.cell
def of_parts(x: Any, h: Any, weights: tuple[Any, ...]) -> Any:
    w, b = weights
    assert w.shape == (SIZE, SIZE)
    return nd.tanh(nd.dot(x, w.T) + h * w[1] + w.reshape((-1,))[2] + b.expand_dims(0)) * w.slice_axis(0, 1, 3).sum()


@gluonjit.cell
def given_back(x: Any, w: Any) -> Any:
    return nd.dot(x, w), w


@gluonjit.cell
def of_weights(w: Any, b: Any) -> Any:
    return w * b


def in_line(net: Any, x: Any, h: Any, k: int) -> Any:
    w, b = net.w.data(x.context), net.b.data(x.context)
    z = nd.sigmoid(nd.dot(x, w) + nd.dot(h, w) + b)
    return (1 - z) * h + z * nd.tanh(z + b)


STEPS: dict[str, Callable[..., Any]] = {
    "in line": in_line,
    "of a function": lambda net, x, h, k: product(x, h, net.w.data(x.context), net.b.data(x.context)),
    "parts of one": lambda net, x, h, k: of_parts(x, h, (net.w.data(x.context), net.b.data(x.context))),
    "many": lambda net, x, h, k: product(x, h, net.many[int(x[0, 0].asscalar() * 40) % 8].data(x.context), h),
    "layers": lambda net, x, h, k: product(x, h, net.many[k % 8].data(x.context), net.b.data(x.context)),
    "a state": lambda net, x, h, k: net.cell(x, [h + net.b.data(x.context)])[0],
    "given back": lambda net, x, h, k: nd.dot(*given_back(x, net.w.data(x.context))) + h * net.b.data(x.context),
    "of weights alone": lambda net, x, h, k: nd.tanh(
        nd.dot(x, of_weights(net.w.data(x.context), net.b.data(x.context))) + h
    ),
}


def trained(net: Any, learns: bool, contexts: list[Any]) -> list[Any]:
    """The losses and the gradients of some minibatches."""
    numbers, found = np.random.default_rng(3), []
    for sizes in ((1, 4, 2, 5), (3, 3, 1, 2), (2, 6, 1, 1)):
        samples = [[numbers.normal(size=(1, SIZE)).astype("float32") for _ in range(size)] for size in sizes]
        with autograd.record() if learns else autograd.pause():
            losses = [net([nd.array(x, ctx=contexts[k % len(contexts)]) for x in xs]) for k, xs in enumerate(samples)]
        if learns:
            autograd.backward(losses)
            for parameter in net.collect_params().values():
                if parameter.grad_req != "null":
                    found += [gradient.asnumpy() for gradient in parameter.list_grad()]
            for array in net.w.list_data():
                array[:] = array * 0.9
                array[1:3] += 0.1
            net.b.set_data(net.b.data(contexts[0]) * 0.5)
        found += [loss.asnumpy() for loss in losses]
    return found


def compare(name: str, learns: bool, contexts: list[Any], req: str) -> None:
    found = []
    for batched in (False, True):
        mx.random.seed(1)
        np.random.seed(1)
        net = Recurrent(STEPS[name], req)
        net.initialize(mx.init.Uniform(0.5), ctx=contexts)
        net.hybridize(dynamic_batch=batched, **({"granularity": "cell", "scheduler": "depth"} if batched else {}))
        found.append(trained(net, learns, contexts))
    for eager, own in zip(*found):
        np.testing.assert_allclose(own, eager, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("learns", [True, False])
@pytest.mark.parametrize("name", STEPS)
def test_they_have_the_values_and_gradients_of_eager(name: str, learns: bool) -> None:
    compare(name, learns, [mx.cpu(0)], "write")


@pytest.mark.parametrize("req", ["add", "null"])
@pytest.mark.parametrize("name", STEPS)
def test_gradients_go_where_they_are_asked_to_go(name: str, req: str) -> None:
    compare(name, True, [mx.cpu(0)], req)


@pytest.mark.parametrize("name", ["in line", "of a function", "parts of one"])
def test_on_several_contexts(name: str) -> None:
    compare(name, True, [mx.cpu(0), mx.cpu(1)], "write")


def test_they_are_not_gathered() -> None:
    for name in ("in line", "of a function", "parts of one"):
        net = Recurrent(STEPS[name])
        net.initialize()
        net.hybridize(dynamic_batch=True, granularity="cell", scheduler="depth")
        for _ in range(2):
            for loss in [net([nd.ones((1, SIZE)) * k for k in range(3)]) for _ in range(8)]:
                loss.asscalar()
        assert gluonjit.explain().gathered <= 8 * 3 * 3 * SIZE * 4  # rows of each call, and no matrix
