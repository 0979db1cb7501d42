"""Python's state and side effects in calls of PyTorch's modules: between and inside minibatches all is as in eager."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import logging
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

import gluonjit
from gluonjit.errors import StateError
from gluonjit.hybrid.guards import AGAIN, Noted, Variant

LOG = logging.getLogger("state")
SCALE = 1.0
TABLE: dict[str, float] = {"scale": 1.0}
SEEN: list[Any] = []


class Config:
    """Options of a model, as programs have them."""

    bias = 0.5

    def __init__(self) -> None:
        self.beta = 1.0
        self.inner = Inner()
        self.act: Callable[..., Any] = torch.tanh

    @property
    def double(self) -> float:
        return 2 * self.beta


class Inner:
    """A part of them."""

    depth = 1

    def __init__(self) -> None:
        self.gain = 1.0


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


class Cell(nn.Module):
    """A call of it is one node, where that can be."""

    factor = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.reset()

    def reset(self) -> None:
        self.cfg = Config()
        self.weights = [1.0, 2.0]
        self.opt: dict[str, Any] = {"beta": 1.0, "layers": {"gain": 1.0}}
        self.settings = Settings()
        self.point = [Point(1.0, 2.0)]
        self.slots = Slots()
        self.dynamic = Dynamic()
        self.count = 0
        self.history: list[Any] = []
        self.cache: dict[Any, Any] = {}
        self.counter: collections.Counter[str] = collections.Counter()
        self.queue: collections.deque[Any] = collections.deque(maxlen=3)
        self.names = {"a"}
        self.body: Callable[[Any, Any], Any] = lambda self, x: x
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        return self.body(self, torch.tanh(self.linear(x)))


class Net(nn.Module):
    """A sample: its cell is called twice, and the state changes between the calls."""

    def __init__(self, change: Callable[[Cell, int], None]) -> None:
        super().__init__()
        self.cell = Cell()
        self.change = change
        self.turn = 0

    def forward(self, x: Any) -> Any:
        first = self.cell(x)
        self.turn += 1
        self.change(self.cell, self.turn)
        return (self.cell(first) * self.cell(x)).sum()


def set_global(cell: Cell, turn: int) -> None:
    global SCALE
    SCALE = 1.0 / turn


def closure() -> tuple[Any, Any]:
    factor = 1.0

    def body(self: Cell, x: Any) -> Any:
        return x * factor

    def change(cell: Cell, turn: int) -> None:
        nonlocal factor
        factor = 1.0 / turn

    return body, change


def helper(x: Any, scale: float = 1.0, *, shift: float = 0.0) -> Any:
    return x * scale + shift


def deep(x: Any, cell: Cell) -> Any:
    def inner(y: Any) -> Any:
        return y * cell.cfg.inner.gain

    return inner(x)


def changed_default(cell: Cell, turn: int) -> None:
    helper.__defaults__ = (1.0 / turn,)


class Scaled:
    """An object that is called."""

    gain = 1.0

    def __call__(self, x: Any) -> Any:
        return x * self.gain


SCALED = Scaled()


def setting(path: str, value: Callable[[int], Any] = lambda turn: 1.0 / turn) -> Callable[[Cell, int], None]:
    """A change: an attribute, or with brackets an item."""

    def change(cell: Cell, turn: int) -> None:
        exec(
            f"{path} = value",
            {"cell": cell, "value": value(turn), "TABLE": TABLE, "Cell": Cell, "Inner": Inner, "S": SCALED},
        )

    return change


@contextmanager
def scaled(factor: float) -> Iterator[float]:
    yield factor


def with_manager(self: Cell, x: Any) -> Any:
    with scaled(self.cfg.beta) as factor:
        return x * factor


def slots_of(self: Cell, x: Any) -> Any:
    return x * self.slots.gain


body_of_closure, change_of_closure = closure()

READING: dict[str, tuple[Callable[[Cell, Any], Any], Callable[[Cell, int], None]]] = {
    "an object's attribute": (lambda self, x: x * self.cfg.beta, setting("cell.cfg.beta")),
    "an attribute of an object's object": (lambda self, x: x * self.cfg.inner.gain, setting("cell.cfg.inner.gain")),
    "an object in the place of another": (
        lambda self, x: x * self.cfg.inner.gain,
        setting("cell.cfg.inner", lambda turn: Slots()),
    ),
    "an item of a list": (lambda self, x: x * self.weights[0], setting("cell.weights[0]")),
    "the last item of a list": (lambda self, x: x * self.weights[-1], lambda cell, turn: cell.weights.append(turn)),
    "a slice of a list": (lambda self, x: x * sum(self.weights[:2]), setting("cell.weights[1]")),
    "the length of a list": (lambda self, x: x * len(self.weights), lambda cell, turn: cell.weights.append(1.0)),
    "a loop over a list": (lambda self, x: sum([x * w for w in self.weights]), setting("cell.weights[1]")),
    "truth of a list": (lambda self, x: x if self.history else -x, lambda cell, turn: cell.history.append(1)),
    "an option in a dict": (lambda self, x: x * self.opt["beta"], setting("cell.opt['beta']")),
    "an option in a dict of a dict": (
        lambda self, x: x * self.opt["layers"]["gain"],
        setting("cell.opt['layers']['gain']"),
    ),
    "dict.get": (lambda self, x: x * self.opt.get("new", 3.0), setting("cell.opt['new']")),
    "in a dict": (lambda self, x: x if "new" in self.opt else -x, setting("cell.opt['new']")),
    "items of a dict": (
        lambda self, x: sum([x * v for v in self.opt["layers"].values()]),
        setting("cell.opt['layers']['new']"),
    ),
    "in a set": (lambda self, x: x if "b" in self.names else -x, lambda cell, turn: cell.names.add("b")),
    "a global": (lambda self, x: x * SCALE, set_global),
    "a global dict": (lambda self, x: x * TABLE["scale"], setting("TABLE['scale']")),
    "a closure's variable": (body_of_closure, change_of_closure),
    "a class attribute": (lambda self, x: x * self.factor, setting("Cell.factor")),
    "a class attribute of an object": (lambda self, x: x * self.cfg.inner.depth, setting("Inner.depth")),
    "an attribute before a class attribute": (lambda self, x: x * self.cfg.bias, setting("cell.cfg.bias")),
    "a default": (lambda self, x: helper(x), changed_default),
    "a property": (lambda self, x: x * self.cfg.double, setting("cell.cfg.beta")),
    "nested helpers": (lambda self, x: deep(x, self), setting("cell.cfg.inner.gain")),
    "a dataclass": (lambda self, x: x * self.settings.rate, setting("cell.settings.rate")),
    "a list in a dataclass": (lambda self, x: x * self.settings.sizes[1], setting("cell.settings.sizes[1]")),
    "a named tuple": (
        lambda self, x: x * self.point[0].x,
        setting("cell.point[0]", lambda turn: Point(1.0 / turn, 0.0)),
    ),
    "a slot": (slots_of, setting("cell.slots.gain")),
    "a __getattr__ of the user's": (lambda self, x: x * self.dynamic.gain, setting("cell.dynamic.known['gain']")),
    "getattr": (lambda self, x: x * getattr(self.cfg, "beta"), setting("cell.cfg.beta")),  # noqa: B009
    "a function that is kept": (lambda self, x: self.cfg.act(x), setting("cell.cfg.act", lambda turn: torch.sigmoid)),
    "a callable object": (lambda self, x: SCALED(x), setting("S.gain")),
    "math": (lambda self, x: x * math.sqrt(self.cfg.beta), setting("cell.cfg.beta")),
    "a partial": (lambda self, x: functools.partial(helper, scale=self.cfg.beta)(x), setting("cell.cfg.beta")),
    "map": (lambda self, x: sum(map(lambda w: x * w * self.cfg.beta, self.weights)), setting("cell.cfg.beta")),
    "a context manager": (with_manager, setting("cell.cfg.beta")),
    "0.0 and -0.0": (
        lambda self, x: x * math.copysign(2.0, self.cfg.beta),
        setting("cell.cfg.beta", lambda t: -0.0 if t % 2 else 0.0),
    ),
    "True and 1": (
        lambda self, x: x if self.cfg.beta is True else -x,
        setting("cell.cfg.beta", lambda turn: True if turn % 2 else 1),
    ),
    "a string": (
        lambda self, x: getattr(torch, self.cfg.beta)(x) if self.cfg.beta != 1.0 else x,
        setting("cell.cfg.beta", lambda t: "sin" if t % 2 else "cos"),
    ),
    "its own attribute": (lambda self, x: x * self.count, setting("cell.count")),
    "a list that is replaced": (
        lambda self, x: x * self.weights[0],
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
    """What the programs have changed beside their nets."""
    global SCALE
    SCALE, Cell.factor, Inner.depth, SCALED.gain = 1.0, 1.0, 1, 1.0
    TABLE["scale"] = 1.0
    helper.__defaults__ = (1.0,)
    change_of_closure(None, 1)  # type: ignore[arg-type]
    del SEEN[:]
    remembered.cache_clear()


def both(body: Callable[[Cell, Any], Any], change: Callable[[Cell, int], None]) -> tuple[Any, Any, Any, Any]:
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
        torch.testing.assert_close(torch.tensor(others), torch.tensor(losses), rtol=1e-4, atol=1e-4)
        for gradient, other in zip(gradients, theirs):
            torch.testing.assert_close(other, gradient, rtol=1e-4, atol=1e-4)


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


def counts(self: Cell, x: Any) -> Any:
    self.count += 1
    return x * self.count


def counts_elsewhere(self: Cell, x: Any) -> Any:
    self.cfg.beta += 1
    return x * self.cfg.beta


def appends(self: Cell, x: Any) -> Any:
    self.history.append(x)
    return x


def caches(self: Cell, x: Any) -> Any:
    if "key" not in self.cache:
        self.cache["key"] = torch.ones(3) * 2
    return x * self.cache["key"]


def sets_default(self: Cell, x: Any) -> Any:
    return x * self.cache.setdefault(len(self.cache), len(self.cache))


def counts_in_a_counter(self: Cell, x: Any) -> Any:
    self.counter["calls"] += 1
    return x * self.counter["calls"]


def queues(self: Cell, x: Any) -> Any:
    self.queue.append(float(len(self.queue)))
    return x * self.queue[0]


def keeps(self: Cell, x: Any) -> Any:
    self.last = x
    return x


def running_mean(self: Cell, x: Any) -> Any:
    self.mean = 0.9 * self.mean + 0.1 * x.detach()
    return x - self.mean


def running_mean_in_place(self: Cell, x: Any) -> Any:
    self.mean.mul_(0.9).add_(0.1 * x.detach())
    return x - self.mean.clone()


def logs(self: Cell, x: Any) -> Any:
    LOG.warning("called")
    return x


def prints(self: Cell, x: Any) -> Any:
    print("called")
    return x


def warns(self: Cell, x: Any) -> Any:
    warnings.warn("called", RuntimeWarning, stacklevel=1)
    return x


def goes_on(self: Cell, x: Any) -> Any:
    if "generator" not in self.cache:
        self.cache["generator"] = iter(range(1, 100))
    return x * next(self.cache["generator"])


def adds_to_a_global(self: Cell, x: Any) -> Any:
    SEEN.append(1)
    return x * len(SEEN)


def extends_in_place(self: Cell, x: Any) -> Any:
    listed = self.history
    listed += [1]
    return x * len(listed)


def swallows(self: Cell, x: Any) -> Any:
    try:
        self.history.append(1)
    except BaseException:
        pass
    return x * len(self.history)


@functools.cache
def remembered(key: int) -> float:
    SEEN.append(key)
    return float(key)


def calls_what_is_remembered(self: Cell, x: Any) -> Any:
    return x * remembered(3)


def by_callback(self: Cell, x: Any) -> Any:
    return x * sorted([2, 1], key=lambda item: (self.history.append(item), item)[1])[0] * len(self.history)


WRITING = [
    counts,
    counts_elsewhere,
    appends,
    caches,
    sets_default,
    counts_in_a_counter,
    queues,
    keeps,
    running_mean,
    running_mean_in_place,
    logs,
    prints,
    warns,
    goes_on,
    adds_to_a_global,
    extends_in_place,
    swallows,
    calls_what_is_remembered,
    by_callback,
]


@pytest.mark.filterwarnings("ignore::gluonjit.errors.GluonJITWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("body", WRITING)
def test_side_effects_happen_for_each_call(body: Callable[[Cell, Any], Any], capsys: Any, caplog: Any) -> None:
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


@pytest.mark.parametrize("body", WRITING)
@pytest.mark.filterwarnings("ignore::gluonjit.errors.GluonJITWarning", "ignore::RuntimeWarning")
def test_a_side_effect_makes_a_call_no_node_and_the_report_says_why(body: Callable[[Cell, Any], Any]) -> None:
    net = Net(lambda cell, turn: None)
    net.cell.body = body
    gluonjit.hybridize(net, dynamic_batch=True, granularity="cell")
    restore()
    with gluonjit.batching(granularity="cell") as batch:
        net(torch.randn(3))
    assert batch.report.unbatched["cell"].startswith(("it ", "self.cache['generator'] goes on"))


class Steady(nn.Module):
    """A sample that changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = Cell()

    def forward(self, x: Any) -> Any:
        first = self.cell(x)
        return (self.cell(first) * self.cell(x)).sum()


def blind(self: Noted, key: Any) -> Variant:
    """A variant whose guards see nothing."""
    return Variant(key, None, (), (), self.traced)


@pytest.mark.parametrize("seen", [True, False])
def test_one_call_in_a_thousand_is_traced_again(seen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    net = Steady()
    net.cell.body = lambda self, x: x * self.cfg.beta
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
