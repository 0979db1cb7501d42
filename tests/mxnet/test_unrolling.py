"""Blocks with a `forward` of their own, captured whole: one node for each shape, with the eager program's values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn, rnn
from support import assert_close

import gluonjit
from gluonjit.engines.mxnet.capture import calls

C = 4


class Base(gluon.Block):
    """Layers and a weight, and something that calls may change."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.one, self.other = (nn.Dense(C, in_units=C, flatten=False) for _ in range(2))
            self.weight = self.params.get("weight", shape=(C, C))
            self.lstm, self.gru = rnn.LSTM(C, input_size=C, bidirectional=True), rnn.GRUCell(C, input_size=C)
        self.count = 0


class Loop(Base):
    def forward(self, x: Any) -> Any:
        state, scale = nd.zeros((1, C)), nd.array([0.5])
        for row in x:
            state = nd.tanh(nd.dot(state * scale, self.weight.data()) + row.expand_dims(0))
        return self.one(state)


class Chart(Base):
    def forward(self, x: Any) -> Any:
        cells = {(i, i + 1): x[i] for i in range(len(x))}
        for width in range(2, len(x) + 1):
            for i in range(len(x) - width + 1):
                parts = [cells[i, k] * cells[k, i + width] for k in range(i + 1, i + width)]
                cells[i, i + width] = nd.tanh(nd.add_n(*parts)) + nd.full((C,), 0.5)
        return self.one(cells[0, len(x)].expand_dims(0))


class Layers(Base):
    def forward(self, x: Any) -> Any:
        states = self.lstm(x.expand_dims(1))
        again, _ = self.lstm(x.expand_dims(1), self.lstm.begin_state(1))
        out, _ = self.gru(x[:1], self.gru.begin_state(1))
        return states.sum(axis=0)[:, :C] + again.sum(axis=0)[:, C:] + out


class Indexing(Base):
    def forward(self, x: Any) -> Any:
        picked = nd.take(self.weight.data(), nd.array([0, 3])).sum(axis=0)
        return self.one(x)[:, 1:3].sum(axis=1) + nd.pick(self.other(x), nd.ones((len(x),))) + picked[2]


class Paused(Base):
    def forward(self, x: Any) -> Any:
        with autograd.pause():
            target = self.one(x)
        return (self.other(x) - target) ** 2


class Asking(Base):
    def forward(self, x: Any) -> Any:
        return self.one(x) * (2 if autograd.is_recording() else 3) + autograd.is_training()


class Ask(Base):
    def forward(self, x: Any, factor: float) -> Any:
        return self.one(x) * nd.array([factor])


class Predicting(Base):
    def forward(self, x: Any) -> Any:
        with autograd.predict_mode():
            return nd.Dropout(self.one(x), p=0.9)


class Counting(Base):
    def forward(self, x: Any) -> Any:
        self.count += 1
        return self.one(x) * self.count


class Reading(Base):
    def forward(self, x: Any) -> Any:
        return self.one(x) * float(x.sum().asscalar())


class Writing(Base):
    def forward(self, x: Any) -> Any:
        scale = nd.array([1.0] * C)
        scale[1] = 7.0
        return self.one(x) * scale


class Same(Base):
    def forward(self, x: Any) -> Any:
        return x


class Twice(Base):
    def forward(self, x: Any) -> Any:
        state = self.one(x)
        return state, [state]


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets calls be captured whole, as a pace would."""
    monkeypatch.setattr(calls, "captures_whole", lambda joined: True)


def _pair(make: type[Base]) -> tuple[Base, Base]:
    eager, net = make(), make()
    for block in (eager, net):
        block.initialize()
    for own, other in zip(net.collect_params().values(), eager.collect_params().values()):
        own.set_data(other.data())
    net.hybridize(dynamic_batch=True)
    return eager, net


def _samples(lengths: tuple[int, ...]) -> list[Any]:
    numbers = np.random.RandomState(0)
    return [nd.array(numbers.randn(length, C)) for length in lengths]


def _trained(net: Base, samples: list[Any], *args: Any) -> tuple[list[Any], list[Any]]:
    net.collect_params().zero_grad()
    with autograd.record():
        results = [net(sample, *args) for sample in samples]
        total = nd.add_n(*[(result**2).sum() for result in results])
    total.backward()
    return results, [parameter.grad() for parameter in net.collect_params().values()]


def _compare(eager: Base, net: Base, samples: list[Any], *args: Any) -> Any:
    for one, other in zip(_trained(net, samples, *args), _trained(eager, samples, *args)):
        report = gluonjit.explain()
        for mine, theirs in zip(one, other):
            assert_close(mine.asnumpy(), theirs.asnumpy(), "eager")
    for sample in samples:
        assert_close(net(sample, *args).asnumpy(), eager(sample, *args).asnumpy(), "eager")
    return report


@pytest.mark.parametrize("make", [Loop, Chart, Layers, Indexing, Paused, Asking])
def test_a_node_for_each_shape(make: type[Base], whole: None) -> None:
    eager, net = _pair(make)
    for _ in range(2):
        report = _compare(eager, net, _samples((3, 4, 3, 5, 4, 3)))
        kind = report.kinds[net.name]
        assert kind.nodes == 6 and kind.launches <= 3
    assert not report.cache["misses"]


def test_constants_of_numbers_that_are_arguments(whole: None) -> None:
    eager, net = _pair(Ask)
    for factor in (1.5, 2.5, 1.5):
        assert net.name in _compare(eager, net, _samples((3, 3)), factor).kinds


@pytest.mark.parametrize("make", [Counting, Reading, Writing, Predicting])
def test_what_is_no_node(make: type[Base], whole: None) -> None:
    eager, net = _pair(make)
    report = _compare(eager, net, _samples((3, 4, 3)))
    assert net.name not in report.kinds and net.count == eager.count


def test_results_that_share_memory(whole: None) -> None:
    _, net = _pair(Same)
    sample = nd.ones((2, C))
    net(sample)[:] = 5.0
    assert (sample.asnumpy() == 5.0).all()
    _, net = _pair(Twice)
    state, (again,) = net(sample)
    state[:] = 5.0
    assert (again.asnumpy() == 5.0).all()


def test_blocks_with_hooks_are_no_node(whole: None) -> None:
    eager, net = _pair(Loop)
    seen: list[Any] = []
    net.register_forward_hook(lambda block, args, result: seen.append(result.shape))
    _compare(eager, net, _samples((3, 4, 3)))
    assert len(seen) == 6


def test_both_ways_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    eager, net = _pair(Loop)
    nodes = []
    for way in (False, True, False, True):
        monkeypatch.setattr(calls, "captures_whole", lambda joined, way=way: way)
        nodes.append(net.name in _compare(eager, net, _samples((3, 4, 3, 5))).kinds)
    assert nodes == [False, True, False, True]


class Pausing(gluon.HybridBlock):
    """A cell that computes a part without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Dense(C, in_units=C), nn.Dense(C, in_units=C)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        with autograd.pause():
            target = self.one(x)
        return self.other(x) - target


def test_a_cell_that_pauses_recording() -> None:
    eager, net = _pair(Pausing)  # type: ignore[arg-type]
    _compare(eager, net, _samples((2, 2, 2)))


def test_constants_are_the_same_when_a_call_is_traced_again(whole: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from gluonjit.engines.mxnet.capture import cells

    eager, net = _pair(Loop)
    _compare(eager, net, _samples((3, 3)))
    monkeypatch.setattr(cells.AGAIN, "due", lambda: True)
    _compare(eager, net, _samples((3, 3)))
