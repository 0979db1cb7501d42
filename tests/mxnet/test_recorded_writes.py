"""Writes under autograd.record: what eager MXNet refuses is refused, and what it allows gives eager's numbers."""

from __future__ import annotations

import pickle
from typing import Any, Callable

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd

import gluonjit
from gluonjit.errors import CaptureError

Write = Callable[[Any, Any], Any]


class Net(gluon.Block):
    """A layer, and what is done with its result `h` and the input `x`."""

    def __init__(self, write: Write) -> None:
        super().__init__()
        self.layer = gluon.nn.Dense(4, in_units=4)
        self.write = write

    def forward(self, x: Any) -> Any:
        return self.write(self.layer(x), x)


class OfParts(Net):
    """A layer for what is done with it and the input."""

    def forward(self, x: Any) -> Any:
        return self.write(self.layer, x)


def made(write: Write, numpy: bool, kind: type[Net] = Net) -> tuple[Net, Any]:
    """The net, with numbers of its own, and an input of two rows."""
    array = mx.np.array if numpy else nd.array
    net = kind(write)
    net.initialize()
    net.layer.weight.set_data(array(np.linspace(-1, 1, 16).reshape(4, 4)))
    net.layer.bias.set_data(array(np.ones(4)))
    return net, array([[1.0, -2, 3, 4], [2, 3, -4, 5]])


def outcome(write: Write, numpy: bool, dynamic: bool, kind: type[Net] = Net) -> Any:
    """The loss and the gradient of the weight, or the error."""
    if numpy:
        mx.npx.set_np()
    try:
        net, x = made(write, numpy, kind)
        if dynamic:
            net.hybridize(dynamic_batch=True)
        with autograd.record():
            y = net(x)
            loss = (y * y).sum()
        loss.backward()
        return [float(loss.asnumpy()), net.layer.weight.grad().asnumpy().tolist()]
    except mx.base.MXNetError as error:
        return error
    finally:
        if numpy:
            mx.npx.reset_np()


def statement(text: str) -> Write:
    """A function of h and x that does this and returns h, or y where the text sets it."""

    def write(h: Any, x: Any) -> Any:
        names = {"h": h, "x": x, "mx": mx, "nd": nd, "np": np, "autograd": autograd, "__name__": __name__}
        exec(text, names)
        return names.get("y", names["h"])

    return write


BOTH = [
    "h[:, 0] = 5",
    "h[:] = 5",
    "h[0] = x[0]",
    "h[:] = x",
    "h[np.array([0, 1])] = 1",
    "h[h > 1] = 1",
    "h += 1",
    "h -= x",
    "h *= 2",
    "h /= 2",
    "h %= 2",
    "h += h",
    "h[:, 0] += 1",
    "h[0:1] += 1",
    "v = h[0]\nv += 1",
    "v = h[:, 0:1]\nv[:] = 1",
    "v = h.reshape((-1,))\nv[:] = 1",
    "y = h.copy()\ny += 1",
    "y = h * 2\ny[:, 1] = 1",
    "x.copyto(h)",
    "h.asnumpy()\nh += 1",
]
CLASSIC = [
    "nd.relu(h, out=h)",
    "nd.relu(x, out=h)",
    "nd.clip(h, 0, 1, out=h)",
    "nd.random.uniform(0, 1, shape=h.shape, out=h)",
    "nd.sgd_update(h, nd.ones(h.shape), out=h, lr=0.1)",
]
NUMPY = ["mx.npx.relu(h, out=h)", "mx.np.exp(x, out=h)", "mx.np.add(h, 1, out=h)"]


@pytest.mark.parametrize(
    ("text", "numpy"),
    [(text, False) for text in BOTH + CLASSIC] + [(text, True) for text in BOTH + NUMPY if "relu(h)" not in text],
)
def test_what_mxnet_refuses_is_refused(text: str, numpy: bool) -> None:
    eager = outcome(statement(text), numpy, False)
    if not isinstance(eager, mx.base.MXNetError):  # `mx.npx.relu` takes `out` and gives a new array
        assert numpy and outcome(statement(text), numpy, True) == eager
        return
    refused = outcome(statement(text), numpy, True)
    assert isinstance(refused, CaptureError) and isinstance(refused, mx.base.MXNetError), refused
    for said in ("under autograd.record", "h = h + 1", "already in a computational graph", "(In sample 0, at "):
        assert said in str(refused), refused


ALLOWED = [
    "with autograd.pause():\n    h += 1",
    "with autograd.pause():\n    h[:] = 1",
    "with autograd.pause():\n    h[0] = 1\nh = h * x",
    "with autograd.pause():\n    z = h * 2\nz += 1\ny = z + h",
    "with autograd.pause():\n    z = h * 2\nz[:, 0] = 1\ny = z + h",
    "z = nd.zeros((2, 4))\nz[:, 0] = 1\ny = z + h",
    "z = nd.zeros((2, 4))\nz += 1\ny = z + h",
    "z = nd.zeros((2, 4)) + 1\nz += 1\ny = z + h",
    "z = nd.ones((2, 4)) > 0\nz[0] = 0\ny = z * h",
    "z = nd.ones((2, 4)) * 3\nz[:, 1] = 0\ny = z * h",
    "z = nd.zeros(h.shape)\nnd.elemwise_add(h, x, out=z)\ny = z * x",
    "h.attach_grad()\nwith autograd.pause():\n    h += 1",
]


@pytest.mark.parametrize("text", ALLOWED)
def test_what_mxnet_allows_gives_its_numbers(text: str) -> None:
    loss, gradient = outcome(statement(text), False, False)
    found = outcome(statement(text), False, True)
    assert not isinstance(found, Exception), found
    assert found[0] == pytest.approx(loss, rel=1e-5)
    np.testing.assert_allclose(found[1], gradient, rtol=1e-5, atol=1e-4)


READ = {
    "x += 1\ny = x + h": "y = x + 1 + h",
    "x[:, 0] = 1\ny = x + h": "y = x * nd.array([0, 1, 1, 1]) + nd.array([1, 0, 0, 0]) + h",
    "v = x[0:1]\nv += 1\ny = x + h": "y = x + nd.array([[1], [0]]) + h",
    "z = x + 1\nz += 1\ny = z + h": "y = x + 2 + h",
    "h.asnumpy()\nx += 1": "y = h",
    "z = nd.sin(x)\nh = layer(z)\nz += 1\ny = z + h": "z = nd.sin(x)\ny = z + 1 + layer(z)",
    "z = nd.sin(x)\nh = layer(z)\nh.asnumpy()\nz += 1\ny = z + h": "z = nd.sin(x)\ny = z + 1 + layer(z)",
    "v = x * 1\nv * h\nz = nd.sin(v)\nz += 1\ny = z + h": "y = nd.sin(x) + 1 + h",
    "with autograd.pause():\n    v = layer(x) + 1\nh = layer(v)\nz = nd.sin(v)\nz[:, 0] = 5\ny = z + h": (
        "with autograd.pause():\n    v = layer(x) + 1\n"
        "y = nd.sin(v) * nd.array([0, 1, 1, 1]) + nd.array([5, 0, 0, 0])\ny = y + layer(v)"
    ),
    "v = h.detach()\nz = v * 2\nh = h * z\nz = nd.tanh(z)\nnd.relu(z, out=z)\ny = z + h": (
        "z = h.detach() * 2\ny = nd.relu(nd.tanh(z)) + h * z"
    ),
    "h = multiplied(h, x)\nz = x + x\nz += 1\ny = z * h": "y = (x + x + 1) * multiplied(h, x)",
}
"""Writes to what no gradient goes back from, but is in a graph of MXNet's, and the same without a write."""


@pytest.mark.parametrize("text", READ)
def test_what_no_gradient_goes_back_from_may_be_written_to(text: str) -> None:
    """MXNet refuses it; gradients are of the numbers at the calls."""

    def of(text: str) -> Write:
        def write(layer: Any, x: Any) -> Any:
            names = {"layer": layer, "x": x, "h": layer(x), "nd": nd, "autograd": autograd, "multiplied": multiplied}
            names["__name__"] = __name__
            exec(text, names)
            return names.get("y", names["h"])

        return write

    assert isinstance(outcome(of(text), False, False, OfParts), mx.base.MXNetError)
    found, wanted = outcome(of(text), False, True, OfParts), outcome(of(READ[text]), False, False, OfParts)
    assert found[0] == pytest.approx(wanted[0], rel=1e-5)
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-5, atol=1e-4)


@gluonjit.cell
def multiplied(x: Any, y: Any) -> Any:
    """Of which y is read beside x in the second operator."""
    return nd.sin(y) + x * y


PARTS = [
    "h = layer(x[0:1])\nz = x * 2\nz += 1\ny = z + h",
    "h = layer(x[0:1]) + layer(x[1:2])\nz = nd.sin(x)\nz[0] = 1\ny = z + h",
    "h = nd.add_n(*[layer(row.expand_dims(0)) for row in x])\nz = x * 2\nz[0] = 5\ny = z + h",
    "a, b = x[0:1] * 2, x[1:2] * 3\nh = layer(nd.concat(a, b, dim=0))\na += 1\ny = a + h",
    "a = nd.ones((4,))\nh = layer(nd.stack(a, a))\nb = a * 2\nb += 1\ny = b + h",
    "z = nd.sin(x)\nh = layer(z[1:2])\nz[0] = 5\ny = z + h",
    "z = nd.sin(x)\nh = layer(z[1:2])\nh.asnumpy()\nz[0] = 5\ny = z + h",
]


@pytest.mark.parametrize("text", PARTS)
def test_what_reads_a_part_of_an_array_leaves_the_array_out_of_the_graph(text: str) -> None:
    """MXNet makes a new array of each part, of which alone it notes what has read it."""

    def write(layer: Any, x: Any) -> Any:
        names = {"layer": layer, "x": x, "nd": nd, "__name__": __name__}
        exec(text, names)
        return names["y"]

    eager, found = [outcome(write, False, dynamic, OfParts) for dynamic in (False, True)]
    assert found[0] == pytest.approx(eager[0], rel=1e-5)
    np.testing.assert_allclose(found[1], eager[1], rtol=1e-5, atol=1e-4)


def test_a_mask_of_the_input_may_be_written_before_it_is_used() -> None:
    """What goes back to nothing that learns is in no graph, also where its batch holds what does."""

    class Masked(gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            self.layer = gluon.nn.Dense(4, in_units=4)

        def forward(self, x: Any, mask: Any) -> Any:
            keep = mask * 2
            keep[:, 0] = 1
            return self.layer(x) * keep

    found = []
    for dynamic in (False, True):
        net = Masked()
        net.initialize(mx.init.One())
        if dynamic:
            net.hybridize(dynamic_batch=True)
        samples = [(nd.full((1, 4), k + 1), nd.full((1, 4), k + 2)) for k in range(4)]
        with autograd.record():
            total = gluonjit.add_n([net(*sample).sum() for sample in samples])
        total.backward()
        found.append((total.asscalar(), net.layer.weight.grad().asnumpy().tolist()))
    assert found[0] == found[1]


def test_after_backward_a_result_may_be_written_to() -> None:
    net, x = made(lambda h, x: h, False)
    net.hybridize(dynamic_batch=True)
    with autograd.record():
        h = net(x)
        loss = (h * h).sum()
    loss.backward()
    expected = h.asnumpy() + 1
    with autograd.record():
        h += 1
    assert h.asnumpy().tolist() == expected.tolist()


def test_the_error_names_the_line_outside_of_samples_and_can_be_pickled() -> None:
    net, x = made(lambda h, x: h, False)
    net.hybridize(dynamic_batch=True)
    with autograd.record():
        h = net(x)
        with pytest.raises(CaptureError) as caught:
            h += 1  # the line that writes
    with open(__file__, encoding="utf-8") as source:
        number = next(number for number, line in enumerate(source, 1) if "# the line that writes" in line)
    assert f"test_recorded_writes.py:{number} in " in str(caught.value)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is type(caught.value) and str(copy) == str(caught.value)


def test_a_weight_that_calls_have_read_is_refused_under_record() -> None:
    net, x = made(lambda h, x: h, False)
    net.hybridize(dynamic_batch=True)
    with autograd.record():
        h = net(x)
        weight = net.layer.weight.data()
        with pytest.raises(CaptureError, match=r"under autograd\.record") as caught:
            weight += 1
        assert isinstance(caught.value, mx.base.MXNetError)
    assert h.shape == (2, 4)


class Looks(gluon.Block):
    """Looks words up, and gives what a text sets `h` to."""

    def __init__(self, write: str) -> None:
        super().__init__()
        self.words = gluon.nn.Embedding(8, 4)
        self.write = write

    def forward(self, index: Any) -> Any:
        names = {"net": self, "index": index, "nd": nd, "__name__": __name__}
        exec(self.write, names)
        return names["h"]


@pytest.mark.parametrize("write", ["h = net.words(index)\nh[0] = 0", "h = net.words(index)\nh += 1"])
def test_look_ups_are_in_the_graph(write: str) -> None:
    for dynamic in (False, True):
        net = Looks(write)
        net.initialize()
        if dynamic:
            net.hybridize(dynamic_batch=True)
        with autograd.record(), pytest.raises(mx.base.MXNetError, match="already in a computational graph") as caught:
            net(nd.array([1, 2]))
    assert isinstance(caught.value, CaptureError)
    assert "of shape (2, 4) was written to" in str(caught.value)


def test_numbers_that_a_look_up_has_read_let_in_no_other_array_of_them() -> None:
    """A number of the host's is one row, whichever arrays it is in; MXNet notes arrays, of which a part is another."""
    write = "scale = nd.sin((index + 1).astype('float32'))\nscale *= 2\nh = word * scale.sum()"
    found = []
    for dynamic in (False, True):
        net = Looks(f"word = net.words(index[:1])\n{write}")
        net.initialize(mx.init.One())
        if dynamic:
            net.hybridize(dynamic_batch=True)
        for _ in range(2):  # before the table is known, and after
            with autograd.record():
                y = net(nd.array([6], dtype="int64"))
            y.backward()
            found.append(y.asnumpy())
    np.testing.assert_allclose(found[2:], found[:2], rtol=1e-6)


@pytest.mark.parametrize(
    "write",
    [
        "z = x * 1.5\nz[:] = 2\ny = z + h",  # of nothing that learns, and read by a recorded call only later
        "z = x * 1.5\nz[0:1] = x[0:1]\ny = z + h",
        "z = nd.tanh(x)\nq = z + z\nq.copyto(z)\ny = z * h",
        "with autograd.pause():\n    z = h * 2\nz = nd.sin(z.detach())\nz += 1\ny = z + h",
        "z = nd.tanh(h).detach().copy()\nz += 1\ny = z * h",
        "z = nd.tanh(h).detach() * 2\nz[0:1] = 3\ny = z * h",
        "z = nd.tanh(h).detach().copy()\nz[0, 1] = 3\ny = z * h",
    ],
)
def test_what_goes_back_to_nothing_that_learns_may_be_written_to(write: str) -> None:
    """Where nothing recorded that learns has read it before."""

    def program(h: Any, x: Any) -> Any:
        return statement(write)(h, nd.array(x.asnumpy()))

    eager = outcome(program, False, False)
    assert not isinstance(eager, mx.base.MXNetError)
    found = outcome(program, False, True)
    for numbers, wanted in zip(found, eager):
        np.testing.assert_allclose(numbers, wanted, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize(
    "write",
    [
        "e = nd.tanh(h)\nz = e.detach()\nz += 1\ny = z * e",
        "e = nd.tanh(h)\ne.asnumpy()\nz = e.detach()\nz += 1\ny = z * e",
        "e = nd.tanh(h)\nz = e.detach().reshape((-1,))[0:2]\nz[:] = 1\ny = h * e",
    ],
)
def test_memory_that_a_graph_keeps_is_not_written_to_by_another_name(write: str) -> None:
    """MXNet accepts it, and gives gradients of the numbers that were written."""
    found = outcome(statement(write), False, True)
    assert isinstance(found, CaptureError) and "in a computational graph" in str(found)


class Calls(gluon.Block):
    """A layer, called with programs of it and an input."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = gluon.nn.Dense(3, in_units=3)

    def forward(self, program: Any, x: Any) -> Any:
        return program(self, x)


@pytest.mark.parametrize("numpy", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
def test_numbers_that_do_not_fit_are_an_error_of_their_own(numpy: bool, dynamic: bool) -> None:
    error = mx.base.MXNetError if numpy else ValueError

    def write(h: Any, x: Any) -> Any:
        with pytest.raises(error, match="broadcast"):
            h[:] = h.T
        return h

    assert isinstance(outcome(write, numpy, dynamic), list)


def test_a_write_before_backward_leaves_gradients_of_the_numbers_at_the_call() -> None:
    """Eager MXNet's own backward reads what `exp` and `dot` have kept, and so what was written."""
    net = Calls()
    net.initialize()
    net.hybridize(dynamic_batch=True)
    x, w = nd.array([[0.2, -0.9, -0.3]]), nd.array([[0.5], [0.4], [0.3]])
    x.attach_grad()
    w.attach_grad()

    def program(net: Calls, x: Any) -> Any:
        p = nd.exp(-x * x)
        loss = (p * nd.dot(x, w).sum()).sum()
        with autograd.pause():
            p[0:1] = 3
        return loss

    with autograd.record():
        loss = net(program, x)
    loss.wait_to_read()
    w[:] = 7
    loss.backward()
    given = x.asnumpy()
    kept = np.array([[0.5, 0.4, 0.3]], dtype="float32")
    p = np.exp(-given * given)
    wanted = -2 * given * p * (given * kept).sum() + p.sum() * kept
    np.testing.assert_allclose(x.grad.asnumpy(), wanted, rtol=1e-5)


class Masked(gluon.Block):
    """Writes to an array that is made like another, which a layer has read before or after."""

    def __init__(self, order: str) -> None:
        super().__init__()
        self.layer = gluon.nn.Dense(4, in_units=4)
        self.order = order

    def forward(self, x: Any, k: int) -> Any:
        state = nd.zeros((1, 4))
        if self.order == "made before":
            mask = nd.zeros((1, 4))
        y = self.layer(state) + x
        if self.order == "read between":
            y.asnumpy()
        if self.order != "made before":
            mask = nd.zeros((1, 4))
        mask[0, k] = 3
        return (self.layer(y * mask) + state).sum()


@pytest.mark.parametrize("order", ["made after", "made before", "read between"])
def test_an_array_made_like_one_that_was_read_may_be_written_to(order: str) -> None:
    found = []
    for dynamic in (False, True):
        net = Masked(order)
        net.initialize(mx.init.Constant(0.3))
        if dynamic:
            net.hybridize(dynamic_batch=True)
        with autograd.record(), gluonjit.batching(granularity="cell") as batch:
            total = nd.add_n(*[net(nd.ones((1, 4)) * k, k) for k in range(4)])
        total.backward()
        found.append([total.asscalar(), net.layer.weight.grad().asnumpy().tolist()])
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-5)
    assert batch.report.flushes == (5 if order == "read between" else 1)
