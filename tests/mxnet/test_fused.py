"""Steps that run in C as a whole, on MXNet: each operator beside the eager program, and what stays a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd
from support import assert_close

import gluonjit
from gluonjit.compiled import ROWS
from gluonjit.rows.derivative import derive
from gluonjit.rows.program import CHILD, NODE, Builder, NotFusable

pytestmark = pytest.mark.skipif(ROWS is None, reason="gluonjit._rows is not there, or GLUONJIT_PURE is set")
WIDTH = 6
Body = Callable[..., Any]


def row(F: Any, w: Any, number: int) -> Any:
    return F.reshape(F.slice_axis(w, axis=0, begin=number, end=number + 1), shape=(-1,))


# What a cell computes of rows x, y (1, 6), both between 0.2 and 1.2, and a weight w (6, 6).
IN_C: dict[str, Body] = {
    "Dense": lambda F, x, y, w: F.FullyConnected(x * y, w, no_bias=True, num_hidden=WIDTH),
    "sums": lambda F, x, y, w: F.add_n(x, y, x * y) + 2.0 - (0.5 - y) / 3.0 - (x - 1.0),
    "products": lambda F, x, y, w: x * y * 0.5 / (y + 1) - 2.0 / x,
    "greater": lambda F, x, y, w: F.broadcast_maximum(x, y) + 2 * F.broadcast_minimum(x, y),
    "sigmoid, tanh, relu": lambda F, x, y, w: F.sigmoid(x) * F.tanh(y) + F.relu(x - y),
    "relu by oneDNN": lambda F, x, y, w: F.Activation(x - y, act_type="relu") * y,
    "softrelu": lambda F, x, y, w: F.Activation(x, act_type="softrelu") * y,
    "softsign, rsqrt": lambda F, x, y, w: F.Activation(x, act_type="softsign") * F.softsign(y) + F.rsqrt(y),
    "clip": lambda F, x, y, w: F.clip(x, 0.4, 0.8) * F.maximum(y, 0.5) + F.minimum(y, 0.9) * x,
    "ones_like, zeros_like": lambda F, x, y, w: (F.ones_like(x) - x) * y + F.zeros_like(y),
    "exp, log, sqrt": lambda F, x, y, w: F.exp(x) * F.log(y) + F.sqrt(x),
    "square, abs, negative": lambda F, x, y, w: F.square(x) + F.abs(x - y) - (-y) + F.reciprocal(x),
    "argmax": lambda F, x, y, w: F.broadcast_mul(y, F.argmax(x, axis=1, keepdims=True)) + x,
    "softmax": lambda F, x, y, w: F.softmax(x) * y,
    "log_softmax": lambda F, x, y, w: F.log_softmax(x) * y,
    "slices": lambda F, x, y, w: F.slice_axis(x, axis=1, begin=1, end=5) * F.slice_axis(y, axis=1, begin=0, end=4),
    "split": lambda F, x, y, w: F.broadcast_mul(*F.split(x * y, num_outputs=2, axis=1)),
    "concat": lambda F, x, y, w: F.concat(x, y * 2, x, dim=1),
    "sum of a row": lambda F, x, y, w: F.sum(x * y, axis=1, keepdims=True) * x,
    "mean of a row": lambda F, x, y, w: F.broadcast_sub(x, F.mean(y, axis=1, keepdims=True)),
    "column": lambda F, x, y, w: F.broadcast_div(x, F.slice_axis(y, axis=1, begin=2, end=3)),
    "reshape": lambda F, x, y, w: F.reshape(F.reshape(x, shape=(0, 2, 3)) * 2, shape=(0, -1)) * y,
    "product of two": lambda F, x, y, w: F.broadcast_mul(F.dot(x, y, transpose_b=True), x),
    "LayerNorm, LeakyReLU": lambda F, x, y, w: F.LayerNorm(x, row(F, w, 0), row(F, w, 1)) * F.LeakyReLU(x - y),
    "constant rows": lambda F, x, y, w: F.broadcast_div(x, row(F, w, 0)) + F.broadcast_maximum(y, row(F, w, 1)),
    "parts of a weight": lambda F, x, y, w: F.dot(x, F.slice(w, begin=(None, 1), end=(None, 5))) * 2.0,
    "losses": lambda F, x, y, w: F.broadcast_mul(F.mean(F.square(x - y)), x) + F.broadcast_mul(F.sum(y), x),
    "orders of axes": lambda F, x, y, w: F.transpose(F.transpose(x)) * F.stack(y, axis=2).reshape((0, -1)),
    "stopped": lambda F, x, y, w: F.BlockGrad(x) * y + x,
}
# What a cell computes of rows x, (3, 6), and y, (1, 6).
OVER_ROWS: dict[str, Body] = {
    "sum": lambda F, x, y, w: F.sum(x, axis=0, keepdims=True) * y,
    "mean of a layer": lambda F, x, y, w: F.mean(F.tanh(F.dot(x, w)), axis=0, keepdims=True) - y,
    "sum of all": lambda F, x, y, w: F.broadcast_mul(F.sum(F.broadcast_mul(x, y)).reshape((1, 1)), y),
    "weighted": lambda F, x, y, w: F.sum(F.broadcast_mul(x, F.sum(F.softmax(x) * x, axis=1, keepdims=True)), axis=0),
}
AS_GRAPHS: dict[str, Body] = {
    "sin": lambda F, x, y, w: F.sin(x) * y,
    "sort": lambda F, x, y, w: F.sort(x, axis=1) * y,
    "elu": lambda F, x, y, w: F.LeakyReLU(x - y, act_type="elu"),
    "prelu": lambda F, x, y, w: F.LeakyReLU(x - y, row(F, w, 0), act_type="prelu") * y,
    "statistics": lambda F, x, y, w: F.LayerNorm(x, row(F, w, 0), row(F, w, 1), output_mean_var=True)[1] * y,
    "outer product": lambda F, x, y, w: F.sum(F.dot(x, y, transpose_a=True), axis=0, keepdims=True) * x,
}


class Cell(gluon.HybridBlock):
    def __init__(self, body: Body) -> None:
        super().__init__()
        self.body = body
        with self.name_scope():
            self.w = self.params.get("w", shape=(WIDTH, WIDTH))

    def hybrid_forward(self, F: Any, x: Any, y: Any, w: Any) -> Any:
        return self.body(F, x, y, w)


class Net(gluon.Block):
    """Two levels, so that a cell's operands are a cell's results too."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.first, self.second = gluon.nn.Dense(WIDTH, in_units=WIDTH, activation="sigmoid"), Cell(body)

    def forward(self, x: Any, y: Any) -> Any:
        return self.second(self.first(x) + 0.2, y)


def outcome(net: gluon.Block, samples: list[Any], record: bool = True) -> list[np.ndarray]:
    for x, y in samples:
        x.attach_grad()
        y.attach_grad()
    with autograd.record() if record else autograd.pause():
        results = [net(x, y) for x, y in samples]
        total = gluonjit.add_n([(result * result).sum() for result in results])
    found = [result.asnumpy() for result in results]
    if record:
        total.backward()
        found += [parameter.grad().asnumpy() for parameter in net.collect_params().values()]
        found += [array.grad.asnumpy() for sample in samples for array in sample]
    return found


def made(body: Body) -> tuple[gluon.Block, list[Any]]:
    mx.random.seed(7)
    net = Net(body)
    net.initialize(mx.init.Xavier())
    samples = [tuple(nd.random.uniform(0.2, 1.2, shape=(1, WIDTH)) for _ in range(2)) for _ in range(5)]
    return net, [*samples, samples[0]]


@pytest.mark.parametrize("record", [True, False])
@pytest.mark.parametrize("name", IN_C)
def test_an_operator_in_c_is_the_operator(name: str, record: bool) -> None:
    net, samples = made(IN_C[name])
    expected = outcome(net, samples, record)
    net.hybridize(dynamic_batch=True)
    found = outcome(net, samples, record)
    report = gluonjit.explain()
    assert report.kinds[net.second.name].launches == 1
    assert net.second.name not in report.unfused
    assert report.fused >= report.launches - 2, report  # the sums of squares are operators of several rows
    for actual, wanted in zip(found, expected):
        assert_close(actual, wanted, name, 1e-4 if name == "log_softmax" else 1e-5)


@pytest.mark.parametrize("record", [True, False])
@pytest.mark.parametrize("name", OVER_ROWS)
def test_a_sum_of_rows_is_in_c(name: str, record: bool) -> None:
    net, samples = made(OVER_ROWS[name])
    samples = [(nd.random.uniform(0.2, 1.2, shape=(3, WIDTH)), y) for _, y in samples]
    expected = outcome(net, samples, record)
    net.hybridize(dynamic_batch=True)
    found = outcome(net, samples, record)
    report = gluonjit.explain()
    assert report.kinds[net.second.name].launches == 1 and net.second.name not in report.unfused, report
    for actual, wanted in zip(found, expected):
        assert_close(actual, wanted, name)


@pytest.mark.parametrize(
    "relu", [lambda F, x, y, w: F.relu(x - y), lambda F, x, y, w: F.Activation(x - y, act_type="relu")]
)
def test_what_relu_makes_of_a_nan(relu: Body) -> None:
    net, samples = made(relu)
    for _, y in samples[1:3]:
        y[0, 2] = np.nan
    expected = outcome(net, samples)
    net.hybridize(dynamic_batch=True)
    for found, wanted in zip(outcome(net, samples), expected):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore::gluonjit.errors.RuleWarning")  # means that LayerNorm gives are distrusted
@pytest.mark.parametrize("name", AS_GRAPHS)
def test_what_has_no_instruction_stays_a_graph(name: str) -> None:
    net, samples = made(AS_GRAPHS[name])
    expected = outcome(net, samples)
    net.hybridize(dynamic_batch=True)
    found = outcome(net, samples)
    report = gluonjit.explain()
    assert 0 < report.fused < report.launches
    for actual, wanted in zip(found, expected):
        assert_close(actual, wanted, name)


def test_nothing_runs_in_c_where_it_is_left_out_or_not_in_float32() -> None:
    net, samples = made(IN_C["sums"])
    net.hybridize(dynamic_batch=True, without=("fused",))
    outcome(net, samples)
    assert gluonjit.explain().fused == 0 and not gluonjit.explain().unfused
    net.cast("float64")
    net.hybridize(dynamic_batch=True)
    outcome(net, [(x.astype("float64"), y.astype("float64")) for x, y in samples])
    assert gluonjit.explain().fused == 0
    assert "float64" in gluonjit.explain().unfused[net.second.name]


def test_backward_may_come_twice() -> None:
    net, samples = made(IN_C["products"])
    gradients = []
    for dynamic in (False, True):
        net.hybridize(dynamic_batch=dynamic)
        with autograd.record():
            total = gluonjit.add_n([net(x, y).sum() for x, y in samples])
        total.backward(retain_graph=True)
        total.backward()
        gradients.append([parameter.grad().asnumpy() for parameter in net.collect_params().values()])
    for actual, wanted in zip(gradients[1], gradients[0]):
        assert_close(actual, wanted, "gradient")


def test_a_gradient_that_is_a_copy_is_no_instruction() -> None:
    builder = Builder()
    a, b = builder.operand(NODE, 4), builder.operand(NODE, 4)
    program = builder.finish([builder.emit("ADD", a, b)])
    found = derive(program, {0, 1}, set(), {0})
    assert [instr.op for instr in found.code] == ["SCATTER", "SCATTER"]
    assert {instr.a.reg for instr in found.code if instr.a} == {found.seeds[0]}


def test_columns_that_nothing_was_added_to_are_zero() -> None:
    builder = Builder()
    a = builder.operand(NODE, 6)
    program = builder.finish([builder.emit("TANH", a.part(1, 3)), builder.emit("NEG", a.part(2, 5))])
    found = derive(program, {0}, set(), {0, 1})
    ops = [(instr.op, instr.out and (instr.out.column, instr.out.width), instr.adds) for instr in found.code]
    assert ops[0] == ("NEG", (2, 3), False)
    assert ("FILL", (1, 1), False) in ops and ("DTANH", (1, 2), True) in ops
    assert {("FILL", (0, 1), False), ("FILL", (5, 1), False)} <= set(ops)


def test_what_needs_no_gradient_has_none() -> None:
    builder = Builder()
    a, b = builder.operand(NODE, 3), builder.operand(NODE, 3)
    program = builder.finish([builder.emit("MUL", a, builder.emit("EXP", b))])
    found = derive(program, {0}, set(), {0})
    assert [instr.op for instr in found.code] == ["MUL", "SCATTER"]
    assert derive(program, set(), set(), {0}).code == ()


def test_nodes_and_children_do_not_mix() -> None:
    builder = Builder()
    a, b = builder.operand(NODE, 3), builder.operand(CHILD, 3)
    with pytest.raises(NotFusable, match="ADD of a node and a child"):
        builder.emit("ADD", a, b)
    assert builder.finish([builder.emit("ADD", a, builder.emit("SEGSUM", b, space=NODE))]).spaces == (
        NODE,
        CHILD,
        NODE,
        NODE,
    )
