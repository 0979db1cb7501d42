"""What a flush on MXNet does once, however many steps it has, and what it does without MXNet's engine."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd

import gluonjit
from gluonjit.compiled import ROWS
from gluonjit.engines.mxnet.run import gradients
from gluonjit.engines.mxnet.run.results import places_of, tape_of
from gluonjit.rows.running import Launches

in_c = pytest.mark.skipif(ROWS is None, reason="gluonjit._rows is not there, or GLUONJIT_PURE is set")
WIDTH = 5


class Pair(gluon.HybridBlock):
    """Two results: one of x and the weight, one of x and y."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.w = self.params.get("w", shape=(WIDTH, WIDTH))

    def hybrid_forward(self, F: Any, x: Any, y: Any, w: Any) -> Any:
        return F.tanh(F.FullyConnected(x, w, no_bias=True, num_hidden=WIDTH)), x * y


class Chain(gluon.Block):
    def __init__(self) -> None:
        super().__init__()
        self.cells = [Pair(), Pair()]
        for cell in self.cells:
            self.register_child(cell)

    def forward(self, x: Any, y: Any, kinds: list[int]) -> Any:
        states = []
        for kind in kinds:
            x, y = self.cells[kind](x, y)
            states.append((x, y))
        return states


def chain() -> Chain:
    net = Chain()
    net.initialize(mx.init.Normal(0.5))
    net.hybridize(dynamic_batch=True, granularity="cell", scheduler="depth", sharing=True)
    return net


def row(draw: np.random.RandomState) -> Any:
    return nd.array(draw.rand(1, WIDTH))


@in_c
@pytest.mark.parametrize("seed", range(20))
def test_rows_are_reached_in_c_as_they_are_step_by_step(seed: int) -> None:
    net, draw = chain(), np.random.RandomState(seed)
    with autograd.record(), gluonjit.batching(granularity="cell", scheduler="depth"):
        samples = [net(row(draw), row(draw), draw.randint(2, size=draw.randint(1, 6)).tolist()) for _ in range(4)]
    assert gluonjit.explain().fused == gluonjit.explain().launches
    ends = [state[draw.randint(2)] for sample in samples for state in sample if draw.rand() < 0.3]
    history = tape_of(samples[0][0][0]._v)
    assert history is not None
    places = [place for end in ends for place in places_of(end._v)]
    found, going = history.reached(places)
    wanted = gradients.Pass(history.plan, [], True, True)
    for place in places:
        wanted.start(place)
    through = [
        number for number in reversed(range(len(history.plan.steps))) if wanted.through(history.plan.steps[number])
    ]
    assert found.flags.tolist() == wanted.flags.tolist()
    assert found.constants == wanted.constants
    assert going == through


@in_c
def test_a_longer_chain_takes_no_more_python(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    form = Launches.form
    monkeypatch.setattr(Launches, "form", lambda self, *given: made.append(1) or form(self, *given))
    monkeypatch.setattr(gradients.Pass, "through", lambda self, step: pytest.fail("a step is gone through by itself"))
    net, draw, counts = chain(), np.random.RandomState(0), []
    for length in (4, 4, 40):
        with autograd.record():
            total = gluonjit.add_n([net(row(draw), row(draw), [0] * length)[-1][0].sum() for _ in range(3)])
        total.backward()
        counts.append(len(made))
        made.clear()
        assert gluonjit.explain().launches > length
    assert counts[1] == counts[2] > 0


@in_c
def test_ways_are_kept_from_flush_to_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    net, draw = chain(), np.random.RandomState(0)

    def run() -> None:
        with autograd.record():
            total = gluonjit.add_n([net(row(draw), row(draw), [0, 1])[-1][0].sum() for _ in range(3)])
        total.backward()

    run()
    asked: list[Any] = []
    learning = gradients.Tape.learning
    monkeypatch.setattr(gradients.Tape, "learning", lambda self, *given: asked.append(given) or learning(self, *given))
    run()
    assert not asked
    net.cells[1].w.grad_req = "null"
    run()
    assert [kind.name for kind, *_ in asked] == [net.cells[1].name]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_entries_that_are_not_learned_are_those_of_the_operator(dtype: str) -> None:
    net = gluon.nn.Embedding(7, WIDTH)
    net.initialize(mx.init.Normal(1))
    net.cast(dtype)
    wanted = net(nd.array([0, 6, 3, 3], dtype="int32")).asnumpy()
    net.hybridize(dynamic_batch=True)
    before = net.weight.data().copy()
    with gluonjit.batching():
        found = [net(nd.array([number], dtype="int32")) for number in (0, 6, 3, 3)]
    net.weight.set_data(before * 0)
    assert np.array_equal(np.concatenate([each.asnumpy() for each in found]), wanted)


def test_a_table_is_read_after_what_was_written_to_it() -> None:
    net = gluon.nn.Embedding(300, 200)
    net.initialize()
    net.hybridize(dynamic_batch=True)
    for number in range(5):
        net.weight.set_data(nd.full((300, 200), number) * nd.ones((300, 200)))
        with gluonjit.batching():
            found = [net(nd.array([k])) for k in range(3)]
        assert all((each.asnumpy() == number).all() for each in found)
