"""Gradients of gradients, where MXNet has them: values, gradients and parameters against the per-sample program."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import mxnet as mx
import pytest
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn
from numpy_support import numpy_program
from support import assert_close, rows

from gluonjit.engines.mxnet.run import recorded
from gluonjit.engines.mxnet.run.program import interpret
from gluonjit.errors import CaptureError

SIZE = 4
WAYS: dict[str, dict[str, Any]] = {
    "chosen": {},
    **{way: {"granularity": way, "scheduler": "depth"} for way in ("op", "cell")},
    "plain": {"without": ("hoisting", "arity", "fused")},
}


class Cell(gluon.HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.first, self.second = nn.Dense(SIZE, in_units=SIZE), nn.Dense(SIZE, in_units=SIZE)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.tanh(self.second(F.sigmoid(self.first(x))))


class Net(gluon.Block):
    """Operators alone, and a cell; all of them such that MXNet differentiates twice."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.embed = nn.Embedding(6, SIZE)
            self.dense, self.cell, self.out = nn.Dense(SIZE, in_units=SIZE), Cell(), nn.Dense(1, in_units=SIZE)

    def forward(self, x: Any, depth: int) -> Any:
        h = nd.sigmoid(self.dense(x))
        for _ in range(depth):
            h = self.cell(h)
        return self.out(h)


def penalties(net: Net, inputs: list[Any]) -> list[Any]:
    """A penalty of each sample by itself."""
    with autograd.record():
        losses = []
        for k, x in enumerate(inputs):
            y = net(x, k % 3)
            slope = autograd.grad(y, [x], create_graph=True, retain_graph=True)[0]
            losses.append(nd.square(y - 1) + nd.square(slope).sum())
        total = nd.add_n(*losses)
    total.backward()
    return [total, *[x.grad for x in inputs]]


def together(net: Net, inputs: list[Any]) -> list[Any]:
    """One pass for the slopes of all samples, whose outputs are used on."""
    with autograd.record():
        outputs = [net(x, k % 3) for k, x in enumerate(inputs)]
        slopes = autograd.grad(outputs, inputs, create_graph=True, retain_graph=True)
        total = nd.add_n(*[nd.square(y) for y in outputs]) + nd.add_n(*[nd.square(slope).sum() for slope in slopes])
    total.backward()
    return [total, *slopes, *[x.grad for x in inputs]]


def of_weights(net: Net, inputs: list[Any]) -> list[Any]:
    """The norm of a gradient of weights, of one variable that is no list, and a head with a gradient of its own."""
    weight = net.dense.weight.data()
    with autograd.record():
        loss = nd.square(net(inputs[0], 1) - 0.3)
        (gradient,) = autograd.grad(loss, weight, nd.ones((1, 1)) * 2, create_graph=True, retain_graph=True)
        total = nd.square(gradient).sum()
    total.backward()
    return [gradient, total]


def step_inside(net: Net, inputs: list[Any]) -> list[Any]:
    """A step of descent, and the loss of the weights after it."""
    before = [net.dense.weight.data(), net.dense.bias.data()]
    with autograd.record():
        gradients = autograd.grad(nd.square(net(inputs[0], 1)), before, create_graph=True, retain_graph=True)
        weight, bias = [array - 0.1 * gradient for array, gradient in zip(before, gradients)]
        total = nd.add_n(*[nd.square(nd.FullyConnected(x, weight, bias, num_hidden=SIZE)).sum() for x in inputs])
    total.backward()
    return [*gradients, total]


def third(net: Net, inputs: list[Any]) -> list[Any]:
    """The net of a slope, whose history goes on."""
    with autograd.record():
        slope = autograd.grad(net(inputs[0], 1), [inputs[0]], create_graph=True, retain_graph=True)[0]
        total = net(slope, 2) + nd.square(slope).sum()
    total.backward()
    return [slope, total, inputs[0].grad]


def through_flushes(net: Net, inputs: list[Any]) -> list[Any]:
    """Values that are read in the middle and used on."""
    with autograd.record():
        middle = [net.cell(x) for x in inputs]
        middle[0].asnumpy()
        outputs = [nd.square(net.out(net.cell(h))) for h in middle]
        outputs[1].asnumpy()
        total = nd.add_n(*outputs)
        slope = autograd.grad(total, [inputs[1]], create_graph=True, retain_graph=True)[0]
        total = total + nd.square(slope).sum()
    total.backward()
    return [total, slope, *[x.grad for x in inputs]]


def looked_up(net: Net, inputs: list[Any]) -> list[Any]:
    """Rows of a look-up beside what is differentiated, taken one by one."""
    with autograd.record():
        words = net.embed(nd.array([3, 1, 3, 5]))
        outputs = [net.out(nd.elemwise_add(net.cell(x), words[k : k + 1])) for k, x in enumerate(inputs)]
        slopes = autograd.grad(outputs, inputs, create_graph=True, retain_graph=True)
        total = nd.add_n(*outputs) + nd.add_n(*[nd.square(slope).sum() for slope in slopes])
    total.backward()
    return [total, *slopes, *[x.grad for x in inputs]]


def many_terms(net: Net, inputs: list[Any]) -> list[Any]:
    """A sum of more terms than that of an operator, and a chain of additions."""
    with autograd.record():
        terms = [nd.square(net(x, k)) for k in range(3) for x in inputs]
        total = nd.add_n(*terms)
        slopes = autograd.grad(total, inputs, create_graph=True, retain_graph=True)
        chain = terms[0]
        for term in terms[1:]:
            chain = nd.elemwise_add(chain, term)
        again = autograd.grad(chain, inputs[:1], create_graph=True, retain_graph=True)
    return [total, *slopes, *again]


def beside_memory(net: Net, inputs: list[Any]) -> list[Any]:
    """A buffer of the program's, which each sample reads, and writes to outside of recording."""
    buffer = nd.zeros((2, SIZE))
    with autograd.record():
        outputs = []
        for k, x in enumerate(inputs):
            h = net.cell(x)
            with autograd.pause():
                buffer[k % 2] = h[0]
                mean = net.dense(buffer).mean(axis=0, keepdims=True)
            outputs.append(nd.square(net.out(nd.elemwise_add(h, mean))))
        slopes = autograd.grad(outputs, inputs, create_graph=True, retain_graph=True)
        total = nd.add_n(*outputs) + nd.add_n(*[nd.square(slope).sum() for slope in slopes])
    total.backward()
    return [total, buffer, *slopes, *[x.grad for x in inputs]]


PROGRAMS: dict[str, Callable[[Net, list[Any]], list[Any]]] = {
    function.__name__: function
    for function in (
        penalties,
        together,
        of_weights,
        step_inside,
        third,
        through_flushes,
        looked_up,
        many_terms,
        beside_memory,
    )
}


def trained(program: Callable[[Net, list[Any]], list[Any]], options: dict[str, Any] | None) -> list[Any]:
    mx.random.seed(3)
    net = Net()
    net.initialize(mx.init.Xavier())
    if options is not None:
        net.hybridize(dynamic_batch=True, **options)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore=None)
    found: list[Any] = []
    for step in range(2):
        inputs = [rows(1, SIZE, seed=step * 7 + k) for k in range(4)]
        for x in inputs:
            x.attach_grad()
        arrays = program(net, inputs) + [parameter.grad() for parameter in net.collect_params().values()]
        found += [array.asnumpy() for array in arrays]
        trainer.step(1, ignore_stale_grad=True)
    return found


@cache
def eagerly(name: str) -> list[Any]:
    return trained(PROGRAMS[name], None)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_second_gradients_are_those_of_eager_execution(name: str, way: str) -> None:
    for one, other in zip(trained(PROGRAMS[name], WAYS[way]), eagerly(name)):
        assert_close(one, other, f"{name}, {way}", 1e-4)


def slope_of(net: Any, x: Any) -> Any:
    with autograd.record():
        slope = autograd.grad(net(x), [x], create_graph=True, retain_graph=True)[0]
        total = nd.square(slope).sum()
    total.backward()
    return x.grad


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("activation", ["softrelu", "softsign"])
def test_what_mxnet_cannot_differentiate_twice_says_so_as_eagerly(activation: str, dynamic: bool) -> None:
    net = nn.HybridSequential()
    net.add(nn.Dense(SIZE, in_units=SIZE, activation=activation), nn.Dense(1, in_units=SIZE))
    net.initialize()
    if dynamic:
        net.hybridize(dynamic_batch=True, granularity="op")
    x = rows(1, SIZE)
    x.attach_grad()
    with pytest.raises(mx.base.MXNetError, match="_backward_Activation is non-differentiable"):
        slope_of(net, x)


def test_what_was_drawn_is_refused() -> None:
    net = nn.HybridSequential()
    net.add(nn.Dense(SIZE, in_units=SIZE), nn.Dropout(0.5), nn.Dense(1, in_units=SIZE))
    net.initialize()
    net.hybridize(dynamic_batch=True, granularity="op")
    x = rows(1, SIZE)
    x.attach_grad()
    with pytest.raises(CaptureError, match=r"drawn again.*dynamic_batch=False"):
        slope_of(net, x)


def test_weights_that_were_written_to_are_refused() -> None:
    net = Net()
    net.initialize(mx.init.Xavier())
    net.hybridize(dynamic_batch=True, granularity="op")
    x = rows(1, SIZE)
    x.attach_grad()
    with autograd.record():
        y = net(x, 1)
    y.wait_to_read()
    net.out.weight.set_data(net.out.weight.data() * 2)
    with pytest.raises(CaptureError, match="has been written to"):
        autograd.grad(y, [x], create_graph=True)


def test_freed_history_is_refused_as_eagerly() -> None:
    net = Net()
    net.initialize()
    net.hybridize(dynamic_batch=True, granularity="op")
    x = rows(1, SIZE)
    x.attach_grad()
    with autograd.record():
        y = net(x, 1)
    y.backward()
    with pytest.raises(mx.base.MXNetError, match="retain_graph=True"):
        autograd.grad(y, [x], create_graph=True)


@pytest.mark.parametrize("dynamic", [False, True])
def test_what_depends_on_nothing_is_an_error_of_mxnet(dynamic: bool) -> None:
    net = Net()
    net.initialize()
    net.collect_params().setattr("grad_req", "null")
    if dynamic:
        net.hybridize(dynamic_batch=True, granularity="op")
    x, other = rows(1, SIZE), rows(1, SIZE)
    other.attach_grad()
    with autograd.record():
        y = net(x, 1)
    with pytest.raises(mx.base.MXNetError):
        autograd.grad(y, [other], create_graph=True)


def test_only_what_is_asked_for_runs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls of one sample of three, and none for gradients that are not differentiated."""
    net = Net()
    net.initialize()
    net.hybridize(dynamic_batch=True, granularity="op")
    inputs = [rows(1, SIZE, seed=k) for k in range(3)]
    for x in inputs:
        x.attach_grad()
    ran: list[str] = []

    def run(call: Any, operands: Any) -> Any:
        ran.extend([op.name for op in call.ops])
        return interpret(call, operands)

    monkeypatch.setattr(recorded, "interpret", run)
    with autograd.record():
        outputs = [net(x, 1) for x in inputs]
        total = nd.add_n(*outputs)
        autograd.grad(total, inputs, retain_graph=True)
        assert not ran
        autograd.grad(outputs[1], [inputs[1]], create_graph=True, retain_graph=True)
    assert ran.count("FullyConnected") == 4
    assert ran.count("tanh") == 1


@pytest.mark.filterwarnings("ignore")
def test_second_gradients_of_numpy_arrays() -> None:
    def way(dynamic: bool) -> list[Any]:
        mx.random.seed(5)
        net = nn.HybridSequential()
        net.add(nn.Dense(SIZE, in_units=SIZE), nn.Dense(1, in_units=SIZE))
        net.initialize(mx.init.Xavier())
        if dynamic:
            net.hybridize(dynamic_batch=True, granularity="op")
        inputs = [mx.np.array(rows(1, SIZE, seed=k).asnumpy()) for k in range(3)]
        with autograd.record():
            for x in inputs:
                x.attach_grad()
            outputs = [mx.np.exp(net(x)) for x in inputs]
            slopes = autograd.grad(outputs, inputs, create_graph=True, retain_graph=True)
            total = nd.exp(slopes[0]) + nd.exp(slopes[1])
        total.backward()
        return [slope.asnumpy() for slope in slopes] + [x.grad.asnumpy() for x in inputs]

    with numpy_program():
        for one, other in zip(way(True), way(False)):
            assert_close(one, other, "numpy")
