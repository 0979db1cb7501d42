"""Operators as programs use them: captured one by one, and inside a cell, against the program without batching.

Each case is a program for one sample. It runs in a plain Block, where every operator is captured by itself, and in
a HybridBlock, where all of them are one node; outputs and gradients have to be those of the eager program. A case
says whether its operators run for all samples at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon
from operator_cases import CASES, Case
from support import assert_close, flat

import gluonjit

nd = mx.nd


class Plain(gluon.Block):
    """Every operator captured by itself. A weight in front lets gradients be compared."""

    def __init__(self, test: Case) -> None:
        super().__init__()
        self.test = test
        with self.name_scope():
            self.scale = self.params.get("scale", shape=(1,), dtype=test.dtype, init=mx.init.Constant(1.25))

    def forward(self, *arrays: Any) -> Any:
        return self.test.run(nd, *self.scaled(nd, self.scale.data(), arrays))

    def scaled(self, F: Any, scale: Any, arrays: Any) -> list[Any]:
        whole = self.test.whole
        if not self.test.grad:
            return list(arrays)
        first = next(k for k in range(len(arrays)) if k not in whole)
        return [
            array if k != first else F.broadcast_mul(array, F.reshape(scale, shape=(1,) * len(shape)))
            for k, (array, shape) in enumerate(zip(arrays, self.test.shapes))
        ]


class OneCell(gluon.HybridBlock):
    """All operators in one cell."""

    def __init__(self, test: Case) -> None:
        super().__init__()
        self.test = test
        with self.name_scope():
            self.scale = self.params.get("scale", shape=(1,), dtype=test.dtype, init=mx.init.Constant(1.25))

    def hybrid_forward(self, F: Any, *arrays: Any, scale: Any) -> Any:
        return self.test.run(F, *Plain.scaled(self, F, scale, arrays))  # type: ignore[arg-type]


class Around(gluon.Block):
    """A plain Block that calls a cell."""

    def __init__(self, test: Case) -> None:
        super().__init__()
        self.inner = OneCell(test)

    def forward(self, *arrays: Any) -> Any:
        return self.inner(*arrays)


def structure(result: Any) -> Any:
    return [type(result), *map(structure, result)] if isinstance(result, (list, tuple)) else None


def outcome(net: gluon.Block, test: Case, samples: list[list[Any]]) -> tuple[list[Any], list[Any], list[np.ndarray]]:
    """Structures and values of each sample's results; gradients of the samples' arrays and of the weight."""
    parameters = list(net.collect_params().values())
    wanted = [a for sample in samples for k, a in enumerate(sample) if test.grad and k not in test.whole]
    for array in wanted:
        array.attach_grad()
    for parameter in parameters:
        parameter.zero_grad()
    if not test.grad:
        results = [net(*sample) for sample in samples]
        return [structure(r) for r in results], [a for r in results for a in flat(r)], []
    with autograd.record(train_mode=test.training):
        results = [net(*sample) for sample in samples]
        losses = [(array * array).sum().astype("float32") for result in results for array in flat(result)]
        total = gluonjit.add_n(losses)
    total.backward()
    gradients = [array.grad.asnumpy() for array in wanted] + [p.grad().asnumpy() for p in parameters]
    return [structure(r) for r in results], [a for r in results for a in flat(r)], gradients


def compare(net: gluon.Block, test: Case, samples: list[list[Any]]) -> gluonjit.Report:
    net.initialize()
    expected = outcome(net, test, samples)
    net.hybridize(dynamic_batch=True)
    with gluonjit.batching() as batch:
        actual = outcome(net, test, samples)
        values = [array.asnumpy() for array in actual[1]]
    assert actual[0] == expected[0]
    for value, wanted in zip(values, expected[1]):
        assert value.dtype == wanted.asnumpy().dtype
        assert_close(value.astype("float64"), wanted.asnumpy().astype("float64"), test.name, test.tolerance)
    for value, wanted in zip(actual[2], expected[2]):
        assert_close(value, wanted, f"gradient in {test.name}", test.tolerance)
    return batch.report


def check_at_once(test: Case, report: gluonjit.Report) -> None:
    """Operators of three samples run in one launch each, or some of them run alone and the report says why."""
    if test.at_once:
        assert not report.alone and not report.unbatched, (report.alone, report.unbatched)
        assert all(step.launches == 1 for step in report.steps)
        assert not report.nodes or report.launches < report.nodes
    else:
        assert report.alone and all(report.alone.values())


def named(test: Case) -> str:
    return test.name.replace(" ", "_")


@pytest.mark.parametrize("test", CASES, ids=named)
def test_captured_one_by_one(test: Case) -> None:
    check_at_once(test, compare(Plain(test), test, [test.sample(k) for k in range(3)]))


@pytest.mark.filterwarnings("ignore:.*make_loss")  # whose gradients no batch has as one node does: it is distrusted
@pytest.mark.parametrize("test", [test for test in CASES if test.cell], ids=named)
def test_in_a_cell(test: Case) -> None:
    check_at_once(test, compare(Around(test), test, [test.sample(k) for k in range(3)]))


@pytest.mark.filterwarnings("ignore:.*make_loss")
@pytest.mark.parametrize("test", [test for test in CASES if test.rows], ids=named)
def test_numbers_of_rows_that_differ(test: Case) -> None:
    samples = [test.sample(k, rows) for k, rows in enumerate((2, 1, 3))]
    for net in [Plain(test), Around(test)] if test.cell else [Plain(test)]:
        report = compare(net, test, samples)
        assert not report.alone and not report.unbatched, (report.alone, report.unbatched)


def used_elsewhere(test: Case) -> Case:
    """The case with every argument and the first result used elsewhere too, and the other results not at all."""

    def run(F: Any, *arrays: Any) -> Any:
        again = [array * 3 for k, array in enumerate(arrays) if k not in test.whole]
        first = flat(test.run(F, *arrays))[0]
        return first, again, first * 2, [array + 1 for k, array in enumerate(arrays) if k not in test.whole]

    return replace(test, run=run)


@pytest.mark.filterwarnings("ignore:.*make_loss")
@pytest.mark.parametrize("test", [used_elsewhere(test) for test in CASES if test.grad], ids=named)
def test_gradients_that_add_up(test: Case) -> None:
    """Where a gradient is added to another, or not asked for, some operators of MXNet are wrong or raise."""
    samples = [test.sample(k) for k in range(3)]
    compare(Plain(test), test, samples)
    if test.cell:
        compare(Around(test), test, samples)


class PartlyLearned(gluon.Block):
    """Only the last argument depends on something that is learned; the others need no gradient."""

    def __init__(self, test: Case) -> None:
        super().__init__()
        self.inner = OneCell(replace(test, grad=False))
        with self.name_scope():
            self.scale = self.params.get("scale", shape=(1,), dtype=test.dtype, init=mx.init.Constant(1.25))

    def forward(self, *arrays: Any) -> Any:
        last = arrays[-1] * self.scale.data().reshape((1,) * len(arrays[-1].shape))
        return self.inner(*arrays[:-1], last)


PAIRS = [test for test in CASES if test.cell and test.grad and len(test.shapes) > 1]


@pytest.mark.parametrize("test", PAIRS, ids=named)
def test_operands_that_need_no_gradient(test: Case) -> None:
    """MXNet raises, or leaves memory unwritten, where a gradient of indices, lengths or labels is asked for."""
    net, samples = PartlyLearned(test), [test.sample(k) for k in range(3)]
    net.initialize()
    net.scale.set_data(nd.ones((1,), dtype=test.dtype))
    indices = len(test.shapes) - 1 in test.whole
    found = []
    for dynamic in (False, True):
        net.hybridize(dynamic_batch=dynamic)
        net.scale.zero_grad()
        with autograd.record(train_mode=False) if dynamic or not indices else autograd.pause():
            results = [net(*sample) for sample in samples]
            total = gluonjit.add_n([(a * a).sum().astype("float32") for r in results for a in flat(r)])
        if dynamic or not indices:
            total.backward(train_mode=False)
        found.append([total.asnumpy(), net.scale.grad().asnumpy()])
    for value, wanted in zip(found[1], found[0]):  # the gradient of indices is zero
        assert_close(value, wanted, test.name, test.tolerance)
