"""Calls of a cell that differ in numbers alone, or in small constants: they run together where no step in C is lost."""

from __future__ import annotations

from typing import Any, Callable

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd

import gluonjit
from gluonjit.compiled import ROWS

C = 6
Body = Callable[[Any, Any, Any, int], Any]


class Cell(gluon.HybridBlock):
    """Layers of a program for one state and one number."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.body = body
        with self.name_scope():
            self.layer = gluon.nn.Dense(C, in_units=C)

    def hybrid_forward(self, F: Any, x: Any, k: int) -> Any:
        return self.body(self, F, x, k)


class Model(gluon.Block):
    """Several calls of a cell, one after the other, each with a number of its own."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        with self.name_scope():
            self.cell = Cell(body)

    def forward(self, x: Any, numbers: list[int]) -> Any:
        for k in numbers:
            x = self.cell(x, k)
        return x


def turned(net: Any, F: Any, x: Any) -> Any:
    """Something without an instruction in C."""
    return F.reverse(F.tanh(net.layer(x)), axis=1)


TOGETHER: dict[str, Body] = {
    "a factor": lambda net, F, x, k: turned(net, F, x) * (0.1 * k),
    "a summand": lambda net, F, x, k: turned(net, F, x) + k,
    "a divisor": lambda net, F, x, k: turned(net, F, x) / (k + 1),
    "a power": lambda net, F, x, k: F.sigmoid(turned(net, F, x)) ** (0.5 + k),
    "a column": lambda net, F, x, k: F.broadcast_mul(
        x, F.slice_axis(turned(net, F, x), axis=1, begin=k % C, end=k % C + 1)
    ),
    "some columns": lambda net, F, x, k: F.concat(
        F.slice_axis(turned(net, F, x), axis=1, begin=k % 3, end=k % 3 + 3), F.slice_axis(x, axis=1, begin=0, end=3)
    ),
    "a bound": lambda net, F, x, k: F.clip(turned(net, F, x), -0.1 * k, 0.05 * k),
    "two numbers": lambda net, F, x, k: turned(net, F, x) * (0.1 * k) + 0.01 * k,
}


def samples(seed: int) -> list[Any]:
    draws = np.random.RandomState(seed)
    lengths = [2 + number % 3 for number in range(6)]
    return [(nd.array(draws.randn(1, C)), draws.randint(0, 9, length).tolist()) for length in lengths]


def minibatch(net: Any, given: list[Any]) -> Any:
    with autograd.record():
        total = nd.add_n(*[net(x, numbers).sum() for x, numbers in given])
    total.backward()
    return [total.asnumpy(), *[each.grad().asnumpy() for each in net.collect_params().values()]]


def launches(body: Body) -> Any:
    """Launches of the cell in the last of three minibatches; values and gradients are those of the eager program."""
    mx.random.seed(0)
    net = Model(body)
    net.initialize(mx.init.Uniform(0.7))
    wanted = [minibatch(net, samples(seed)) for seed in range(3)]
    net.hybridize(dynamic_batch=True, granularity="cell", scheduler="depth", check="always")
    for seed in range(3):
        for one, other in zip(minibatch(net, samples(seed)), wanted[seed]):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    report = gluonjit.explain()
    return sum(row.launches for name, row in report.kinds.items() if name == net.cell.name), report


@pytest.mark.parametrize("name", TOGETHER)
def test_calls_that_differ_in_numbers_run_together(name: str) -> None:
    assert launches(TOGETHER[name])[0] == 4  # of the longest sample


@pytest.mark.skipif(ROWS is None, reason="gluonjit._rows is not there, or GLUONJIT_PURE is set")
def test_steps_in_c_stay_apart() -> None:
    count, report = launches(lambda net, F, x, k: F.tanh(net.layer(x)) * (0.1 * k))
    assert count > 4 and not report.unfused
