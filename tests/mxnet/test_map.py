"""`gluonjit.map` on Gluon: samples that read values wait for each other, and go on in one batch."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd

import gluonjit
from gluonjit.hybrid.mapping import fibers
from gluonjit.hybrid.run import engine
from gluonjit.hybrid.run.engine import ENGINES
from gluonjit.hybrid.run.flush import FlushingBatch
from gluonjit.hybrid.run.state import LOCAL

pytest.importorskip("greenlet")
SIZE = 6


class Halting(gluon.Block):
    """Takes steps until the sum of what it reads has come to a sample's limit."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = gluon.rnn.GRUCell(SIZE, input_size=SIZE), gluon.nn.Dense(1, in_units=SIZE)

    def forward(self, x: Any, limit: float) -> Any:
        state, spent, steps = [nd.zeros((1, SIZE))], 0.0, 0
        while spent < limit:
            state = self.cell(x, state)[1]
            spent += self.out(state[0]).sigmoid().asscalar()
            steps += 1
        return state[0] * steps


class Tree(gluon.Block):
    """Calls itself for children whose number a value decides, side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = gluon.nn.Dense(SIZE, in_units=SIZE), gluon.nn.Dense(SIZE, in_units=SIZE)

    def forward(self, x: Any, depth: int = 3) -> Any:
        h = self.down(x).tanh()
        if not depth or h.sum().asscalar() > 1.0:
            return h
        left, right = gluonjit.map(lambda scale: self.forward(h * scale, depth - 1), [0.5, 1.5])
        return self.up(left + right).tanh()


def pair(kind: type[gluon.Block], tmp_path: Any) -> tuple[Any, Any]:
    eager, net = kind(), kind()
    mx.random.seed(0)
    eager.initialize(mx.init.Xavier())
    eager.save_parameters(str(tmp_path / "weights"))
    net.load_parameters(str(tmp_path / "weights"))
    net.hybridize(dynamic_batch=True)
    return eager, net


def samples() -> list[tuple[Any, float]]:
    mx.random.seed(1)
    return [(nd.random.normal(shape=(1, SIZE)), 0.4 * (1 + k % 5)) for k in range(12)]


def trained(net: Any, run: Any) -> list[Any]:
    with autograd.record():
        values = run(net)
        total = gluonjit.add_n([(value * value).sum() for value in values])
    total.backward()
    weights = net.collect_params().values()
    return [value.asnumpy() for value in values] + [weight.grad().asnumpy() for weight in weights]


@pytest.mark.parametrize("kind", [Halting, Tree])
def test_values_and_gradients_are_those_of_one_sample_after_the_other(kind: type[gluon.Block], tmp_path: Any) -> None:
    eager, net = pair(kind, tmp_path)
    given = samples() if kind is Halting else [(x,) for x, _ in samples()]
    expected = trained(eager, lambda model: [model(*sample) for sample in given])
    found = trained(net, lambda model: gluonjit.map(lambda sample: model(*sample), given, in_flight=7))
    for value, wanted in zip(found, expected):
        np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5)


def test_each_step_of_all_samples_is_one_launch(tmp_path: Any) -> None:
    _, net = pair(Halting, tmp_path)
    for _ in range(2):
        gluonjit.map(lambda sample: net(*sample), [(x, 1.2) for x, _ in samples()])
    report = gluonjit.explain()
    assert report.launches <= 3 * report.flushes
    assert report.flushes <= 6


def test_whether_gradients_are_recorded_is_each_samples_own(tmp_path: Any) -> None:
    _, net = pair(Halting, tmp_path)

    def run(sample: Any) -> tuple[bool, bool, bool]:
        with autograd.record():
            before = autograd.is_recording()
            with autograd.pause():
                net(*sample).sum().asscalar()
                inside = autograd.is_recording()
            return before, inside, autograd.is_recording()

    assert gluonjit.map(run, samples()) == [(True, False, True)] * 12
    assert not autograd.is_recording()


def test_results_come_as_they_end_while_gradients_are_recorded(tmp_path: Any) -> None:
    eager, net = pair(Halting, tmp_path)
    expected = trained(eager, lambda model: [model(*sample) for sample in samples()])

    def run(model: Any) -> list[Any]:
        found = {}
        for number, value in gluonjit.imap(lambda sample: model(*sample), samples(), in_flight=5):
            assert autograd.is_recording()
            found[number] = value
        return [found[number] for number in range(12)]

    for value, wanted in zip(trained(net, run), expected):
        np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5)


def test_a_region_that_was_opened_for_another_framework_has_the_modes_of_this_one(
    monkeypatch: Any, tmp_path: Any
) -> None:
    """PyTorch records gradients at first, and MXNet does not."""
    pytest.importorskip("torch")
    first = sorted(ENGINES, key=lambda each: each.name != "torch")
    monkeypatch.setattr(engine, "ENGINES", first)
    monkeypatch.setattr(fibers, "ENGINES", first)
    modes, flush = [], FlushingBatch.flush
    monkeypatch.setattr(FlushingBatch, "flush", lambda *args: (modes.append(LOCAL.state.mode), flush(*args))[1])
    _, net = pair(Halting, tmp_path)
    with gluonjit.batching():
        gluonjit.map(lambda sample: net(*sample), samples())
    assert len(modes) > 2
    assert set(modes) == {0}
