"""Bodies of cells that read Python's state, or write to it, for both engines; a change of that state for each reading.

A body is called with the cell, the framework's functions and a vector. What only one framework's programs do is in the
tests of its engine, which add to these tables.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

from gluonjit.hybrid.capture.guards.variants import Noted, Variant

LOG = logging.getLogger("state")
SCALE = 1.0
SEEN: list[Any] = []

Body = Callable[[Any, Any, Any], Any]
Change = Callable[[Any, int], None]


class Inner:
    """A part of a model's options."""

    depth = 1

    def __init__(self) -> None:
        self.gain = 1.0


class Config:
    """Options of a model, as programs have them."""

    bias = 0.5

    def __init__(self) -> None:
        self.beta = 1.0
        self.inner = Inner()

    @property
    def double(self) -> float:
        return 2 * self.beta


class Stateful:
    """The state of a cell, beside its weights."""

    factor = 1.0

    def begin(self, body: Body, ones: Callable[[int], Any]) -> None:
        """Set what bodies read and write; `ones` makes a vector."""
        self.cfg = Config()
        self.weights = [1.0, 2.0]
        self.opt: dict[str, Any] = {"beta": 1.0, "layers": {"gain": 1.0}}
        self.count = 0
        self.history: list[Any] = []
        self.cache: dict[Any, Any] = {}
        self.body = body
        self.ones = ones


def set_global(cell: Any, turn: int) -> None:
    global SCALE
    SCALE = 1.0 / turn


def closure() -> tuple[Body, Change]:
    factor = 1.0

    def body(self: Any, F: Any, x: Any) -> Any:
        return x * factor

    def change(cell: Any, turn: int) -> None:
        nonlocal factor
        factor = 1.0 / turn

    return body, change


body_of_closure, change_of_closure = closure()


def helper(x: Any, scale: float = 1.0, *, shift: float = 0.0) -> Any:
    return x * scale + shift


def of_default(cell: Any, turn: int) -> None:
    helper.__defaults__ = (1.0 / turn,)


def nested(self: Any, F: Any, x: Any) -> Any:
    def inner(y: Any) -> Any:
        return F.sigmoid(y) * self.cfg.inner.gain

    return inner(x)


def setting(path: str, value: Callable[[int], Any] = lambda turn: 1.0 / turn, **names: Any) -> Change:
    """A change of an attribute, or with brackets of an item; `names` stand in the path beside `cell`."""
    known = {"Config": Config, "Inner": Inner, "Stateful": Stateful, **names}

    def change(cell: Any, turn: int) -> None:
        exec(f"{path} = value", {**known, "cell": cell, "value": value(turn)})

    return change


READING: dict[str, tuple[Body, Change]] = {
    "an object's attribute": (lambda self, F, x: x * self.cfg.beta, setting("cell.cfg.beta")),
    "an item of a list": (lambda self, F, x: x * self.weights[0], setting("cell.weights[0]")),
    "a loop over a list": (lambda self, F, x: sum([x * w for w in self.weights]), setting("cell.weights[1]")),
    "an option in a dict": (lambda self, F, x: x * self.opt["beta"], setting("cell.opt['beta']")),
    "dict.get": (lambda self, F, x: x * self.opt.get("new", 3.0), setting("cell.opt['new']")),
    "its own attribute": (lambda self, F, x: x * self.count, setting("cell.count")),
    "a global": (lambda self, F, x: x * SCALE, set_global),
    "a closure's variable": (body_of_closure, change_of_closure),
    "a class attribute": (lambda self, F, x: x * self.factor, setting("Stateful.factor")),
    "a class attribute of an object": (lambda self, F, x: x * self.cfg.inner.depth, setting("Inner.depth")),
    "a default": (lambda self, F, x: helper(x), of_default),
    "a property": (lambda self, F, x: x * self.cfg.double, setting("cell.cfg.beta")),
    "nested helpers": (nested, setting("cell.cfg.inner.gain")),
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
        self.cache["key"] = self.ones(3) * 2
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


WRITING: list[Body] = [counts, appends, caches, prints, logs, adds_to_a_global, calls_what_is_remembered]


def restore() -> None:
    """Undo what programs have changed beside their nets."""
    global SCALE
    SCALE, Stateful.factor, Inner.depth = 1.0, 1.0, 1
    helper.__defaults__ = (1.0,)
    change_of_closure(None, 1)
    del SEEN[:]
    remembered.cache_clear()


def blind(self: Noted, key: Any) -> Variant:
    """A variant whose guards see nothing."""
    return Variant(key, None, (), (), self.traced)
