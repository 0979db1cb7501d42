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


def of_views(net: Any, x: Any, h: Any, k: int) -> Any:
    w, b = net.w.data(x.context), net.b.data(x.context)
    z = nd.sigmoid(nd.dot(x[:, :3], w[:3]) + nd.dot(h, w.T) + b.reshape((1, -1)))
    return (1 - z) * h * b[2] + nd.tanh(nd.dot(x[:, 2:], w[1:, 2:].T)[:, :3].sum() + z)


def taken_without_recording(net: Any, x: Any, h: Any, k: int) -> Any:
    w = net.w.data(x.context)
    with autograd.pause():
        part = w[:3]
    return nd.tanh(nd.dot(x[:, :3], part) + nd.dot(h[:, 3:], w[3:]) + net.b.data(x.context))


def detached(net: Any, x: Any, h: Any, k: int) -> Any:
    w = net.w.data(x.context)
    return nd.tanh(
        nd.dot(x, w.detach().T) + nd.dot(h, w[:3].detach(), transpose_b=True).sum() + w[k % 6] + net.b.data(x.context)
    )


def written_copy(net: Any, x: Any, h: Any, k: int) -> Any:
    turned = net.w.data(x.context).T
    if not autograd.is_recording():
        turned[1:2] = 0.5 * k
        turned[0][:] = 2
    return nd.tanh(nd.dot(x, turned) + h * net.b.data(x.context))


def read_in_the_middle(net: Any, x: Any, h: Any, k: int) -> Any:
    w = net.w.data(x.context)[1:4]
    h = nd.tanh(nd.dot(x[:, :3], w) + h + net.b.data(x.context))
    if h.sum().asscalar() > 0:
        h = h * w[1] + nd.dot(x[:, 3:], w)
    return h


STEPS: dict[str, Callable[..., Any]] = {
    "in line": in_line,
    "of a function": lambda net, x, h, k: product(x, h, net.w.data(x.context), net.b.data(x.context)),
    "parts of one": lambda net, x, h, k: of_parts(x, h, (net.w.data(x.context), net.b.data(x.context))),
    "many": lambda net, x, h, k: product(x, h, net.many[int(x[0, 0].asscalar() * 40) % 8].data(x.context), h),
    "layers": lambda net, x, h, k: product(x, h, net.many[k % 8].data(x.context), net.b.data(x.context)),
    "a state": lambda net, x, h, k: net.cell(x, [h + net.b.data(x.context)])[0],
    "views": of_views,
    "without recording": taken_without_recording,
    "detached": detached,
    "a copy that is written to": written_copy,
    "read in the middle": read_in_the_middle,
    "many rows": lambda net, x, h, k: nd.tanh(x * net.many[k % 7].data(x.context)[k % 6] + h * net.b.data(x.context)),
    "of a cell": lambda net, x, h, k: product(x, h, net.w.data(x.context).T, net.b.data(x.context)[None] * 2),
    "flattened": lambda net, x, h, k: (
        h
        + (nd.dot(x, net.w.data(x.context).reshape((2, 3, 6))[1], transpose_b=True) + net.b.data(x.context)[3:]).tile(
            (1, 2)
        )
    ),
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


@pytest.mark.parametrize("name", ["in line", "of a function", "parts of one", "views", "of a cell"])
def test_on_several_contexts(name: str) -> None:
    compare(name, True, [mx.cpu(0), mx.cpu(1)], "write")


def test_they_are_not_gathered() -> None:
    for name in ("in line", "of a function", "parts of one", "views", "flattened"):
        net = Recurrent(STEPS[name])
        net.initialize()
        net.hybridize(dynamic_batch=True, granularity="cell", scheduler="depth")
        for _ in range(2):
            for loss in [net([nd.ones((1, SIZE)) * k for k in range(3)]) for _ in range(8)]:
                loss.asscalar()
        assert gluonjit.explain().gathered <= 8 * 3 * 8 * SIZE * 4  # rows of each call, and no matrix


def test_samples_that_go_backward_by_themselves() -> None:
    found = []
    for batched in (False, True):
        mx.random.seed(1)
        np.random.seed(1)
        net = Recurrent(of_views, "add")
        net.initialize(mx.init.Uniform(0.5))
        net.hybridize(dynamic_batch=batched, **({"granularity": "cell", "scheduler": "depth"} if batched else {}))
        for size in (2, 3, 1):
            with autograd.record():
                loss = net([nd.ones((1, SIZE)) * k for k in range(size)])
            loss.backward()
            with autograd.record():
                whole = (net.w.data().T ** 2).sum()
            whole.backward()
        found.append(net.w.grad().asnumpy())
    np.testing.assert_allclose(found[1], found[0], rtol=2e-5, atol=2e-5)


def test_a_layer_whose_samples_go_backward_by_themselves() -> None:
    """A recurrent layer takes parts of its weights, whose history each pass goes through."""
    found = []
    for batched in (False, True):
        mx.random.seed(1)
        np.random.seed(1)
        net = mx.gluon.rnn.LSTM(SIZE, input_size=SIZE)
        net.initialize(mx.init.Uniform(0.5))
        net.collect_params().setattr("grad_req", "add")
        net.hybridize(dynamic_batch=batched, **({"granularity": "op", "scheduler": "depth"} if batched else {}))
        with autograd.record():
            losses = [net(nd.ones((size, 1, SIZE)) * size).sum() for size in (2, 2, 1)]
        for loss in losses:
            loss.backward()
        found.append([each.grad().asnumpy() for _, each in sorted(net._collect_params_with_prefix().items())])
    for batched_, eager in zip(found[1], found[0]):
        np.testing.assert_allclose(batched_, eager, rtol=2e-5, atol=2e-5)
