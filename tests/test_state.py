"""Python's state and side effects in calls of MXNet's blocks and cells: between and inside minibatches as in eager."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon

import gluonjit
from gluonjit.errors import StateError
from gluonjit.hybrid.guards import AGAIN, Noted, Variant

LOG = logging.getLogger("state")
SCALE = 1.0
SEEN: list[Any] = []


class Config:
    """Options of a model."""

    gain = 1.0

    def __init__(self) -> None:
        self.beta = 1.0

    @property
    def double(self) -> float:
        return 2 * self.beta


class Cell(gluon.HybridBlock):
    """A call of it is one node, where that can be."""

    factor = 1.0

    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__()
        with self.name_scope():
            self.dense = gluon.nn.Dense(3, in_units=3, flatten=False)
        self.cfg = Config()
        self.weights = [1.0, 2.0]
        self.opt: dict[str, Any] = {"beta": 1.0}
        self.count = 0
        self.history: list[Any] = []
        self.cache: dict[Any, Any] = {}
        self.body = body

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.body(self, F, F.tanh(self.dense(x)))


class Method(gluon.Block):
    """The same as a block with a method that is declared as a cell."""

    factor = 1.0

    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__()
        with self.name_scope():
            self.dense = gluon.nn.Dense(3, in_units=3, flatten=False)
        self.cfg = Config()
        self.weights = [1.0, 2.0]
        self.opt: dict[str, Any] = {"beta": 1.0}
        self.count = 0
        self.history: list[Any] = []
        self.cache: dict[Any, Any] = {}
        self.body = body

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


def set_global(cell: Any, turn: int) -> None:
    global SCALE
    SCALE = 1.0 / turn


def closure() -> tuple[Any, Any]:
    factor = 1.0

    def body(self: Any, F: Any, x: Any) -> Any:
        return x * factor

    def change(cell: Any, turn: int) -> None:
        nonlocal factor
        factor = 1.0 / turn

    return body, change


body_of_closure, change_of_closure = closure()


def helper(x: Any, scale: float = 1.0) -> Any:
    return x * scale


def nested(self: Any, F: Any, x: Any) -> Any:
    def inner(y: Any) -> Any:
        return F.sigmoid(y) * self.cfg.beta

    return inner(x)


def setting(path: str) -> Callable[[Any, int], None]:
    def change(cell: Any, turn: int) -> None:
        exec(f"{path} = value", {"cell": cell, "value": 1.0 / turn, "Cell": Cell, "Method": Method, "Config": Config})

    return change


def of_class(cell: Any, turn: int) -> None:
    Cell.factor = Method.factor = 1.0 / turn


def of_default(cell: Any, turn: int) -> None:
    helper.__defaults__ = (1.0 / turn,)


READING: dict[str, tuple[Callable[..., Any], Callable[[Any, int], None]]] = {
    "an object's attribute": (lambda self, F, x: x * self.cfg.beta, setting("cell.cfg.beta")),
    "an item of a list": (lambda self, F, x: x * self.weights[0], setting("cell.weights[0]")),
    "a loop over a list": (lambda self, F, x: F.add_n(*[x * w for w in self.weights]), setting("cell.weights[1]")),
    "an option in a dict": (lambda self, F, x: x * self.opt["beta"], setting("cell.opt['beta']")),
    "dict.get": (lambda self, F, x: x * self.opt.get("new", 3.0), setting("cell.opt['new']")),
    "its own attribute": (lambda self, F, x: x * self.count, setting("cell.count")),
    "a global": (lambda self, F, x: x * SCALE, set_global),
    "a closure's variable": (body_of_closure, change_of_closure),
    "a class attribute": (lambda self, F, x: x * self.factor, of_class),
    "a class attribute of an object": (lambda self, F, x: x * self.cfg.gain, setting("Config.gain")),
    "a default": (lambda self, F, x: helper(x), of_default),
    "a property": (lambda self, F, x: x * self.cfg.double, setting("cell.cfg.beta")),
    "nested helpers": (nested, setting("cell.cfg.beta")),
    "a partial": (lambda self, F, x: functools.partial(helper, scale=self.cfg.beta)(x), setting("cell.cfg.beta")),
}


def counts(self: Any, F: Any, x: Any) -> Any:
    self.count += 1
    return x * self.count


def appends(self: Any, F: Any, x: Any) -> Any:
    self.history.append(x)
    return x * len(self.history)


def caches(self: Any, F: Any, x: Any) -> Any:
    if "key" not in self.cache:
        self.cache["key"] = mx.nd.ones((3,)) * 2
    return x * self.cache["key"]


def prints(self: Any, F: Any, x: Any) -> Any:
    print("called")
    return x


def logs(self: Any, F: Any, x: Any) -> Any:
    LOG.warning("called")
    return x


def adds_to_a_global(self: Any, F: Any, x: Any) -> Any:
    SEEN.append(1)
    return x * len(SEEN)


@functools.cache
def remembered(key: int) -> float:
    SEEN.append(key)
    return float(key)


def calls_what_is_remembered(self: Any, F: Any, x: Any) -> Any:
    return x * remembered(3)


def draws(self: Any, F: Any, x: Any) -> Any:
    return x * float(np.random.uniform())


WRITING = [counts, appends, caches, prints, logs, adds_to_a_global, calls_what_is_remembered, draws]


def restore() -> None:
    global SCALE
    SCALE, Cell.factor, Method.factor, Config.gain = 1.0, 1.0, 1.0, 1.0
    helper.__defaults__ = (1.0,)
    change_of_closure(None, 1)
    del SEEN[:]
    remembered.cache_clear()
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
@pytest.mark.parametrize("body", WRITING)
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


def blind(self: Noted, key: Any) -> Variant:
    """A variant whose guards see nothing."""
    return Variant(key, None, (), (), self.traced)


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
