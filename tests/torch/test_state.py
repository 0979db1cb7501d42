"""Python's state and side effects in calls of PyTorch's modules: between and inside minibatches all is as in eager."""

from __future__ import annotations

import collections
import copy
import dataclasses
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
import torch
from state_cases import READING as READING_EVERYWHERE
from state_cases import SEEN, Body, Change, Stateful, blind, setting
from state_cases import WRITING as WRITING_EVERYWHERE
from state_cases import restore as restore_cases
from torch import nn
from torch_support import assert_near

import gluonjit
from gluonjit.engines.torch.tracing import kinds
from gluonjit.errors import CaptureError, StateError
from gluonjit.hybrid.capture.guards.variants import AGAIN, Again, Noted

TABLE: dict[str, float] = {"scale": 1.0}


@dataclasses.dataclass
class Settings:
    """The same as a dataclass."""

    rate: float = 1.0
    sizes: list[int] = dataclasses.field(default_factory=lambda: [1, 2])


class Point(NamedTuple):
    """The same as a tuple."""

    x: float
    y: float


class Slots:
    """An object without a dictionary."""

    __slots__ = ("gain",)

    def __init__(self) -> None:
        self.gain = 1.0


class Dynamic:
    """An object that makes its attributes."""

    def __init__(self) -> None:
        self.known = {"gain": 1.0}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "known":
            raise AttributeError(name)
        return self.known[name]


class Cell(Stateful, nn.Module):
    """A call of it is one node, where that can be."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.begin(lambda self, F, x: x, torch.ones)
        self.cfg.act = torch.tanh
        self.settings = Settings()
        self.point = [Point(1.0, 2.0)]
        self.slots = Slots()
        self.dynamic = Dynamic()
        self.counter: collections.Counter[str] = collections.Counter()
        self.queue: collections.deque[Any] = collections.deque(maxlen=3)
        self.names = {"a"}
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        return self.body(self, torch, torch.tanh(self.linear(x)))


class Net(nn.Module):
    """A sample: its cell is called twice, and the state changes between the calls."""

    def __init__(self, change: Change) -> None:
        super().__init__()
        self.cell = Cell()
        self.change = change
        self.turn = 0

    def forward(self, x: Any) -> Any:
        first = self.cell(x)
        self.turn += 1
        self.change(self.cell, self.turn)
        return (self.cell(first) * self.cell(x)).sum()


class Scaled:
    """An object that is called."""

    gain = 1.0

    def __call__(self, x: Any) -> Any:
        return x * self.gain


SCALED = Scaled()


@contextmanager
def scaled(factor: float) -> Iterator[float]:
    yield factor


def with_manager(self: Any, F: Any, x: Any) -> Any:
    with scaled(self.cfg.beta) as factor:
        return x * factor


def slots_of(self: Any, F: Any, x: Any) -> Any:
    return x * self.slots.gain


READING: dict[str, tuple[Body, Change]] = {
    **READING_EVERYWHERE,
    "an attribute of an object's object": (lambda self, F, x: x * self.cfg.inner.gain, setting("cell.cfg.inner.gain")),
    "an object in the place of another": (
        lambda self, F, x: x * self.cfg.inner.gain,
        setting("cell.cfg.inner", lambda turn: Slots()),
    ),
    "the last item of a list": (lambda self, F, x: x * self.weights[-1], lambda cell, turn: cell.weights.append(turn)),
    "a slice of a list": (lambda self, F, x: x * sum(self.weights[:2]), setting("cell.weights[1]")),
    "the length of a list": (lambda self, F, x: x * len(self.weights), lambda cell, turn: cell.weights.append(1.0)),
    "truth of a list": (lambda self, F, x: x if self.history else -x, lambda cell, turn: cell.history.append(1)),
    "an option in a dict of a dict": (
        lambda self, F, x: x * self.opt["layers"]["gain"],
        setting("cell.opt['layers']['gain']"),
    ),
    "in a dict": (lambda self, F, x: x if "new" in self.opt else -x, setting("cell.opt['new']")),
    "items of a dict": (
        lambda self, F, x: sum([x * v for v in self.opt["layers"].values()]),
        setting("cell.opt['layers']['new']"),
    ),
    "in a set": (lambda self, F, x: x if "b" in self.names else -x, lambda cell, turn: cell.names.add("b")),
    "a global dict": (lambda self, F, x: x * TABLE["scale"], setting("TABLE['scale']", TABLE=TABLE)),
    "an attribute before a class attribute": (lambda self, F, x: x * self.cfg.bias, setting("cell.cfg.bias")),
    "a dataclass": (lambda self, F, x: x * self.settings.rate, setting("cell.settings.rate")),
    "a list in a dataclass": (lambda self, F, x: x * self.settings.sizes[1], setting("cell.settings.sizes[1]")),
    "a named tuple": (
        lambda self, F, x: x * self.point[0].x,
        setting("cell.point[0]", lambda turn: Point(1.0 / turn, 0.0)),
    ),
    "a slot": (slots_of, setting("cell.slots.gain")),
    "a __getattr__ of the user's": (lambda self, F, x: x * self.dynamic.gain, setting("cell.dynamic.known['gain']")),
    "getattr": (lambda self, F, x: x * getattr(self.cfg, "beta"), setting("cell.cfg.beta")),  # noqa: B009
    "a function that is kept": (
        lambda self, F, x: self.cfg.act(x),
        setting("cell.cfg.act", lambda turn: torch.sigmoid),
    ),
    "a callable object": (lambda self, F, x: SCALED(x), setting("SCALED.gain", SCALED=SCALED)),
    "math": (lambda self, F, x: x * math.sqrt(self.cfg.beta), setting("cell.cfg.beta")),
    "map": (lambda self, F, x: sum(map(lambda w: x * w * self.cfg.beta, self.weights)), setting("cell.cfg.beta")),
    "a context manager": (with_manager, setting("cell.cfg.beta")),
    "0.0 and -0.0": (
        lambda self, F, x: x * math.copysign(2.0, self.cfg.beta),
        setting("cell.cfg.beta", lambda t: -0.0 if t % 2 else 0.0),
    ),
    "True and 1": (
        lambda self, F, x: x if self.cfg.beta is True else -x,
        setting("cell.cfg.beta", lambda turn: True if turn % 2 else 1),
    ),
    "a string": (
        lambda self, F, x: getattr(torch, self.cfg.beta)(x) if self.cfg.beta != 1.0 else x,
        setting("cell.cfg.beta", lambda t: "sin" if t % 2 else "cos"),
    ),
    "a list that is replaced": (
        lambda self, F, x: x * self.weights[0],
        setting("cell.weights", lambda turn: [1.0 / turn]),
    ),
}


def run(net: Net, samples: list[Any]) -> tuple[list[Any], list[Any]]:
    """Losses and gradients."""
    net.zero_grad()
    losses = [net(sample) for sample in samples]
    sum(losses).backward()  # type: ignore[union-attr]
    return [float(loss.detach()) for loss in losses], [p.grad.clone() for p in net.parameters()]


def restore() -> None:
    """Undo what the programs have changed beside their nets."""
    restore_cases()
    SCALED.gain = TABLE["scale"] = 1.0


def both(body: Body, change: Change) -> tuple[Any, Any, Any, Any]:
    """The net that ran eagerly and the one that ran batched, and what each gave in two minibatches."""
    torch.manual_seed(0)
    eager = Net(change)
    batched = copy.deepcopy(eager)
    samples = [torch.randn(3) for _ in range(4)]
    gluonjit.hybridize(batched, dynamic_batch=True)
    found = []
    for net in (eager, batched):
        restore()
        net.cell.body = body
        found.append([run(net, samples) for _ in range(2)])
    restore()
    return eager, batched, found[0], found[1]


def check(wanted: Any, found: Any) -> None:
    for (losses, gradients), (others, theirs) in zip(wanted, found):
        assert_near(torch.tensor(others), torch.tensor(losses), rtol=1e-4, atol=1e-4)
        for gradient, other in zip(gradients, theirs):
            assert_near(other, gradient, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore::gluonjit.errors.GluonJITWarning")
@pytest.mark.parametrize("name", READING)
def test_state_that_changes_between_calls_is_read_as_it_is(name: str) -> None:
    _, _, wanted, found = both(*READING[name])
    check(wanted, found)
    assert wanted[0][0] != wanted[1][0] or len(set(wanted[0][0])) > 1


@pytest.mark.parametrize("name", READING)
def test_what_only_reads_is_one_node(name: str) -> None:
    body, _ = READING[name]
    net = Net(lambda cell, turn: None)
    net.cell.body = body
    restore()
    net.cell.opt["new"] = 1.0
    if name == "a string":
        net.cell.cfg.beta = "sin"  # type: ignore[assignment]
    gluonjit.hybridize(net, dynamic_batch=True, granularity="cell")
    with gluonjit.batching(granularity="cell") as batch:
        [net(torch.randn(3)) for _ in range(3)]
    assert batch.report.unbatched.keys() <= {"Net"}
    assert batch.report.kinds["cell"].calls == 9


def counts_elsewhere(self: Any, F: Any, x: Any) -> Any:
    self.cfg.beta += 1
    return x * self.cfg.beta


def sets_default(self: Any, F: Any, x: Any) -> Any:
    return x * self.cache.setdefault(len(self.cache), len(self.cache))


def counts_in_a_counter(self: Any, F: Any, x: Any) -> Any:
    self.counter["calls"] += 1
    return x * self.counter["calls"]


def queues(self: Any, F: Any, x: Any) -> Any:
    self.queue.append(float(len(self.queue)))
    return x * self.queue[0]


def keeps(self: Any, F: Any, x: Any) -> Any:
    self.last = x
    return x


def running_mean(self: Any, F: Any, x: Any) -> Any:
    self.mean = 0.9 * self.mean + 0.1 * x.detach()
    return x - self.mean


def running_mean_in_place(self: Any, F: Any, x: Any) -> Any:
    self.mean.mul_(0.9).add_(0.1 * x.detach())
    return x - self.mean.clone()


def warns(self: Any, F: Any, x: Any) -> Any:
    warnings.warn("called", RuntimeWarning, stacklevel=1)
    return x


def goes_on(self: Any, F: Any, x: Any) -> Any:
    if "generator" not in self.cache:
        self.cache["generator"] = iter(range(1, 100))
    return x * next(self.cache["generator"])


def extends_in_place(self: Any, F: Any, x: Any) -> Any:
    listed = self.history
    listed += [1]
    return x * len(listed)


def swallows(self: Any, F: Any, x: Any) -> Any:
    try:
        self.history.append(1)
    except BaseException:
        pass
    return x * len(self.history)


def by_callback(self: Any, F: Any, x: Any) -> Any:
    return x * sorted([2, 1], key=lambda item: (self.history.append(item), item)[1])[0] * len(self.history)


WRITING = [
    *WRITING_EVERYWHERE,
    counts_elsewhere,
    sets_default,
    counts_in_a_counter,
    queues,
    keeps,
    running_mean,
    running_mean_in_place,
    warns,
    goes_on,
    extends_in_place,
    swallows,
    by_callback,
]


@pytest.mark.filterwarnings("ignore::gluonjit.errors.GluonJITWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("body", WRITING)
def test_side_effects_happen_for_each_call(body: Body, capsys: Any, caplog: Any) -> None:
    effects = []

    def change(cell: Cell, turn: int) -> None:
        out = capsys.readouterr().out
        effects.append(
            (out, len(caplog.records), cell.count, len(cell.history), len(SEEN), len(cell.cache), cell.cfg.beta)
        )
        caplog.clear()

    eager, batched, wanted, found = both(body, change)
    check(wanted, found)
    assert effects[1:8] == effects[9:]  # the first has what came before it as well
    assert [
        float(item.sum()) if isinstance(item, torch.Tensor) else item for item in eager.cell.history
    ] == pytest.approx([float(item.sum()) if isinstance(item, torch.Tensor) else item for item in batched.cell.history])
    torch.testing.assert_close(batched.cell.mean, eager.cell.mean)
    if not any(
        isinstance(item, torch.Tensor) and item.requires_grad
        for item in [*eager.cell.history, *vars(eager.cell).values()]
    ):
        if "generator" not in eager.cell.cache:
            copied = copy.deepcopy(batched)
            assert len(copied.cell.history) == len(eager.cell.history)


@pytest.mark.parametrize("body", [body for body in WRITING if body is not keeps])  # it sets what it has not read
@pytest.mark.filterwarnings("ignore::gluonjit.errors.GluonJITWarning", "ignore::RuntimeWarning")
def test_a_side_effect_makes_a_call_no_node_and_the_report_says_why(body: Body) -> None:
    net = Net(lambda cell, turn: None)
    net.cell.body = body
    gluonjit.hybridize(net, dynamic_batch=True, granularity="cell")
    restore()
    with gluonjit.batching(granularity="cell") as batch:
        net(torch.randn(3))
    assert batch.report.unbatched["cell"].startswith(("it ", "self.cache['generator'] continues"))


class Steady(nn.Module):
    """A sample that changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = Cell()

    def forward(self, x: Any) -> Any:
        first = self.cell(x)
        return (self.cell(first) * self.cell(x)).sum()


@pytest.mark.parametrize("seen", [True, False])
def test_one_call_in_a_thousand_is_traced_again(seen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    net = Steady()
    net.cell.body = lambda self, F, x: x * self.cfg.beta
    gluonjit.hybridize(net, dynamic_batch=True, granularity="cell", expand=("Steady",))
    if not seen:
        monkeypatch.setattr(Noted, "variant", blind)
    monkeypatch.setattr(AGAIN, "resting", 0.0)
    monkeypatch.setattr(AGAIN, "found", 0)
    samples = [torch.randn(3) for _ in range(350)]
    with gluonjit.batching(granularity="cell", expand=("Steady",), sharing=False) as batch:
        [net(sample) for sample in samples]
    assert 1 <= batch.report.retraced <= 2  # C has counted before as well
    monkeypatch.setattr(AGAIN, "resting", 0.0)
    net.cell.cfg.beta = 0.5
    if seen:
        with gluonjit.batching(granularity="cell", expand=("Steady",)) as batch:
            [net(sample) for sample in samples]
        assert 1 <= batch.report.retraced <= 2  # C has counted before as well
        return
    with pytest.raises(StateError, match=r"1.0.*0.5"), gluonjit.batching(granularity="cell", expand=("Steady",)):
        [net(sample) for sample in samples]
    with gluonjit.batching(granularity="cell", expand=("Steady",)):
        found = net(samples[0])
    value = torch.tanh(net.cell.linear(samples[0])) * 0.5
    first = torch.tanh(net.cell.linear(value)) * 0.5
    torch.testing.assert_close(found.detach(), (first * value).sum().detach())


def test_a_constant_that_is_no_number_is_the_same_when_it_is_traced_again(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Steady()
    net.cell.body = lambda self, F, x: x + torch.where(x[:1] > 9, torch.tensor(math.nan), x[:1])
    gluonjit.hybridize(net, dynamic_batch=True, granularity="cell", expand=("Steady",))
    monkeypatch.setattr(AGAIN, "resting", 0.0)
    monkeypatch.setattr(AGAIN, "found", 0)
    with gluonjit.batching(granularity="cell", expand=("Steady",), sharing=False) as batch:
        [net(torch.randn(3)) for _ in range(700)]
    assert batch.report.retraced >= 1


def test_a_loop_that_is_no_longer_captured_whole_is_the_same_when_it_is_traced_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def body(self: Any, F: Any, x: Any) -> Any:
        for part in x.unbind(0):
            x = self.linear(x) + part
        return x

    net = Steady()
    net.cell.body = body
    gluonjit.hybridize(net, dynamic_batch=True, granularity="cell", expand=("Steady",))
    whole = [True]
    monkeypatch.setattr(kinds, "captures_whole", lambda: bool(whole))
    monkeypatch.setattr(AGAIN, "resting", 0.0)
    monkeypatch.setattr(AGAIN, "found", 0)
    with gluonjit.batching(granularity="cell", expand=("Steady",), sharing=False) as batch:
        net(torch.randn(3))
        whole.clear()
        [net(torch.randn(3)) for _ in range(700)]
    assert batch.report.retraced >= 1


def test_a_buffer_that_was_written_to_is_the_same_when_it_is_traced_again(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Steady()
    net.cell.register_buffer("scale", torch.ones(3))
    net.cell.body = lambda self, F, x: x * self.scale
    gluonjit.hybridize(net, dynamic_batch=True, granularity="cell", expand=("Steady",))
    with gluonjit.batching(granularity="cell", expand=("Steady",)):
        first = [net(torch.ones(3)) for _ in range(3)]
        net.cell.scale.fill_(2.0)
        with pytest.raises(CaptureError, match="was written to"):
            first[0].item()
    monkeypatch.setattr(AGAIN, "resting", 0.0)
    monkeypatch.setattr(AGAIN, "found", 0)
    with gluonjit.batching(granularity="cell", expand=("Steady",), sharing=False) as batch:
        found = [net(torch.ones(3)) for _ in range(700)]
    assert batch.report.retraced >= 1
    assert len({result.item() for result in found}) == 1


def test_what_a_trace_finds_it_finds_twice() -> None:
    """The collector may have closed a generator of the program's meanwhile."""
    answers = ["another call", ""]
    assert Again().timed(lambda: answers.pop(0)) == ""
    assert Again().timed(lambda: "another call") == "another call"


class Keeping(nn.Module):
    """A model that gives its part what the part keeps as attributes."""

    def __init__(self, give: Any) -> None:
        super().__init__()
        self.part, self.give = Gated(), give

    def forward(self, x: Any) -> Any:
        return self.give(self.part, x)


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.state, self.kept = nn.Linear(3, 3), torch.ones(2, 3), [torch.ones(2, 3) * 2]
        self.register_buffer("buffer", torch.full((2, 3), 0.5))

    def forward(self, x: Any, h: Any) -> Any:
        return torch.tanh(self.linear(x) + h) * h


GIVEN: dict[str, Any] = {
    "an attribute": lambda part, x: part(x, part.state),
    "first": lambda part, x: part(part.state, x),
    "twice": lambda part, x: part(part.state, part.state) * x,
    "by name": lambda part, x: part(h=x, x=part.state),
    "a buffer": lambda part, x: part(part.buffer, part.state) * x,
    "from a list": lambda part, x: part(part.kept[0], x),
    "in turn": lambda part, x: part(part(x, part.state), part(part.state, x)),
}


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("name", GIVEN)
def test_a_module_is_given_what_it_keeps(name: str, inside: bool) -> None:
    torch.manual_seed(0)
    eager = Keeping(GIVEN[name])
    net = copy.deepcopy(eager)
    gluonjit.hybridize(net if inside else net.part, dynamic_batch=True)
    inputs = [torch.randn(2, 3) for _ in range(3)]
    for step in range(4):
        for model in (eager, net):
            model.zero_grad()
            sum((k + 1) * model(x).sum() for k, x in enumerate(inputs)).backward()
        assert_near(net.part.linear.weight.grad, eager.part.linear.weight.grad)
        for model in (eager, net):
            model.part.state = inputs[0] if step % 2 else torch.full((2, 3), float(step))
