"""Python's state and side effects in calls of MXNet's blocks and cells: between and inside minibatches as in eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon
from state_cases import READING, SEEN, WRITING, Stateful, blind
from state_cases import restore as restore_cases

import gluonjit
from gluonjit.errors import StateError
from gluonjit.hybrid.capture.guards.variants import AGAIN, Noted


def ones(count: int) -> Any:
    return mx.nd.ones((count,))


class Cell(Stateful, gluon.HybridBlock):
    """A call of it is one node, where that can be."""

    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__()
        with self.name_scope():
            self.dense = gluon.nn.Dense(3, in_units=3, flatten=False)
        self.begin(body, ones)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.body(self, F, F.tanh(self.dense(x)))


class Method(Stateful, gluon.Block):
    """The same as a block with a method that is declared as a cell."""

    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__()
        with self.name_scope():
            self.dense = gluon.nn.Dense(3, in_units=3, flatten=False)
        self.begin(body, ones)

    def forward(self, x: Any) -> Any:
        return self.cell(x)

    @gluonjit.cell
    def cell(self, x: Any) -> Any:
        return self.body(self, mx.nd, mx.nd.tanh(self.dense(x)))


class Net(gluon.Block):
    """A sample: its cell is called twice, and the state changes between the calls."""

    def __init__(self, kind: Any, body: Callable[..., Any], change: Callable[[Any, int], None]) -> None:
        super().__init__()
        with self.name_scope():
            self.cell = kind(body)
        self.change = change
        self.turn = 0

    def forward(self, x: Any) -> Any:
        first = self.cell(x)
        self.turn += 1
        self.change(self.cell, self.turn)
        return (self.cell(first) * self.cell(x)).sum()


def draws(self: Any, F: Any, x: Any) -> Any:
    return x * float(np.random.uniform())


def restore() -> None:
    restore_cases()
    np.random.seed(3)


def run(net: Net, samples: list[Any]) -> tuple[list[float], list[Any]]:
    with autograd.record():
        losses = [net(sample) for sample in samples]
        total = mx.nd.add_n(*losses)
    total.backward()
    return [loss.asscalar() for loss in losses], [p.grad().asnumpy() for p in net.collect_params().values()]


def both(kind: Any, body: Callable[..., Any], change: Callable[[Any, int], None]) -> tuple[Net, Net, Any, Any]:
    """The nets, and what each gave in two minibatches."""
    nets, found = [], []
    for batched in (False, True):
        restore()
        net = Net(kind, body, change)
        net.initialize()
        values = np.random.RandomState(0)
        for parameter in net.collect_params().values():
            parameter.set_data(mx.nd.array(values.uniform(-1, 1, parameter.shape)))
        if batched:
            net.hybridize(dynamic_batch=True)
        samples = [mx.nd.array(values.uniform(-1, 1, (3,))) for _ in range(4)]
        found.append([run(net, samples) for _ in range(2)])
        nets.append(net)
    restore()
    return nets[0], nets[1], found[0], found[1]


def check(wanted: Any, found: Any) -> None:
    for (losses, gradients), (others, theirs) in zip(wanted, found):
        np.testing.assert_allclose(others, losses, rtol=1e-4, atol=1e-5)
        for gradient, other in zip(gradients, theirs):
            np.testing.assert_allclose(other, gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore::gluonjit.errors.GluonJITWarning")
@pytest.mark.parametrize("kind", [Cell, Method])
@pytest.mark.parametrize("name", READING)
def test_state_that_changes_between_calls_is_read_as_it_is(name: str, kind: Any) -> None:
    _, _, wanted, found = both(kind, *READING[name])
    check(wanted, found)
    assert wanted[0][0] != wanted[1][0]


@pytest.mark.parametrize("name", READING)
def test_what_only_reads_is_one_node(name: str) -> None:
    body, _ = READING[name]
    restore()
    net = Net(Cell, body, lambda cell, turn: None)
    net.initialize()
    net.hybridize(dynamic_batch=True, granularity="cell")
    with gluonjit.batching(granularity="cell") as batch:
        [net(mx.nd.ones((3,))) for _ in range(3)]
    assert not batch.report.unbatched
    assert batch.report.kinds[net.cell.name].calls == 9


@pytest.mark.filterwarnings("ignore::gluonjit.errors.GluonJITWarning")
@pytest.mark.parametrize("kind", [Cell, Method])
@pytest.mark.parametrize("body", [*WRITING, draws])
def test_side_effects_happen_for_each_call(body: Callable[..., Any], kind: Any, capsys: Any, caplog: Any) -> None:
    effects = []

    def change(cell: Any, turn: int) -> None:
        out = capsys.readouterr().out
        effects.append((out, len(caplog.records), cell.count, len(cell.history), len(SEEN), len(cell.cache)))
        caplog.clear()

    eager, batched, wanted, found = both(kind, body, change)
    check(wanted, found)
    assert effects[1:8] == effects[9:]  # the first has what came before it as well
    for item, other in zip(eager.cell.history, batched.cell.history):
        np.testing.assert_allclose(other.asnumpy(), item.asnumpy(), rtol=1e-4)
        assert str(other)


@pytest.mark.filterwarnings("ignore::gluonjit.errors.GluonJITWarning")
def test_a_state_with_a_new_value_in_each_call_makes_it_no_node_and_the_report_says_which() -> None:
    net = Net(Cell, *READING["an object's attribute"])
    net.initialize()
    net.hybridize(dynamic_batch=True, granularity="cell")
    with gluonjit.batching(granularity="cell") as batch:
        [net(mx.nd.ones((3,))) for _ in range(40)]
    assert batch.report.unbatched[net.cell.name].startswith("self.cfg.beta had 16 values")


@pytest.mark.usefixtures("as_written")
@pytest.mark.parametrize("seen", [True, False])
def test_one_call_in_a_thousand_is_traced_again(seen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net(Cell, lambda self, F, x: x * self.cfg.beta, lambda cell, turn: None)
    net.initialize()
    net.hybridize(dynamic_batch=True, granularity="cell")
    if not seen:
        monkeypatch.setattr(Noted, "variant", blind)
    monkeypatch.setattr(AGAIN, "resting", 0.0)
    monkeypatch.setattr(AGAIN, "found", 0)
    samples = [mx.nd.array(np.random.rand(3)) for _ in range(350)]
    with gluonjit.batching(granularity="cell", sharing=False) as batch:
        [net(sample) for sample in samples]
    assert 1 <= batch.report.retraced <= 2  # C has counted before as well
    monkeypatch.setattr(AGAIN, "resting", 0.0)
    net.cell.cfg.beta = 0.5
    if seen:
        with gluonjit.batching(granularity="cell") as batch:
            [net(sample) for sample in samples]
        assert 1 <= batch.report.retraced <= 2  # C has counted before as well
        return
    with pytest.raises(StateError, match=r"1.0.*0.5"), gluonjit.batching(granularity="cell"):
        [net(sample) for sample in samples]
    with gluonjit.batching(granularity="cell"):
        found = net(samples[0])
    value = mx.nd.tanh(net.cell.dense(samples[0])) * 0.5
    first = mx.nd.tanh(net.cell.dense(value)) * 0.5
    np.testing.assert_allclose(found.asscalar(), (first * value).sum().asscalar(), rtol=1e-5)


class OwnCell(gluon.rnn.GRUCell):
    """A recurrent cell of the user's, which names its operators by the number of the call, as MXNet's own do."""

    def hybrid_forward(self, F: Any, inputs: Any, states: Any, **weights: Any) -> Any:
        assert f"t{self._counter}_"
        return super().hybrid_forward(F, inputs, states, **weights)


@pytest.mark.parametrize("kind", [gluon.rnn.GRUCell, gluon.rnn.LSTMCell, gluon.rnn.RNNCell, OwnCell])
def test_recurrent_cells_count_their_calls_for_names_alone(kind: Any) -> None:
    cell = kind(3, input_size=3)
    cell.initialize()
    cell.hybridize(dynamic_batch=True)
    with gluonjit.batching() as batch:
        for _ in range(3):
            states = [mx.nd.zeros((1, 3)) for _ in cell.state_info()]
            for _ in range(20):
                out, states = cell(mx.nd.ones((1, 3)), states)
    assert batch.report.nodes == 20 and not batch.report.unbatched, "equal calls are one"
    assert out.shape == (1, 3)
