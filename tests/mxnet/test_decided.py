"""Numbers that inputs alone decide, read in the middle of a sample: nothing that other samples have pending runs."""

from __future__ import annotations

from typing import Any, Callable

import mxnet as mx
import numpy as onp
import pytest
from mxnet import autograd, gluon, nd, np
from mxnet.gluon import nn
from numpy_support import Outcome, Plain, agree, numpy_program, uniform
from support import assert_close, assert_same, rows

import gluonjit
from gluonjit.hybrid.run import decided

SIZES = (5, 3, 6, 4, 5)


class Cloud(gluon.Block):
    """Points of a sample, and a program that asks for numbers of theirs."""

    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__()
        self.body = body
        with self.name_scope():
            self.lift = nn.Dense(8, in_units=3, activation="tanh", flatten=False)
            self.shift = self.params.get("shift", shape=(1, 3), init=mx.init.One())

    def forward(self, points: Any) -> Any:
        return self.body(self, points, self.lift(points))


def clouds() -> list[Any]:
    return [rows(size, 3, seed=size + 10 * k) for k, size in enumerate(SIZES)]


def made(body: Callable[..., Any]) -> Cloud:
    mx.random.seed(3)
    net = Cloud(body)
    net.initialize(mx.init.Uniform(0.7))
    return net


def value(net: Cloud, points: Any) -> Any:
    return (net(points) ** 2).sum()


def neighbours(net: Cloud, points: Any, h: Any) -> Any:
    apart = ((points.expand_dims(1) - points.expand_dims(0)) ** 2).sum(axis=2)
    near = apart.asnumpy() < 4
    return nd.stack(*[nd.add_n(*[h[int(j)] for j in onp.flatnonzero(row)]) for row in near])


def by_a_branch(net: Cloud, points: Any, h: Any) -> Any:
    if nd.abs(points).max() > 1.5:
        return h * 2
    return h[: int((points[:, 0] > 0).sum().asscalar()) + 1]


def by_order(net: Cloud, points: Any, h: Any) -> Any:
    return nd.stack(*[h[int(k)] for k in nd.argsort(points[:, 1]).asnumpy()]) * nd.arange(1, 9)


def by_a_mask(net: Cloud, points: Any, h: Any) -> Any:
    kept = nd.contrib.boolean_mask(h, points[:, 0] > -0.5)
    return kept * kept.shape[0] + nd.contrib.boolean_mask(h, nd.array([0.5] + [0] * (len(h) - 1)))


def by_an_index(net: Cloud, points: Any, h: Any) -> Any:
    return h[nd.arange(2) + 1] * h[nd.repeat(nd.arange(1), 2), nd.argsort(points[0])[:2]].sum()


def by_sums_of_many(net: Cloud, points: Any, h: Any) -> Any:
    total = nd.add_n(*[row for row in points] * 2) + nd.ones((3,)) * len(points)
    return h * float(total.sum().asscalar()) + int(sum(row.sum() for row in points).asscalar())


def until(net: Cloud, points: Any, h: Any) -> Any:
    rest = nd.abs(points)
    while rest.max().asscalar() > 0.4:
        rest, h = rest * 0.5, nd.tanh(h)
    return h


def by_labels(net: Cloud, points: Any, h: Any) -> Any:
    """A mask that is made in one cell with what it masks, and picks labels, too, which have one axis."""
    labels = nd.round(points[:, 2] * 4)
    weights = nd.softmax(h, axis=0)
    keep = labels[1:] < 3
    scores = nd.contrib.boolean_mask((h * weights)[1:] + net.shift.data().sum(), keep)
    return scores * nd.contrib.boolean_mask(labels[1:], keep).expand_dims(1)


BODIES = [neighbours, by_a_branch, by_order, by_a_mask, by_an_index, by_sums_of_many, until, by_labels]


@pytest.mark.parametrize("granularity", ["cell", "op"])
@pytest.mark.parametrize("body", BODIES)
def test_reading_what_inputs_decide_runs_nothing_else(body: Callable[..., Any], granularity: str) -> None:
    report = assert_same(made(body), clouds(), value, granularity=granularity)
    assert report.flushes == 1
    first = next(kind for name, kind in report.kinds.items() if "dense" in name or name == "FullyConnected")
    assert first.launches < first.calls


def by_a_weight(net: Cloud, points: Any, h: Any) -> Any:
    return h * 2 if (points * net.shift.data()).sum().asscalar() > 0 else h


def by_its_own_result(net: Cloud, points: Any, h: Any) -> Any:
    return h[: 1 + int((h.sum() > 0).asscalar())]


def by_a_mask_of_its_own(net: Cloud, points: Any, h: Any) -> Any:
    return nd.contrib.boolean_mask(h, h.max(axis=1) > -9)


@pytest.mark.parametrize("body", [by_a_weight, by_its_own_result, by_a_mask_of_its_own])
def test_what_depends_on_weights_runs_what_is_pending(body: Callable[..., Any]) -> None:
    assert assert_same(made(body), clouds(), value, granularity="cell").flushes > 1


def of_a_long_chain(net: Cloud, points: Any, h: Any) -> Any:
    total = points.sum()
    for k in range(decided.MOST + 9):
        total = (total + k) * 0.5
    return h * float(total.asscalar())


def of_what_is_written_to(net: Cloud, points: Any, h: Any) -> Any:
    with autograd.pause():
        points = points.copy()
        before = (points * 2).sum()
        points[0] = 3
        first = before.asscalar()
        points[:] = points * 2
    return h * float(first) + float((points * 2).sum().asscalar())


def of_mixed_types(net: Cloud, points: Any, h: Any) -> Any:
    counts = (points > 0).sum(axis=1).astype("int32") + nd.array([2], dtype="int32")
    assert counts.asnumpy().dtype == onp.int32
    return h * int(counts[1].asscalar()) + float(counts.astype("float64").mean().asscalar())


@pytest.mark.parametrize("body", [of_a_long_chain, of_what_is_written_to, of_mixed_types])
def test_numbers_are_those_of_the_call(body: Callable[..., Any]) -> None:
    assert_same(made(body), clouds(), value, granularity="cell")


def test_draws_are_read_as_they_are_used() -> None:
    found = []

    def body(net: Cloud, points: Any, h: Any) -> Any:
        kept = nd.Dropout(points, p=0.5, mode="always")
        found.append((kept.sum().asscalar(), kept))
        return h

    net = made(body)
    with gluonjit.batching(granularity="cell"):
        for points in clouds():
            net(points)
    for number, kept in found:
        assert number == pytest.approx(float(kept.sum().asscalar()), rel=1e-4)


def test_gradients_go_on_to_inputs_that_are_masked() -> None:
    """Of entries of one axis, which MXNet's operator picks when it is called."""

    def body(net: Cloud, points: Any, h: Any) -> Any:
        return h.sum() * nd.contrib.boolean_mask(points[:, 1] * 2, points[:, 1] > -9).sum()

    net = made(body)
    samples = clouds()

    def run() -> list[Any]:
        for sample in samples:
            sample.attach_grad()
        with autograd.record():
            total = sum([net(sample) for sample in samples])
        total.backward()
        return [sample.grad.asnumpy() for sample in samples]

    expected = run()
    net.hybridize(dynamic_batch=True, granularity="cell")
    for actual, wanted in zip(run(), expected):
        assert_close(actual, wanted, "gradient")


def test_a_copy_on_the_same_device_runs_nothing() -> None:
    def body(net: Cloud, points: Any, h: Any) -> Any:
        return h.copyto(mx.cpu()).as_in_context(mx.cpu()) * 2

    assert assert_same(made(body), clouds(), value, granularity="cell").flushes == 1


def test_an_empty_mask_gives_what_it_gives_eagerly() -> None:
    def body(net: Cloud, points: Any, h: Any) -> Any:
        kept = nd.contrib.boolean_mask(h, points[:, 0] > 100)
        return h * 2 if kept.shape[0] == 0 else kept

    assert_same(made(body), clouds(), value, granularity="cell")


def test_in_the_numpy_interface() -> None:
    """Masked positions of a sequence, as models of language gather them, and rows where a mask holds."""
    with numpy_program():
        lift = nn.Dense(8, in_units=3, activation="tanh", flatten=False)

        def function(points: Any) -> Any:
            h = lift(points)
            pairs = np.repeat(np.arange(2), 2), np.array([0, 1, 1, 2]).reshape(-1)
            sequence = np.expand_dims(h, 0).repeat(2, axis=0)
            count = len(np.unique(np.sign(points))) + len(np.nonzero(points > 0.5)[0])
            return (np.concatenate([sequence[pairs], h[points[:, 0] > -0.5]]) ** 2).sum() * float(points.sum()) * count

        net = Plain(function)
        net.register_child(lift)
        net.initialize(mx.init.Uniform(0.7))
        samples = [uniform(size, 3, seed=size + 10 * k) for k, size in enumerate(SIZES)]

        def run() -> Outcome:
            with autograd.record():
                losses = [net(sample) for sample in samples]
                total = sum(losses)
            total.backward()
            found = {f"loss {k}": loss.asnumpy() for k, loss in enumerate(losses)}
            return {**found, "gradient": lift.weight.grad().asnumpy()}

        expected = run()
        net.hybridize(dynamic_batch=True, granularity="cell")
        actual = run()
        assert gluonjit.explain().flushes == 1
        agree(actual, expected)
