"""Writes to arrays and to views of them, which share memory in MXNet: values and gradients are those of eager MXNet."""

from __future__ import annotations

from functools import cache
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd

import gluonjit

NUMBERS = [np.random.RandomState(seed).rand(3, 4) for seed in range(3)]


class Net(gluon.Block):
    """A layer, and what is done with its result `h` and the input `x`, both of them arrays of (3, 4)."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.layer = gluon.nn.Dense(4, in_units=4)
        self.text = text

    def forward(self, x: Any) -> Any:
        names = spaces(h=self.layer(x), x=x)
        exec(self.text, names)
        return names.get("y", names["h"])


def spaces(**names: Any) -> dict[str, Any]:
    """What statements know, and how to make zeros of the interface in use."""
    zeros = mx.np.zeros if mx.util.is_np_array() else nd.zeros
    return {"np": np, "nd": nd, "mx": mx, "zeros": zeros, "autograd": autograd, **names}


def made(text: str, dynamic: bool) -> tuple[Net, list[Any]]:
    """The net, with numbers of its own, and three samples."""
    net = Net(text)
    net.initialize()
    net.layer.weight.set_data(array(np.linspace(-1, 1, 16).reshape(4, 4)))
    net.layer.bias.set_data(array(np.ones(4)))
    if dynamic:
        net.hybridize(dynamic_batch=True)
    return net, samples()


@cache
def net_for(text: str, dynamic: bool, numpy: bool) -> Net:
    """The net for programs that change nothing of it: many are run with one."""
    return made(text, dynamic)[0]


def samples() -> list[Any]:
    return [array(numbers) for numbers in NUMBERS]


def array(numbers: Any) -> Any:
    return mx.np.array(numbers, dtype="float32") if mx.util.is_np_array() else nd.array(numbers, dtype="float32")


def values(inside: str, after: str, dynamic: bool) -> Any:
    """All that a program can see: results, inputs, and what it has put into variables."""
    net, xs = net_for(inside, dynamic, mx.util.is_np_array()), samples()
    hs = [net(x) for x in xs]
    names = spaces(hs=hs, xs=xs, h=hs[0], x=xs[0], net=net)
    exec(after, names)
    seen = {name: names[name].asnumpy() for name in "abhvwxyz" if name in names}
    return seen, [h.asnumpy() for h in hs], [x.asnumpy() for x in xs]


def same(actual: Any, expected: Any) -> None:
    """Compare nested results."""
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        actual, expected = list(actual.values()), list(expected.values())
    if isinstance(expected, (list, tuple)):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected):
            same(one, other)
    else:
        assert np.shape(actual) == np.shape(expected)
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.fixture(params=[False, True], ids=["classic", "numpy"])
def interface(request: pytest.FixtureRequest) -> Any:
    """Run with mx.nd, and with mx.np."""
    if request.param:
        mx.npx.set_np()
    yield request.param
    if request.param:
        mx.npx.reset_np()


VIEWS = ["h[0]", "h[-1]", "h[1:3]", "h[:]", "h[...]", "h[1, 0:2]", "h[:, 0:4]", "h[:, 0:2]", "h[None]", "h[1, None]"]
VIEWS += ["h[::2]", "h[[0, 1]]", "h.T", "h.copy()", "h.reshape((4, 3))", "h.reshape((-1,))[2:7]", "h.detach()"]
VIEWS += ["h[1:3][0]", "h[1:3][0][1:2]", "h[1][1:3]", "h[0].detach()", "h.reshape((2, 6))[1].reshape((3, 2))"]
VIEWS += ["h.as_nd_ndarray()", "h.as_np_ndarray()", "h.as_in_context(mx.cpu())", "h.astype('float32', copy=False)"]

# Each write after what waits, after what was computed, and after another write.
BEFORE = ["", "h.asnumpy(); ", "h += 1; "]
WRITES = ["v[:] = 7", "v += 1", "h[:] = 5", "h *= 2", "v.asnumpy(); h[:] = 5", "w = h[0:2]; v -= 3; w *= 2"]
WRITES += ["y = v * 2; v += 1; w = v * 2; z = h * 2", "y = v * 2; h += 1; w = v * 2"]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("view", VIEWS)
def test_views_of_results_share_memory_as_eagerly(interface: Any, view: str, write: str) -> None:
    for before in BEFORE:
        text = f"{before}v = {view}; {write}"
        same(values("", text, True), values("", text, False))


@pytest.mark.parametrize(
    "text",
    [
        "v = h[0:1]; y = net(v); h[:] = 5; a = net(v); b = net(h)",
        "v = h[0:1]; y = net(v); v[:] = 5; a = net(v); b = net(h)",
        "h[0] = h[1]; h[1] = h[0] * 2",
        "h[0:2] = h[1:3]",
        "h[0] += 1; h[0][1:3] += 1",
        "v = h[0]; hs[1][:] = v; v += 1",
        "for k in range(3): hs[k][k] += k",
        "for v in h: v += 1",
        "z = net(x); v = h[0]; v[:] = 4; y = z + 0",
        "z = net(x); v = z[0]; v[:] = 4; w = h[0]",
        "v = h[0]; x.copyto(h)",
        "v = hs[1][0]; hs[2][0].copyto(v); y = hs[1] + 0",
        "v = x[0]; v += 1; y = net(x)",
        "v = h.reshape((4, 3))[1]; w = h[1]; v[:] = 2; w += 1",
    ],
)
def test_programs_that_write_to_views(interface: Any, text: str) -> None:
    text = text.replace("; for", "\nfor")
    same(values("", text, True), values("", text, False))


@pytest.mark.parametrize(
    "text",
    [
        "v = h[0]; v += 1",
        "v = h[0]; v[:] = 7; y = h * 2",
        "v = h[0]; y = h * 2; v[:] = 7",
        "v = h[0]; h[:] = 3; y = h + v",
        "v = h.reshape((-1,)); v[0:3] = 3; y = h * 2",
        "v = h.detach(); v[:] = 3; y = h * 2",
        "v = h[0:2]; w = v[1]; w += 1; y = v + h[1:3]",
        "h.asnumpy(); v = h[0]; w = v * 2; h[:] = 3; y = h + v + w",
        "h.asnumpy(); v = h[0]; v[:] = 3; y = h + v",
        "h.asnumpy(); h[1:3] += 1; y = h * 2",
        "v = x[0]; v += 1; y = x + h",
        "v = x[1:3]; v[0] = 2; y = x + h",
        "v = x.reshape((4, 3)); v[0] = 2; y = x + h",
        "v = x[0][1:3]; v[:] = 2; y = x + h",
        "v = x[0]; w = v[1:3]; x[:] = 2; y = h[:, 1:3] + w",
        "v = x.detach(); v[:] = 3; y = x + h",
        "z = zeros((3, 4)); v = z[0]; w = v + h[0]; z[:] = 1; y = h + v",
        "z = zeros((3, 4)); v = z[0]; v[:] = 1; y = h + z",
        "z = zeros((3, 4)); z[0] = h[1]; z[1] += 1; y = h + z",
        "with autograd.pause(): v = h[0]; v += 1",
    ],
)
def test_samples_that_write_to_views(interface: Any, text: str) -> None:
    same(values(text, "", True), values(text, "", False))


def gradients(inside: str, between: str, dynamic: bool) -> Any:
    """Values, and the gradient of the weight, of a program that writes between two recorded parts."""
    net, xs = made(inside, dynamic)
    with autograd.record():
        hs = [net(x) for x in xs]
        v, w = hs[0][0], hs[1].reshape((-1,))
    names = spaces(h=hs[0], g=hs[1], v=v, w=w)
    exec(between, names)
    with autograd.record():
        total = sum([(h * h).sum() for h in hs]) + (v * v * v).sum() + (w * w * w).sum()
    total.backward()
    return total.asnumpy(), net.layer.weight.grad().asnumpy(), v.asnumpy(), [h.asnumpy() for h in hs]


@pytest.mark.parametrize(
    "between",
    [
        "v[:] = 2",
        "h[:] = 2",
        "h *= 2; v += 1",
        "w[2:5] = 3",
        "g[1] = 3; w += 1",
        "u = v[1:3]; u[:] = 0.5; g += 1",
        "v.asnumpy(); w.asnumpy(); h += 1; g += 1",
        "u = h.detach(); u[:] = 2",
    ],
)
def test_gradients_go_through_what_was_written_to_outside_of_recording(interface: Any, between: str) -> None:
    same(gradients("", between, True), gradients("", between, False))


def test_views_that_were_not_recorded_may_be_written_to_under_record(interface: Any) -> None:
    text = "with autograd.pause(): v = h[0]\nv[:] = 2\ny = h * 3"
    found = [gradients(text, "", dynamic) for dynamic in (True, False)]
    same(*found)


def test_where_nothing_is_written_views_run_nothing() -> None:
    net, xs = made("", True)
    with gluonjit.batching() as batch:
        hs = [net(x) for x in xs]
        views = [h[1:3].reshape((4, 2))[0] for h in hs] + [h.detach()[0] for h in hs]
        assert batch.report.flushes == 0
        hs[0] += 1
        assert batch.report.flushes == 1
    assert len(views) == 6


TRAINING = [
    "with autograd.record(): h = net(x); v = h[0]; w = x[1]\nw.asnumpy(); v.asnumpy()\n"
    "with autograd.record(): t = (v * v).sum() + (w * w * w).sum()\nt.backward()",
    "with autograd.record(): h = net(x); v = h[0:2]\nh += 1\n"
    "with autograd.record(): t = (net(v) * v).sum() + (h * h).sum()\nt.backward()",
    "with autograd.record(): h = net(x); t = h[0:2]\nt += 1\nt.backward()",
    "h = net(x); v = h[0:2]; v.attach_grad()\n"
    "with autograd.record(): t = (net(v) * v).sum()\nt.backward()\nv -= v.grad\nt = h + 0",
    "h = net(x); v = h[0:2]; h.attach_grad()\n"
    "with autograd.record(): t = (net(h) * h).sum()\nt.backward()\nh -= h.grad\nt = v + 0",
    "with autograd.record(): h = net(x); h.attach_grad(); v = h[0:2]; t = (v * v * v).sum()\n"
    "t.backward()\nh -= h.grad\nt = v + 0",
]


def trained(text: str, dynamic: bool) -> Any:
    """What a program leaves in `t`, and the gradients of the weight and of the input."""
    net, (x, *_) = made("", dynamic)
    x.attach_grad()
    names = spaces(net=net, x=x)
    exec(text, names)
    return names["t"].asnumpy(), net.layer.weight.grad().asnumpy(), x.grad.asnumpy()


@pytest.mark.parametrize("text", TRAINING)
def test_views_have_the_history_that_they_have_eagerly(interface: Any, text: str) -> None:
    same(trained(text, True), trained(text, False))
