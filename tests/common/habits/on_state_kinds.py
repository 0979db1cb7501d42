"""All kinds of Python objects that a body may read a number from, each changed between minibatches and samples."""

from __future__ import annotations

import collections
import decimal
import fractions
import operator
import types
import weakref
from typing import Any, Callable

from . import habit


class Slots:
    __slots__ = ("beta", "inner")

    def __init__(self, beta: float) -> None:
        self.beta = beta
        self.inner = (beta, [beta])


class Proxy:
    """Attributes that are made up when they are read."""

    def __init__(self) -> None:
        self.table = {"beta": 1.0}

    def __getattr__(self, name: str) -> Any:
        if name == "table":
            raise AttributeError(name)
        return self.table[name]


class Sequence:
    """An object that is asked for items, length and truth."""

    def __init__(self) -> None:
        self.items = [1.0]

    def __getitem__(self, k: int) -> float:
        return self.items[k]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Any:
        return iter(self.items)


class Equal:
    """An object that says it equals every other."""

    def __init__(self, beta: float) -> None:
        self.beta = beta

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


def read(t: Any, reads: Callable[[Any], Any], make: Any, change: Callable[[Any, float], Any]) -> None:
    """A body that multiplies with `reads(self)`; `make(self)` sets its state up, `change(part, value)` changes it."""

    class Part(t.Part):
        def setup(self) -> None:
            make(self)

        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x)) * reads(self)

    vary(t, Part, change)


def vary(t: Any, part: Any, change: Callable[[Any, Any], Any], values: Any = (1.0, 0.5, 0.1)) -> None:
    net = t.net(part)
    for value in values:
        change(net.part, value)
        t.minibatch(net, label=f"{value}")
    t.minibatch(net, before=lambda k: change(net.part, values[k % len(values)]), label="within")
    change(net.part, values[0])
    t.minibatch(net, label="again")


READS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], Callable[[Any, float], Any]]] = {
    "slots": (
        lambda self: self.s.beta * self.s.inner[1][0],
        lambda self: setattr(self, "s", Slots(1.0)),
        lambda part, value: setattr(part.s, "beta", value),
    ),
    "a list in a tuple of slots": (
        lambda self: self.s.inner[1][0],
        lambda self: setattr(self, "s", Slots(1.0)),
        lambda part, value: part.s.inner[1].__setitem__(0, value),
    ),
    "a proxy": (
        lambda self: self.proxy.beta,
        lambda self: setattr(self, "proxy", Proxy()),
        lambda part, value: part.proxy.table.update(beta=value),
    ),
    "an object with items": (
        lambda self: self.seq[0] * len(self.seq) + sum(self.seq),
        lambda self: setattr(self, "seq", Sequence()),
        lambda part, value: part.seq.items.insert(0, value),
    ),
    "a set": (
        lambda self: 0.5 if 1.0 in self.cfg["on"] else 2.0,
        lambda self: setattr(self, "cfg", {"on": set()}),
        lambda part, value: part.cfg["on"].symmetric_difference_update({value}),
    ),
    "a defaultdict": (
        lambda self: 1.0 + self.counts["seen"],
        lambda self: setattr(self, "counts", collections.defaultdict(float)),
        lambda part, value: part.counts.__setitem__("seen", value),
    ),
    "a chain of maps": (
        lambda self: self.maps["beta"],
        lambda self: setattr(self, "maps", collections.ChainMap({}, {"beta": 1.0})),
        lambda part, value: part.maps.__setitem__("beta", value),
    ),
    "a deque": (
        lambda self: self.recent[-1] + max(self.recent),
        lambda self: setattr(self, "recent", collections.deque([1.0], maxlen=2)),
        lambda part, value: part.recent.append(value),
    ),
    "the truth of a list": (
        lambda self: 2.0 if self.cfg.extra else 1.0,
        lambda self: setattr(self, "cfg", types.SimpleNamespace(extra=[])),
        lambda part, value: part.cfg.extra.append(value) if value == 0.5 else part.cfg.extra.clear(),
    ),
    "a length": (
        lambda self: 1.0 / (1 + len(self.seen["words"])),
        lambda self: setattr(self, "seen", {"words": []}),
        lambda part, value: part.seen["words"].append(value),
    ),
    "__dict__": (
        lambda self: self.cfg.__dict__["beta"] * vars(self.cfg)["beta"],
        lambda self: setattr(self, "cfg", types.SimpleNamespace(beta=1.0)),
        lambda part, value: setattr(part.cfg, "beta", value),
    ),
    "an attrgetter": (
        lambda self: operator.attrgetter("cfg.beta")(self) * operator.itemgetter(0)(self.cfg.more),
        lambda self: setattr(self, "cfg", types.SimpleNamespace(beta=1.0, more=[1.0])),
        lambda part, value: setattr(part.cfg, "beta", value),
    ),
    "a bound method": (
        lambda self: self.tools.get("beta"),
        lambda self: setattr(self, "tools", types.SimpleNamespace(table={"beta": 1.0}, get=None)),
        lambda part, value: setattr(part.tools, "get", {"beta": value}.get),
    ),
    "max and sorted": (
        lambda self: max(self.cfg["xs"]) + sorted(self.cfg["xs"])[0] + sum(self.cfg["xs"]),
        lambda self: setattr(self, "cfg", {"xs": [1.0, 2.0]}),
        lambda part, value: part.cfg["xs"].__setitem__(1, value),
    ),
    "a comprehension": (
        lambda self: sum(x * 2 for x in self.cfg["xs"] if x > 0.2),
        lambda self: setattr(self, "cfg", {"xs": [1.0, 2.0]}),
        lambda part, value: part.cfg["xs"].__setitem__(1, value),
    ),
    "a string": (
        lambda self: float(self.cfg["text"].split("=")[1]),
        lambda self: setattr(self, "cfg", {"text": "beta=1.0"}),
        lambda part, value: part.cfg.update(text=f"beta={value}"),
    ),
    "exact numbers": (
        lambda self: float(self.cfg["a"]) * float(self.cfg["b"]),
        lambda self: setattr(self, "cfg", {"a": decimal.Decimal(1), "b": fractions.Fraction(1, 2)}),
        lambda part, value: part.cfg.update(a=decimal.Decimal(str(value))),
    ),
    "one and true": (
        lambda self: 3.0 if self.cfg["flag"] is True else 2.0,
        lambda self: setattr(self, "cfg", {"flag": 1}),
        lambda part, value: part.cfg.update(flag={1.0: 1, 0.5: True, 0.1: 1.0}[value]),
    ),
    "one and one point zero": (
        lambda self: 2.0 if isinstance(self.cfg["flag"], int) else 3.0,
        lambda self: setattr(self, "cfg", {"flag": 1}),
        lambda part, value: part.cfg.update(flag={1.0: 1, 0.5: 1.0, 0.1: 1}[value]),
    ),
    "zero and minus zero": (
        lambda self: 1.0 + (1 if str(self.cfg["zero"]).startswith("-") else 0),
        lambda self: setattr(self, "cfg", {"zero": 0.0}),
        lambda part, value: part.cfg.update(zero=-0.0 if value == 0.5 else 0.0),
    ),
    "not a number": (
        lambda self: 1.0 if self.cfg["limit"] != self.cfg["limit"] else 2.0,
        lambda self: setattr(self, "cfg", {"limit": float("nan")}),
        lambda part, value: part.cfg.update(limit=float("nan") if value == 1.0 else value),
    ),
    "an object equal to all others": (
        lambda self: self.cfg["it"].beta,
        lambda self: setattr(self, "cfg", {"it": Equal(1.0)}),
        lambda part, value: part.cfg.update(it=Equal(value)),
    ),
    "a weak reference": (
        lambda self: self.cfg["ref"]().beta,
        lambda self: setattr(self, "cfg", {"of": Equal(1.0), "ref": None}),
        lambda part, value: part.cfg.update(of=(made := Equal(value)), ref=weakref.ref(made)),
    ),
    "a missing key": (
        lambda self: _caught(self.cfg),
        lambda self: setattr(self, "cfg", {}),
        lambda part, value: part.cfg.pop("beta", None) if value == 1.0 else part.cfg.update(beta=value),
    ),
    "an order of keys": (
        lambda self: self.cfg[next(iter(self.cfg))],
        lambda self: setattr(self, "cfg", {"one": 1.0, "other": 2.0}),
        lambda part, value: (
            part.cfg.update(one=part.cfg.pop("one")) or part.cfg.update(other=part.cfg.pop("other"))
            if value == 0.5
            else part.cfg.update(one=part.cfg.pop("one"))
        ),
    ),
    "a nested function": (
        lambda self: (lambda cfg: (lambda: cfg["beta"])())(self.cfg),
        lambda self: setattr(self, "cfg", {"beta": 1.0}),
        lambda part, value: part.cfg.update(beta=value),
    ),
}


def _caught(cfg: dict[str, float]) -> float:
    try:
        return cfg["beta"]
    except KeyError:
        return 3.0


def _put(name: str) -> None:
    def run(t: Any) -> None:
        read(t, *READS[name])

    run.__name__ = "reading_" + name.replace(" ", "_")
    habit(forms=("module", "cell"))(run)


for _name in READS:
    _put(_name)
