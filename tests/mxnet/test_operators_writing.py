"""Operators that write into arrays, and operators that cannot wait, against the program without batching."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from support import assert_close, flat

import gluonjit

nd = mx.nd


class Program(gluon.Block):
    """A plain Block that runs a function."""

    def __init__(self, run: Callable[..., Any]) -> None:
        super().__init__()
        self.run = run
        self.dense = gluon.nn.Dense(4, in_units=4)

    def forward(self, *arrays: Any) -> Any:
        return self.run(self, *arrays)


def both(run: Callable[..., Any], make: Callable[[], list[Any]]) -> None:
    """A program that writes gives the same results, and leaves the same arrays, with and without batching."""
    net = Program(run)
    net.initialize(mx.init.Constant(0.3))
    found = []
    for dynamic in (False, True):
        net.hybridize(dynamic_batch=dynamic)
        samples = [make() for _ in range(3)]
        results = [net(*sample) for sample in samples]
        found.append([a.asnumpy() for r in results for a in flat(r)] + [a.asnumpy() for s in samples for a in s])
    for value, wanted in zip(found[1], found[0]):
        np.testing.assert_allclose(value, wanted, rtol=1e-5)


def some() -> list[Any]:
    return [nd.array(np.random.RandomState(3).uniform(size=(3, 4)))]


def test_entries_of_a_captured_array_are_set() -> None:
    def run(net: Program, x: Any) -> Any:
        h = net.dense(x)
        before = h * 2
        h[1] = 7
        h[:, 0] = 5
        h[0:2, 1:3] = nd.zeros((2, 2))
        return before, h, h * 2, nd.array(h)

    both(run, some)


def test_entries_of_an_input_are_set_after_it_was_read() -> None:
    def run(net: Program, x: Any) -> Any:
        before = net.dense(x)
        x[0] = 1
        x[1:, 2] = 3
        return before, net.dense(x)

    both(run, some)


def test_in_place_arithmetic() -> None:
    def run(net: Program, x: Any) -> Any:
        h = net.dense(x)
        kept = h + 0
        h += x
        h *= 2
        return kept, h

    both(run, some)


def test_out_writes_into_captured_arrays_and_inputs() -> None:
    def run(net: Program, x: Any) -> Any:
        h = net.dense(x)
        before = h * 3
        nd.elemwise_add(h, x, out=h)
        y = x * 2
        nd.exp(y, out=x)
        return before, h, y

    both(run, some)


def test_operators_that_write_into_their_operands_run_at_once() -> None:
    def run(net: Program, x: Any) -> Any:
        momentum = nd.ones((3, 4))
        h = net.dense(x)
        before = h + momentum
        updated = nd.sgd_mom_update(h, x, momentum, lr=0.1, momentum=0.9)
        nd.reset_arrays(h, num_arrays=1)
        return before, updated, momentum, h

    both(run, some)


def test_an_operator_whose_shape_depends_on_numbers_runs_at_once() -> None:
    def run(net: Program, x: Any) -> Any:
        h = net.dense(x)
        return h, nd.contrib.boolean_mask(h, nd.array([1, 0, 1])) * 2

    both(run, some)


def test_its_gradient_goes_into_the_batch() -> None:
    found = []
    for dynamic in (False, True):
        net = Program(lambda net, x: nd.contrib.boolean_mask(net.dense(x), nd.array([1, 0, 1])).sum())
        net.initialize(init="ones", force_reinit=True)
        net.hybridize(dynamic_batch=dynamic)
        with autograd.record():
            total = gluonjit.add_n([net(*some()) for _ in range(3)])
        total.backward()
        found.append(net.dense.weight.grad().asnumpy())
    assert_close(found[1], found[0], "gradient of the weight")
