"""What the fuzzer found, each as the smallest program: batched it gives what it gives eagerly."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn
from support import assert_close

import gluonjit


class Net(gluon.Block):
    """Calls a program with itself and the arrays."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.embed = nn.Embedding(7, 3)
            self.dense = nn.Dense(3, in_units=3)
            self.other = nn.Dense(2, in_units=3)

    def forward(self, program: Callable[..., Any], *arrays: Any) -> Any:
        return program(self, *arrays)


@pytest.fixture
def net() -> Any:
    made = Net()
    made.initialize()
    for name, parameter in made._collect_params_with_prefix().items():
        parameter.set_data(nd.cos(nd.arange(np.prod(parameter.shape)) + len(name)).reshape(parameter.shape))
    yield made
    made.hybridize(dynamic_batch=False)


def same(net: Net, run: Callable[[], dict[str, Any]], **options: Any) -> None:
    """Run eagerly and batched, and compare what `run` returns and all gradients."""
    found = []
    for batched in (False, True):
        net.hybridize(dynamic_batch=batched, **(options if batched else {}))
        for parameter in net.collect_params().values():
            parameter.grad()[:] = 7  # what backward does not reach keeps it
        result = {name: array.asnumpy().copy() for name, array in run().items()}
        for name, parameter in net._collect_params_with_prefix().items():
            result[name] = parameter.grad().asnumpy().copy()
        found.append(result)
    for name, wanted in found[0].items():
        assert_close(found[1][name], wanted, name)


def test_a_lazy_value_is_assigned_to_an_array(net: Net) -> None:
    """MXNet takes arrays of the very same class alone, and went round in circles for others."""

    def program(net: Net, x: Any) -> Any:
        with autograd.pause():
            p = nd.zeros((2, 3))
            p[0:1] = nd.sin(x)[0:1]
            p[:] = p * 2 + x
        return net.dense(x) * p

    x = nd.array([[1, 2, 3], [4, 5, 6.0]])

    def run() -> dict[str, Any]:
        q = nd.zeros((2, 3))
        with autograd.record():
            y = net(program, x)
            loss = y.sum()
        loss.backward()
        q[:] = net(program, x)
        return {"y": y, "q": q, "copy": nd.array(y)}

    same(net, run)


def test_backward_leaves_alone_what_it_does_not_reach(net: Net) -> None:
    """A loss that does not use a layer leaves its gradient as it was, with other losses in the batch or without."""
    x = nd.array([[1, 2, 3.0]])

    def run() -> dict[str, Any]:
        with autograd.record():
            losses = [net(lambda net, x, layer=layer: layer(x).sum(), x) for layer in (net.dense, net.other)]
            unused = net(lambda net, x: net.embed(nd.array([1, 2])), x)
        losses[0].backward()
        return {"losses": nd.concat(*losses, dim=0), "unused": unused}

    same(net, run)


def test_losses_one_by_one(net: Net) -> None:
    """Each backward writes the gradients that its own loss has, the last one's stay."""
    arrays = [nd.array(np.cos(np.arange(3 * n) + n).reshape(n, 3)) for n in (1, 2, 2)]
    for array in arrays:
        array.attach_grad()

    def run() -> dict[str, Any]:
        layers = [net.dense, net.other, net.other]
        with autograd.record():
            losses = [
                net(lambda net, x, layer=layer: nd.sin(layer(x * 2)).sum(), x) for layer, x in zip(layers, arrays)
            ]
            total = gluonjit.add_n(losses)
        for loss in losses:
            loss.backward()
        return {"total": total, **{f"x{k}": array.grad for k, array in enumerate(arrays)}}

    same(net, run)


def test_equal_losses_one_by_one(net: Net) -> None:
    """Equal calls share a node, and backward may begin at each of them."""
    x = nd.array([[1, 2, 3.0]])

    def run() -> dict[str, Any]:
        with autograd.record():
            losses = [net(lambda net, x: net.dense(x.copy()).sum(), x) for _ in range(3)]
        for loss in losses:
            loss.backward()
        return {}

    same(net, run)


def test_an_input_without_gradient_beside_one_with(net: Net) -> None:
    """Inputs of one shape lie in one arena; backward through one of them says nothing about the other."""
    x, y = nd.array([[1, 2, 3.0]]), nd.array([[3, 2, 1.0]])
    x.attach_grad()

    def run() -> dict[str, Any]:
        x.grad[:] = 5
        with autograd.record():
            one = net(lambda net, x: nd.sin(x).sum(), x)
            other = net(lambda net, x: (nd.sin(x) * net.dense(x)).sum(), y)
        other.backward()
        return {"x": x.grad, "one": one}

    same(net, run)


def test_words_beside_an_input_that_learns(net: Net) -> None:
    """Indices of type float32 lie in the arena of an input with a gradient, and get none themselves."""
    x, words = nd.array([0.8]), nd.array([6.0])
    x.attach_grad()

    def run() -> dict[str, Any]:
        with autograd.record():
            loss = net(lambda net, x, words: (net.embed(words[:1]) * x.reshape((1, 1))).sum(), x, words)
        loss.backward()
        return {"x": x.grad}

    same(net, run)


def test_an_input_that_was_read_learns(net: Net) -> None:
    """A value of an input is read outside the recording; what is captured afterwards still goes back to the input."""
    x = nd.array([[-0.3]])
    x.attach_grad()

    def program(net: Net, x: Any) -> Any:
        with autograd.pause():
            low = bool(x.sum() < 0.1)
        return nd.sin(x) if low else x

    def run() -> dict[str, Any]:
        with autograd.record():
            loss = net(program, x).sum()
        loss.backward()
        return {"x": x.grad}

    same(net, run)


@pytest.mark.parametrize("options", [{}, {"max_nodes": 2}])
def test_results_of_a_minibatch_that_was_differentiated(net: Net, options: dict[str, Any]) -> None:
    """What backward went through is history: in the next minibatch its results are constants, as with MXNet's own."""
    x = nd.array([[1, 2, 3.0]])

    def run() -> dict[str, Any]:
        with autograd.record():
            state = net(lambda net, x: nd.tanh(net.dense(x) * 0.1), x)
            unread = net(lambda net, x: nd.sin(net.dense(x)), x)
            loss = (state * state).sum()
        loss.backward()
        with autograd.record():
            loss = net(lambda net, x: (net.other(x) * 2).sum(), state)
        loss.backward()
        return {"unread": unread}

    same(net, run, **options)


def test_grad_of_what_depends_on_nothing(net: Net) -> None:
    x = nd.array([[1, 2, 3.0]])
    net.hybridize(dynamic_batch=True)
    with autograd.record():
        y = net(lambda net, x: nd.sin(x), x)
    with pytest.raises(Exception, match="attach_grad"):
        autograd.grad(y, [x])


def test_a_result_that_is_an_argument_does_not_depend_on_the_cell(net: Net) -> None:
    """Backward from it leaves the gradients of the cell's weights as they were."""
    x = nd.array([[1, 2, 3.0]])
    x.attach_grad()

    class Passes(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.inner = gluon.nn.Dense(3, in_units=3, weight_initializer="ones")

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return self.inner(x), x

    net.passes = Passes()
    net.passes.initialize()

    def run() -> dict[str, Any]:
        with autograd.record():
            whole = net(lambda net, x: nd.tanh(net.passes(x)[0]).sum(), x)
            part = net(lambda net, x: (net.passes(x * 2)[1] * 3).sum(), x)
        whole.backward()
        part.backward()
        return {"input": x.grad}

    same(net, run)


def test_a_copy_is_no_view(net: Net) -> None:
    x = nd.array([[1, 2, 3.0]])

    def run() -> dict[str, Any]:
        def program(net: Net, x: Any) -> Any:
            with autograd.pause():
                half = x.copy()
                half[:] = half * 0.5
            return x + half

        return {"sum": net(program, x), "input": x}

    same(net, run)


def test_a_view_shows_what_is_written_to_its_array(net: Net) -> None:
    x = nd.array([[1, 2, 3.0], [4, 5, 6]])

    def run() -> dict[str, Any]:
        x[:] = 1
        view = net(lambda net, x: x[0:1], x)
        before = net(lambda net, x: x[0:1] * 2, x)
        x[:] = 5
        after = net(lambda net, view: view * 3, view)
        return {"view": view, "before": before, "after": after}

    same(net, run)


def test_a_copy_is_as_of_the_call(net: Net) -> None:
    x = nd.array([[1, 2, 3.0], [4, 5, 6]])

    def run() -> dict[str, Any]:
        x[:] = 1
        copied = net(lambda net, x: nd.slice_axis(x, axis=0, begin=0, end=1), x)
        x[:] = 5
        return {"copied": copied}

    same(net, run)


def test_what_is_not_learned_in_a_row_leads_back_nowhere(net: Net) -> None:
    """Rows of inputs lie together: a step that learns nothing from one must not go back into the others."""
    a, b = nd.array([0.3, -0.7, 1.0, 0.5]), nd.array([1.0, -0.1, 0.5, 0.1])
    a.attach_grad()
    b.attach_grad()

    def run() -> dict[str, Any]:
        with autograd.record():
            first = nd.sin(net(lambda net, x: x, a)).sum()
            picked = net(lambda net, x: nd.pick(nd.stack(x, axis=1), nd.array([0, 0, 0, 0]), axis=1), b)
            second = nd.sin(picked).sum()
        first.backward()
        second.backward()
        return {"first": a.grad, "second": b.grad}

    same(net, run)


def test_one_row_in_two_flushes_and_two_backwards(net: Net) -> None:
    """Equal words are one row: that one loss went back through it does not keep another loss from doing so."""
    many, one = nd.array([1, 2, 3]), nd.array([2], dtype="int32")

    def program(net: Net, tokens: Any) -> Any:
        words = net.embed(tokens)
        return words.sum() + nd.sin(net.dense(words[0:1])).sum() + net.embed(tokens)[0].sum()

    def run() -> dict[str, Any]:
        with autograd.record():
            losses = [net(lambda net, tokens: net.embed(tokens).sum() * 2, many), net(program, one)]
        losses[0].backward()
        losses[1].backward()
        return {}

    same(net, run, max_nodes=3)


def test_what_is_read_under_pause_keeps_its_gradient(net: Net) -> None:
    x = nd.array([[1, 2, 3.0], [4, 5, 6]])
    x.attach_grad()

    def program(net: Net, x: Any) -> Any:
        row = x[0:][-1:]
        with autograd.pause():
            half = row.copy()
            half[:] = half * 0.5
        return net.dense(row + half).sum()

    def run() -> dict[str, Any]:
        with autograd.record():
            loss = net(program, x)
        loss.backward()
        return {"input": x.grad}

    same(net, run)


def test_an_array_used_next_to_a_learned_one(net: Net) -> None:
    """MXNet gives it an entry in the history, which is gone after the first of two passes backward."""
    learned, constant = nd.array([0.7, 0.7, -0.3]), nd.array([0.8, 0.6, 0.1])
    learned.attach_grad()

    def program(net: Net, x: Any) -> Any:
        return nd.tanh(nd.dot(x, net.other.weight.data(), transpose_b=True))

    def loss_of(value: Any) -> Any:
        return (value * value * 1.3 + nd.sin(value * 1.7 + 0.3)).mean().astype("float32")

    def run() -> dict[str, Any]:
        with autograd.record():
            values = [net(program, learned), constant, net(program, constant)]
            total = gluonjit.add_n([loss_of(value) for value in values])
        total.backward()
        return {"input": learned.grad}

    same(net, run, max_nodes=1)


def test_a_copy_made_in_a_pause_of_an_input_met_there_first(net: Net) -> None:
    """It has no history, though it is rows of what learns."""
    given = nd.array([[0.5, -0.2, 0.3]])
    given.attach_grad()

    def program(net: Net, x: Any) -> Any:
        with autograd.pause():
            written = net.dense(x)
            written[0:1] = 0.5
            p = x.copy()
        return p * 1.5 + net.dense(written)

    def run() -> dict[str, Any]:
        given.grad[:] = 7
        with autograd.record():
            total = (net(program, given) * 2).sum() + (given * 0).sum()
        total.backward()
        return {"input": given.grad}

    same(net, run)


def test_a_copy_of_a_copy_from_an_earlier_batch() -> None:
    """The first is of an input's rows, which have other numbers in the batch that the second one is captured in."""

    class Copies(gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            self.layer = gluon.nn.Dense(2, in_units=2)

        def forward(self, x: Any) -> Any:
            first = x[1:2].copy()
            written = self.layer(x * 2)
            written[:] = 3  # runs what waits
            later = self.layer(nd.ones((4, 2)) * 1)
            return first.copy(), later

    found = []
    for dynamic in (False, True):
        net = Copies()
        net.initialize()
        net.layer.weight.set_data(nd.ones((2, 2)))
        if dynamic:
            net.hybridize(dynamic_batch=True, granularity="cell")
        found.append([array.asnumpy().tolist() for array in net(nd.arange(6).reshape((3, 2)))])
    assert found[0] == found[1]


@pytest.mark.parametrize("read", ["copyto", "handle", "asnumpy"])
def test_a_copy_of_an_input_that_was_read_and_written_to_has_its_own_numbers(read: str) -> None:
    """`x.copyto(y)` looks at the handle of `y` before it writes."""

    class Copying(gluon.Block):
        def forward(self, x: nd.NDArray, y: nd.NDArray) -> nd.NDArray:
            copy = x.copy()
            if read == "handle":
                assert copy.handle is not y.handle
            elif read == "asnumpy":
                copy.asnumpy()
            y.copyto(copy)
            return copy * 2.0 + x

    net = Copying()
    x, y = nd.array([1.0, 2.0, 3.0]), nd.array([5.0, 7.0, 11.0])
    wanted = net(x, y).asnumpy()
    net.hybridize(dynamic_batch=True, granularity="batched")
    assert (net(x, y).asnumpy() == wanted).all()
    with autograd.record():
        found = net(x, y)
    assert (found.asnumpy() == wanted).all()
