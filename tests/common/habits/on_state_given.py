"""Objects of the user's that a body gives to somebody else, who reads them: copies, texts, comparisons, keys."""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import math
import operator
import string
import types
from typing import Any, Callable

import numpy as np

from . import habit
from .on_state_kinds import read


@dataclasses.dataclass
class Config:
    beta: float = 1.0
    more: Any = None

    def twice(self) -> float:
        return 2 * self.beta


@dataclasses.dataclass(order=True)
class Level:
    value: float


class Text:
    def __init__(self) -> None:
        self.beta = 1.0

    def __str__(self) -> str:
        return f"{self.beta}"

    def __float__(self) -> float:
        return self.beta

    def __format__(self, how: str) -> str:
        return f"{self.beta:{how}}"

    def __int__(self) -> int:
        return int(self.beta * 10)

    __index__ = __int__

    def __mul__(self, other: float) -> float:
        return self.beta * other

    def __rmul__(self, other: float) -> Any:
        return other * self.beta

    def __contains__(self, item: float) -> bool:
        return item == self.beta

    def __bool__(self) -> bool:
        return self.beta > 0.7

    def __lt__(self, other: Any) -> bool:
        return self.beta < other.beta

    def __hash__(self) -> int:
        return int(self.beta * 100)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Text) and other.beta == self.beta


def config(self: Any) -> None:
    self.cfg = Config()


def text(self: Any) -> None:
    self.cfg = Text()


def beta(part: Any, value: float) -> None:
    part.cfg.beta = value


def other_text(value: float = 0.5) -> Text:
    made = Text()
    made.beta = value
    return made


Read = tuple[Callable[[Any], Any], Callable[[Any], Any], Callable[[Any, float], Any]]
GIVEN: dict[str, Read] = {
    "a copy": (lambda self: copy.copy(self.cfg).beta, config, beta),
    "a deep copy": (lambda self: copy.deepcopy(self.cfg).beta, config, beta),
    "a replaced copy": (lambda self: dataclasses.replace(self.cfg, more=1).beta, config, beta),
    "asdict": (lambda self: dataclasses.asdict(self.cfg)["beta"], config, beta),
    "astuple": (lambda self: dataclasses.astuple(self.cfg)[0], config, beta),
    "a text of a dataclass": (lambda self: len(str(self.cfg)), config, lambda part, v: beta(part, round(v, 3) + 0.25)),
    "an f-string of a dataclass": (lambda self: len(f"{self.cfg}"), config, beta),
    "a comparison of dataclasses": (lambda self: 2.0 if self.cfg == Config(0.5) else 1.0, config, beta),
    "an order of dataclasses": (
        lambda self: max(self.levels).value + (1 if self.levels[0] < Level(0.6) else 0),
        lambda self: setattr(self, "levels", [Level(1.0), Level(0.7)]),
        lambda part, value: setattr(part.levels[0], "value", value),
    ),
    "a method of a dataclass": (lambda self: self.cfg.twice(), config, beta),
    "methodcaller": (lambda self: operator.methodcaller("twice")(self.cfg), config, beta),
    "sorted by attrgetter": (
        lambda self: sorted(self.levels, key=operator.attrgetter("value"))[0].value,
        lambda self: setattr(self, "levels", [Level(1.0), Level(0.7)]),
        lambda part, value: setattr(part.levels[0], "value", value),
    ),
    "map over objects": (
        lambda self: sum(map(lambda level: level.value, self.levels)),
        lambda self: setattr(self, "levels", [Level(1.0), Level(0.7)]),
        lambda part, value: setattr(part.levels[0], "value", value),
    ),
    "reduce over objects": (
        lambda self: functools.reduce(lambda total, level: total * level.value, self.levels, 1.0),
        lambda self: setattr(self, "levels", [Level(1.0), Level(0.7)]),
        lambda part, value: setattr(part.levels[0], "value", value),
    ),
    "json": (
        lambda self: json.loads(json.dumps(self.cfg))["beta"],
        lambda self: setattr(self, "cfg", {"beta": 1.0}),
        lambda part, value: part.cfg.update(beta=value),
    ),
    "a float of an object": (lambda self: float(self.cfg), text, beta),
    "an integer of an object": (lambda self: int(self.cfg) + range(20)[self.cfg], text, beta),
    "a str of an object": (lambda self: float(str(self.cfg)), text, beta),
    "a format of an object": (lambda self: float(f"{self.cfg:.3f}") + float(f"{self.cfg:.1f}"), text, beta),
    "a percent sign": (lambda self: float("%s" % self.cfg), text, beta),  # noqa: UP031
    "a template": (lambda self: float(string.Template("$beta").substitute(beta=self.cfg.beta)), text, beta),
    "a product with an object": (lambda self: self.cfg * 2 + 3 * self.cfg, text, beta),
    "membership in an object": (lambda self: 2.0 if 0.5 in self.cfg else 1.0, text, beta),
    "truth of an object": (lambda self: 2.0 if self.cfg else (1.0 if not self.cfg else 0.0), text, beta),
    "truth of several": (lambda self: 2.0 if all([self.cfg, True]) else 1.0, text, beta),
    "an order of objects": (lambda self: max(self.cfg, other_text(0.3)).beta, text, beta),
    "an object as a key": (lambda self: {other_text(): 2.0}.get(self.cfg, 1.0), text, beta),
    "an object in a list": (lambda self: 2.0 if self.cfg in [other_text()] else 1.0, text, beta),
    "an index in a list": (
        lambda self: [1.0, 0.5, 0.1].index(self.cfg["beta"]) + 1,
        lambda self: setattr(self, "cfg", {"beta": 1.0}),
        lambda part, value: part.cfg.update(beta=value),
    ),
    "keywords from a dict": (
        lambda self: Config(**self.cfg).beta,
        lambda self: setattr(self, "cfg", {"beta": 1.0}),
        lambda part, value: part.cfg.update(beta=value),
    ),
    "a dict of two": (
        lambda self: {**self.cfg, "more": 1}["beta"] + dict(self.cfg, one=1)["beta"],
        lambda self: setattr(self, "cfg", {"beta": 1.0}),
        lambda part, value: part.cfg.update(beta=value),
    ),
    "math": (
        lambda self: math.exp(-self.cfg["beta"]) + math.fsum(self.cfg["xs"]),
        lambda self: setattr(self, "cfg", {"beta": 1.0, "xs": [1.0]}),
        lambda part, value: part.cfg.update(beta=value) or part.cfg["xs"].append(value),
    ),
    "numpy of a list": (
        lambda self: float(np.mean(self.cfg["xs"]) + np.array(self.cfg["xs"])[0]),
        lambda self: setattr(self, "cfg", {"xs": [1.0, 2.0]}),
        lambda part, value: part.cfg["xs"].__setitem__(0, value),
    ),
    "numpy of an array": (
        lambda self: float(self.table.mean() + np.max(self.table) + self.table[0] + self.table.tolist()[0]),
        lambda self: setattr(self, "table", np.array([1.0, 0.05])),
        lambda part, value: part.table.__setitem__(0, value),
    ),
    "a view of an array": (
        lambda self: float(self.cfg["row"][0]),
        lambda self: setattr(self, "cfg", (lambda table: {"table": table, "row": table[0]})(np.ones((2, 2)))),
        lambda part, value: part.cfg["table"].__setitem__((0, 0), value),
    ),
    "a namespace": (
        lambda self: vars(self.cfg)["beta"] + len(vars(self.cfg)),
        lambda self: setattr(self, "cfg", types.SimpleNamespace(beta=1.0)),
        beta,
    ),
    "a getattr with a default": (
        lambda self: getattr(self.cfg, "gamma", 1.0) + getattr(self, "gamma", 2.0),
        lambda self: setattr(self, "cfg", types.SimpleNamespace()),
        lambda part, value: setattr(part.cfg if value == 0.5 else part, "gamma", value),
    ),
    "a subclass of dict": (
        lambda self: self.cfg.beta + self.cfg["beta"],
        lambda self: setattr(self, "cfg", AttrDict(beta=1.0)),
        lambda part, value: part.cfg.update(beta=value),
    ),
    "a subclass of list": (
        lambda self: self.cfg.first() + self.cfg[-1],
        lambda self: setattr(self, "cfg", Values([1.0, 2.0])),
        lambda part, value: part.cfg.__setitem__(0, value),
    ),
}


class AttrDict(dict):  # type: ignore[type-arg]
    """Keys as attributes, as configuration libraries have it."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Values(list):  # type: ignore[type-arg]
    def first(self) -> float:
        return self[0]


def _put(name: str) -> None:
    def run(t: Any) -> None:
        read(t, *GIVEN[name])

    run.__name__ = "giving_" + name.replace(" ", "_").replace("-", "_")
    habit(forms=("module", "cell"))(run)


for _name in GIVEN:
    _put(_name)
