"""Ways to read state that is nobody's attribute: of the standard library, of libraries, of classes and of functions."""

from __future__ import annotations

import abc
import argparse
import array
import collections
import contextlib
import contextvars
import decimal
import functools
import itertools
import locale
import logging
import operator
import os
import pathlib
import random
import sys
import threading
import time
import types
import warnings
import weakref
from typing import Any, Callable

import numpy as np

from . import habit, helpers
from .on_state_kinds import read, vary

VARIABLE: contextvars.ContextVar[float] = contextvars.ContextVar("VARIABLE", default=1.0)
DEPTH = threading.local()
LOG = logging.getLogger("habits")
MODULE = types.ModuleType("habits_module")


def of_module(name: str) -> float:
    if name not in MODULE.table:
        raise AttributeError(name)
    return MODULE.table[name]  # type: ignore[no-any-return]


MODULE.__dict__.update(table={"beta": 1.0}, __getattr__=of_module)
sys.modules["habits_module"] = MODULE


class Plain:
    def __init__(self, beta: float = 1.0) -> None:
        self.beta = beta

    def value(self) -> float:
        return 1.0

    def __len__(self) -> int:
        return 3


class Other(Plain):
    def value(self) -> float:
        return 2.0


class Meta(type):
    table = {"beta": 1.0}

    @property
    def beta(cls) -> float:
        return cls.table["beta"]


class OfMeta(metaclass=Meta):
    pass


class Local(threading.local):
    beta = 1.0


class Buffered(collections.UserList):  # type: ignore[type-arg]
    pass


class Tuned(float):
    beta = 1.0


class Pair(tuple):  # type: ignore[type-arg]
    beta = 1.0


def scale() -> float:
    return 1.0


def by_code(value: float) -> Callable[[], float]:
    """Functions that differ in their code alone."""
    space: dict[str, Any] = {}
    exec(f"def scale():\n    return {value!r}", space)
    return space["scale"]  # type: ignore[no-any-return]


def numbered(values: list[float]) -> Any:
    beta = values[0]
    for each in values:
        beta = each
        yield beta


def moving(part: Any, value: float) -> None:
    next(part.it)


def as_key(name: str) -> Callable[[Any, float], None]:
    return lambda part, value: setattr(part.it, name, value)


def new_type(part: Any, value: float) -> None:
    part.it.__class__ = Other if value == 0.5 else Plain


def in_thread(part: Any, value: float) -> None:
    DEPTH.beta = value


def level(part: Any, value: float) -> None:
    LOG.setLevel(int(10 * value))


def geterr(part: Any, value: float) -> None:
    np.seterr(over="raise" if value == 0.5 else "warn")


Way = tuple[Callable[[Any], Any], Any, Callable[[Any, Any], Any]]


def held(make: Callable[[], Any]) -> Callable[[Any], None]:
    return lambda self: setattr(self, "it", make())


WAYS: dict[str, Way] = {
    "a thread's own state": (lambda self: DEPTH.beta, lambda self: setattr(DEPTH, "beta", 1.0), in_thread),
    "a thread's own class": (lambda self: self.it.beta, held(Local), as_key("beta")),
    "a getattr of a thread's own": (lambda self: getattr(DEPTH, "beta", 1.0), held(Plain), in_thread),
    "a weak proxy": (
        lambda self: self.it[1].beta,
        held(lambda: (lambda made: (made, weakref.proxy(made)))(Plain())),
        lambda part, value: setattr(part.it[0], "beta", value),
    ),
    "a weak dictionary": (
        lambda self: self.it["a"].beta,
        held(lambda: weakref.WeakValueDictionary(a=MODULE)),
        lambda part, value: setattr(MODULE, "beta", value),
    ),
    "keywords of a partial": (
        lambda self: self.it(),
        held(lambda: functools.partial(lambda by: by, by=1.0)),
        lambda part, value: part.it.keywords.update(by=value),
    ),
    "keywords read of a partial": (
        lambda self: self.it.keywords["by"],
        held(lambda: functools.partial(dict, by=1.0)),
        lambda part, value: part.it.keywords.update(by=value),
    ),
    "state of a partial": (
        lambda self: self.it(),
        held(lambda: functools.partial(lambda by: by, 1.0)),
        lambda part, value: part.it.__setstate__((lambda by: by, (value,), {}, {})),
    ),
    "a reassigned class": (lambda self: self.it.value(), held(Plain), new_type),
    "a class that is asked for": (lambda self: 2.0 if type(self.it) is Other else 1.0, held(Plain), new_type),
    "a class that is tested": (lambda self: 2.0 if isinstance(self.it, Other) else 1.0, held(Plain), new_type),
    "a class by its attribute": (lambda self: 1.0 + len(self.it.__class__.__name__), held(Plain), new_type),
    "a replaced __dict__": (
        lambda self: self.it.beta,
        held(Plain),
        lambda part, value: setattr(part.it, "__dict__", {"beta": value}),
    ),
    "a __dict__ read and replaced": (
        lambda self: self.it.__dict__["beta"],
        held(Plain),
        lambda part, value: setattr(part.it, "__dict__", {"beta": value}),
    ),
    "a module's __getattr__": (
        lambda self: MODULE.beta_of_table + 1.0,
        lambda self: MODULE.table.update(beta_of_table=1.0),
        lambda part, value: MODULE.table.update(beta_of_table=value),
    ),
    "an entry of sys.modules": (
        lambda self: sys.modules["habits_module"].table["beta"],
        held(Plain),
        lambda part, value: sys.modules.update(habits_module=types.SimpleNamespace(table={"beta": value})),
    ),
    "errors of numpy": (lambda self: 2.0 if np.geterr()["over"] == "raise" else 1.0, held(Plain), geterr),
    "how numpy prints": (
        lambda self: 1.0 + np.get_printoptions()["precision"],
        held(Plain),
        lambda part, value: np.set_printoptions(precision=int(value * 10)),
    ),
    "the frame of a generator": (
        lambda self: self.it.gi_frame.f_locals["beta"],
        lambda self: setattr(self, "it", numbered([1.0, 0.5, 0.25] * 9)) or next(self.it),
        moving,
    ),
    "the line of a generator": (
        lambda self: float(self.it.gi_frame.f_lasti),
        lambda self: setattr(self, "it", numbered([1.0, 0.5, 0.25] * 9)),
        moving,
    ),
    "a generator that goes on": (
        lambda self: next(self.it),
        lambda self: setattr(self, "it", numbered([1.0, 0.5, 0.25] * 99)),
        lambda part, value: None,
    ),
    "a count": (lambda self: 1.0 + next(self.it), held(itertools.count), lambda part, value: None),
    "a cycle": (lambda self: next(self.it), held(lambda: itertools.cycle([1.0, 0.5])), lambda part, value: None),
    "a count as it stands": (
        lambda self: float(self.it.__reduce__()[1][0]),
        held(itertools.count),
        lambda part, value: next(part.it),
    ),
    "a function's code": (
        lambda self: scale(),
        held(Plain),
        lambda part, value: setattr(scale, "__code__", by_code(value).__code__),
    ),
    "a method's code": (
        lambda self: self.it.value(),
        held(lambda: type("Mine", (Plain,), {"value": (lambda self: 1.0)})()),
        lambda part, value: (
            setattr(type(part.it).value, "__code__", (lambda self, v=value: v).__code__)
            or setattr(type(part.it).value, "__defaults__", (value,))
        ),
    ),
    "a constant of code": (
        lambda self: float(scale.__code__.co_consts[-1]),
        held(Plain),
        lambda part, value: setattr(scale, "__code__", by_code(value).__code__),
    ),
    "a default that is read": (
        lambda self: self.it.__defaults__[0],
        held(lambda: lambda by=1.0: by),
        lambda part, value: setattr(part.it, "__defaults__", (value,)),
    ),
    "a keyword's default": (
        lambda self: self.it(),
        held(lambda: lambda *, by=1.0: by),
        lambda part, value: part.it.__kwdefaults__.update(by=value),
    ),
    "an attribute of a function": (
        lambda self: self.it.beta,
        held(lambda: types.FunctionType(scale.__code__, {"beta": 1})),
        as_key("beta"),
    ),
    "a cell that is read": (
        lambda self: self.it.__closure__[0].cell_contents,
        held(lambda: (lambda beta: lambda: beta)(1.0)),
        lambda part, value: setattr(part.it.__closure__[0], "cell_contents", value),
    ),
    "the object of a bound method": (
        lambda self: self.it.__self__.beta,
        held(lambda: Plain().value),
        lambda part, value: setattr(part.it.__self__, "beta", value),
    ),
    "a context variable's value": (lambda self: VARIABLE.get(), held(Plain), lambda part, value: VARIABLE.set(value)),
    "a copy of the context": (
        lambda self: contextvars.copy_context().get(VARIABLE, 1.0),
        held(Plain),
        lambda part, value: VARIABLE.set(value),
    ),
    "an environment variable by its key": (
        lambda self: float(os.environ["HABITS_WAY"]) + float(os.getenv("HABITS_WAY", "1")),
        lambda self: os.environ.update(HABITS_WAY="1.0"),
        lambda part, value: os.environ.update(HABITS_WAY=str(value)),
    ),
    "whether a variable is set": (
        lambda self: 2.0 if "HABITS_SET" in os.environ else 1.0,
        held(Plain),
        lambda part, value: os.environ.update(HABITS_SET="") if value == 0.5 else os.environ.pop("HABITS_SET", 0),
    ),
    "the path of modules": (
        lambda self: 1.0 / len(sys.path),
        held(Plain),
        lambda part, value: sys.path.__setitem__(slice(None), PATH + ["/nowhere"] * int(10 * value)),
    ),
    "the recursion limit": (
        lambda self: sys.getrecursionlimit() / 1000,
        held(Plain),
        lambda part, value: sys.setrecursionlimit(3000 + int(100 * value)),
    ),
    "a property of a metaclass": (
        lambda self: OfMeta.beta,
        held(Plain),
        lambda part, value: Meta.table.update(beta=value),
    ),
    "an attribute of a metaclass": (
        lambda self: OfMeta.table["beta"],
        held(Plain),
        lambda part, value: setattr(Meta, "table", {"beta": value}),
    ),
    "names of a class": (
        lambda self: 1.0 if "gamma" in Plain.__dict__ else 2.0,
        held(Plain),
        lambda part, value: (
            setattr(Plain, "gamma", 1) if value == 0.5 else Plain.__dict__.get("gamma") and delattr(Plain, "gamma")
        ),
    ),
    "bases of a class": (
        lambda self: self.it.value(),
        held(lambda: type("Mine", (type("Base", (Plain,), {}),), {})()),
        lambda part, value: setattr(
            type(part.it), "__bases__", (Other if value == 0.5 else type("Base", (Plain,), {}),)
        ),
    ),
    "a registered class": (
        lambda self: 2.0 if isinstance(self.it, self.shape) else 1.0,
        lambda self: setattr(self, "it", Plain()) or setattr(self, "shape", abc.ABCMeta("Shape", (), {})),
        lambda part, value: part.shape.register(Plain) if value == 0.5 else None,
    ),
    "an attribute of a number's class": (
        lambda self: self.it.beta,
        held(lambda: Tuned(1.0)),
        lambda part, value: setattr(Tuned, "beta", value),
    ),
    "an attribute of a number": (lambda self: self.it.beta, held(lambda: Tuned(1.0)), as_key("beta")),
    "an attribute of a tuple": (lambda self: self.it.beta, held(lambda: Pair((1, 2))), as_key("beta")),
    "a level of a logger": (lambda self: 1.0 + LOG.level + LOG.isEnabledFor(7), held(Plain), level),
    "a level in effect": (lambda self: 1.0 + LOG.getEffectiveLevel(), held(Plain), level),
    "a disabled logger": (
        lambda self: 2.0 if LOG.manager.disable else 1.0,
        held(Plain),
        lambda part, value: logging.disable(int(10 * value) if value < 1 else 0),
    ),
    "filters of warnings": (
        lambda self: 1.0 / (1 + len(warnings.filters)),
        held(Plain),
        lambda part, value: warnings.simplefilter("ignore", ResourceWarning, append=value == 0.5),
    ),
    "a decimal context": (
        lambda self: float(self.it / 3),
        held(lambda: decimal.Decimal(1)),
        lambda part, value: setattr(decimal.getcontext(), "prec", int(10 * value)),
    ),
    "a sign of a decimal": (
        lambda self: float(-self.it),
        held(lambda: decimal.Decimal("1.23456789")),
        lambda part, value: setattr(decimal.getcontext(), "prec", int(10 * value)),
    ),
    "a root of a decimal": (
        lambda self: float(self.it.sqrt()),
        held(lambda: decimal.Decimal(2)),
        lambda part, value: setattr(decimal.getcontext(), "prec", int(10 * value)),
    ),
    "a precision": (
        lambda self: float(decimal.getcontext().prec),
        held(Plain),
        lambda part, value: setattr(decimal.getcontext(), "prec", int(10 * value)),
    ),
    "a locale": (lambda self: 1.0 + len(locale.setlocale(locale.LC_ALL)), held(Plain), lambda part, value: None),
    "a clock": (lambda self: 1.0 if time.time() > 0 else 2.0, held(Plain), lambda part, value: None),
    "a draw of Python": (
        lambda self: random.random(),
        lambda self: random.seed(3),
        lambda part, value: random.seed(int(10 * value)),
    ),
    "a generator of numbers": (
        lambda self: self.it.random(),
        held(lambda: random.Random(3)),
        lambda part, value: part.it.seed(int(10 * value)),
    ),
    "a generator of numpy": (
        lambda self: float(self.it.uniform()),
        held(lambda: np.random.RandomState(3)),
        lambda part, value: part.it.seed(int(10 * value)),
    ),
    "whether a file is there": (
        lambda self: 2.0 if self.it.exists() else 1.0,
        held(lambda: pathlib.Path("/nowhere")),
        lambda part, value: setattr(part, "it", pathlib.Path("/" if value == 0.5 else "/nowhere")),
    ),
    "an array of the standard library": (
        lambda self: self.it[0] + max(self.it) + sum(self.it),
        held(lambda: array.array("d", [1.0])),
        lambda part, value: part.it.__setitem__(0, value),
    ),
    "the largest of an array": (
        lambda self: max(self.it),
        held(lambda: array.array("d", [1.0])),
        lambda part, value: part.it.__setitem__(0, value),
    ),
    "bytes that change": (
        lambda self: 1.0 + sum(self.it),
        held(lambda: bytearray(b"a")),
        lambda part, value: part.it.__setitem__(0, int(10 * value)),
    ),
    "a view of bytes": (
        lambda self: 1.0 + sum(memoryview(self.it)),
        held(lambda: bytearray(b"a")),
        lambda part, value: part.it.__setitem__(0, int(10 * value)),
    ),
    "a list of the library's": (
        lambda self: sum(self.it) + len(list(self.it)),
        held(lambda: collections.UserList([1.0])),
        lambda part, value: part.it.__setitem__(0, value),
    ),
    "a subclass of the library's list": (
        lambda self: sum(self.it),
        held(lambda: Buffered([1.0])),
        lambda part, value: part.it.__setitem__(0, value),
    ),
    "a proxy of a mapping": (
        lambda self: self.it["proxy"]["beta"] + dict(self.it["proxy"])["beta"],
        held(lambda: (lambda table: {"table": table, "proxy": types.MappingProxyType(table)})({"beta": 1.0})),
        lambda part, value: part.it["table"].update(beta=value),
    ),
    "keys of a dictionary that are kept": (
        lambda self: 1.0 + len(self.it["keys"]),
        held(lambda: (lambda table: {"table": table, "keys": table.keys()})({"beta": 1.0})),
        lambda part, value: part.it["table"].__setitem__(value, 1),
    ),
    "options of a command": (lambda self: self.it.beta, held(lambda: argparse.Namespace(beta=1.0)), as_key("beta")),
    "text of options": (
        lambda self: 1.0 + len(str(self.it)),
        held(lambda: argparse.Namespace(beta=1.0)),
        lambda part, value: setattr(part.it, "beta", "x" * int(10 * value)),
    ),
    "a default factory": (
        lambda self: self.it.default_factory(),
        held(lambda: collections.defaultdict(lambda: 1.0)),
        lambda part, value: setattr(part.it, "default_factory", lambda: value),
    ),
    "the most of a deque": (
        lambda self: float(self.it["recent"].maxlen),
        held(lambda: {"recent": collections.deque([1.0], maxlen=1)}),
        lambda part, value: part.it.update(recent=collections.deque([1.0], maxlen=int(10 * value))),
    ),
    "an event": (
        lambda self: 2.0 if self.it.is_set() else 1.0,
        held(threading.Event),
        lambda part, value: part.it.set() if value == 0.5 else part.it.clear(),
    ),
    "a lock": (
        lambda self: 2.0 if self.it.locked() else 1.0,
        held(threading.Lock),
        lambda part, value: part.it.acquire() if value == 0.5 else part.it.locked() and part.it.release(),
    ),
    "the name of a thread": (
        lambda self: 1.0 + len(threading.current_thread().name),
        held(Plain),
        lambda part, value: setattr(threading.current_thread(), "name", "M" * int(10 * value)),
    ),
    "an exception that is kept": (
        lambda self: self.it.args[0],
        held(lambda: ValueError(1.0)),
        lambda part, value: setattr(part.it, "args", (value,)),
    ),
    "an object's own method": (
        lambda self: self.it.value(),
        held(Plain),
        lambda part, value: setattr(part.it, "value", lambda: value),
    ),
    "a length of a class": (
        lambda self: float(len(self.it)),
        held(lambda: type("Mine", (Plain,), {})()),
        lambda part, value: setattr(type(part.it), "__len__", lambda self: int(10 * value)),
    ),
    "a stack of contexts": (
        lambda self: 1.0 + len(self.it._exit_callbacks),
        held(contextlib.ExitStack),
        lambda part, value: part.it.callback(Plain),
    ),
    "a function of a library that is another": (
        lambda self: float(np.exp(0.0)) + float(operator.abs(-1.0)),
        held(Plain),
        lambda part, value: (
            setattr(np, "exp", np.exp2 if value != 0.5 else (lambda x: 5.0)),
            setattr(operator, "abs", abs if value != 0.5 else (lambda x: 6.0)),
        ),
    ),
    "a constant of a library that is another": (
        lambda self: helpers.FACTOR + np.pi,
        held(Plain),
        lambda part, value: setattr(np, "pi", value),
    ),
    "a builtin that is another": (
        lambda self: float(abs(-3.0)),
        held(Plain),
        lambda part, value: __builtins__.__setitem__("abs", ABS if value != 0.5 else (lambda number: 7.0)),  # type: ignore[index]
    ),
}
ABS, EXP, PI, PATH = abs, np.exp, np.pi, [*sys.path]


def _restore() -> None:
    __builtins__["abs"], np.exp, np.pi, operator.abs, sys.path[:] = ABS, EXP, PI, ABS, PATH  # type: ignore[index,assignment]
    scale.__code__ = by_code(1.0).__code__
    np.seterr(over="warn")
    np.set_printoptions(precision=8)
    decimal.getcontext().prec = 28
    logging.disable(0)
    LOG.setLevel(0)
    sys.modules["habits_module"] = MODULE
    Meta.table = {"beta": 1.0}
    threading.current_thread().name = "MainThread"
    sys.setrecursionlimit(1000)
    VARIABLE.set(1.0)


def _put(name: str) -> None:
    def run(t: Any) -> None:
        try:
            with warnings.catch_warnings():
                read(t, *WAYS[name])
        finally:
            _restore()

    run.__name__ = "a_way_by_" + name.replace(" ", "_").replace("'", "")
    habit(forms=("module", "cell"))(run)


for _name in WAYS:
    _put(_name)


def _layers(t: Any) -> dict[str, Any]:
    """Functions of the framework that programs replace, by where they are."""
    if t.engine == "torch":
        return {"tanh": t.F, "relu": t.F.nn.functional}
    return {"tanh": t.F, "relu": t.F}


@habit(forms=("module", "cell", "whole"))
def functions_of_the_framework_are_replaced(t: Any) -> None:
    class Part(t.Part):
        def body(self, F: Any, x: Any) -> Any:
            return places["relu"].relu(F.tanh(self.layer(x)))

    places = _layers(t)
    kept = {name: getattr(place, name) for name, place in places.items()}

    def change(part: Any, value: float) -> None:
        places["tanh"].tanh = kept["tanh"] if value != 0.5 else (lambda h: h * 3)
        places["relu"].relu = kept["relu"] if value != 0.1 else (lambda h: h * 2)

    try:
        vary(t, Part, change)
    finally:
        for name, place in places.items():
            setattr(place, name, kept[name])


@habit(forms=("module", "cell", "whole"))
def a_layer_of_the_framework_is_another(t: Any) -> None:
    """Its class's forward pass is replaced, as tools that watch models do it."""

    class Part(t.Part):
        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x))

    kind = type(t.new_dense())
    name = "forward" if t.engine == "torch" else "hybrid_forward"
    kept = getattr(kind, name)

    def twice(self: Any, *args: Any, **kwargs: Any) -> Any:
        return kept(self, *args, **kwargs) * 2

    try:
        vary(t, Part, lambda part, value: setattr(kind, name, twice if value == 0.5 else kept))
    finally:
        setattr(kind, name, kept)


@habit(forms=("module", "cell", "whole"))
def a_class_of_a_module_is_reassigned(t: Any) -> None:
    class Part(t.Part):
        def factor(self) -> float:
            return 1.0

        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x)) * self.factor()

    class Twice(Part):
        def factor(self) -> float:
            return 2.0

    vary(t, Part, lambda part, value: setattr(part, "__class__", Twice if value == 0.5 else Part))


@habit(forms=("module", "cell", "whole"))
def a_number_of_a_layer_is_read(t: Any) -> None:
    class Part(t.Part):
        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x)) / (self.layer.weight.shape[0] + self.layer.seen)

    vary(t, Part, lambda part, value: setattr(part.layer, "seen", value))
