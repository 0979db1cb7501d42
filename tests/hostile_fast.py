"""Hostile calls of gluonjit._fast, by itself and with the slots of an open batch damaged: see hostile_support."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
from hostile_support import Case, run

from gluonjit import _fast as fast
from gluonjit.graph import Record, intern_spec
from gluonjit.hybrid import LOCAL

Value = fast.Value
SPEC = intern_spec((3, 2), "float32", "cpu", "rows")
ANY = Exception
DEEP = 200_000


class Hostile:
    """An object that raises or changes things wherever it is asked."""

    def __init__(self, act: Callable[[], Any] | None = None) -> None:
        self.act = act or self.fail

    def fail(self) -> Any:
        raise KeyError("hostile")

    def __eq__(self, other: object) -> bool:
        return bool(self.act())

    def __hash__(self) -> int:
        return int(self.act() or 0)

    def __index__(self) -> int:
        return int(self.act() or 0)

    def __float__(self) -> float:
        return float(self.act() or 0)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.act()


THINGS: tuple[Any, ...] = (
    None,
    5,
    -1,
    2**70,
    "text",
    b"",
    [],
    [1],
    {},
    (),
    (None,),
    object(),
    1.5,
    print,
    int,
    Hostile(),
)


def value(rows: Any = 0, depth: Any = 0, spec: Any = SPEC) -> Any:
    return Value(rows, depth, spec, None, False)


def delete(name: str) -> None:
    given = value()
    delattr(given, name)


def rows_of(rows: Any, spec: Any) -> list[int]:
    return value(rows, 0, spec).row_list()


def changing() -> Any:
    """A value whose spec takes itself away while it is asked."""
    given = value()

    def act() -> int:
        given.spec = given.rows = None
        return 2

    given.spec = Hostile(act)
    return given.row_list()


def chain(make: Callable[[Any], Any]) -> None:
    last: Any = None
    for _ in range(DEEP):
        last = make(last)


def in_a_chain(path: str, use: Callable[[Any], Any]) -> Any:
    """What is asked of very many hooks, each of the next."""
    hook: Any = print
    for _ in range(DEEP):
        hook = fast.Hook(path, hook)
    return use(hook)


def of_values() -> Iterator[Case]:
    for name in ("rows", "spec", "graph", "base", "result", "depth", "taped", "row_list", "none"):
        yield Case(f"del value.{name}", lambda name=name: delete(name), (AttributeError, TypeError))  # type: ignore[misc]
    for name in ("depth", "taped", "row_list", "none"):
        yield Case(f"value.{name} = 'x'", lambda name=name: setattr(value(), name, "x"), (AttributeError, TypeError))  # type: ignore[misc]
    for given in ((), (1,), (1, 2), (1, 2, 3, 4), (1, "2", 3, 4, 5), (1, 2**70, 3, 4, 5), (1, 2, 3, 4, 5, 6, 7)):
        yield Case(f"Value{given}", lambda given=given: Value(*given), (TypeError, OverflowError))  # type: ignore[misc]
    yield Case("Value by a name", lambda: Value(rows=1, depth=1, spec=1, graph=1, taped=1, other=1), TypeError)
    yield Case("Value, taped or not", lambda: Value(0, 0, SPEC, None, Hostile()), None)
    for rows in (None, "0", 1.5, [0], {}, object(), 2**64, -(2**70), 2**63 - 1, Hostile()):
        yield Case(f"rows {rows!r:.12}", lambda rows=rows: rows_of(rows, SPEC), (TypeError, OverflowError))  # type: ignore[misc]
    for count in (None, "3", 1.5, 2**70, 2**62, 2**31, Hostile()):
        spec = SimpleNamespace(rows=count)
        yield Case(f"{count!r:.12} rows", lambda spec=spec: rows_of(0, spec), ANY)  # type: ignore[misc]
    yield Case("no rows", lambda: rows_of(0, object()), AttributeError)
    yield Case("a spec that raises", lambda: rows_of(0, Hostile()), KeyError)
    yield Case("a spec that changes the value", changing, None)
    yield Case("fewer than no rows", lambda: rows_of(0, SimpleNamespace(rows=-5)), None)
    yield Case("a chain of values", lambda: chain(lambda base: Value(0, 0, SPEC, None, False, base)), None)
    yield Case("a class of values", lambda: type("Mine", (Value,), {}), TypeError)
    yield Case("a class of signatures", lambda: type("Mine", (fast.Signatures,), {}), TypeError)
    yield Case("Value by another class", lambda: Value.__new__(int), TypeError)
    yield Case("rows of no value", lambda: Value.rows.__get__(3), TypeError)


def of_hooks() -> Iterator[Case]:
    for given in ((), ("call",), ("call", 1, 2), (None, print), ("none", print), (b"call", print), ("call\0", print)):
        yield Case(f"Hook{given}", lambda given=given: fast.Hook(*given), (TypeError, ValueError))  # type: ignore[misc]
    for path in ("call", "item", "numpy_item", "tensor_item"):
        for k, thing in enumerate(THINGS):
            yield Case(
                f"a hook of {path} of thing {k}",
                lambda path=path, thing=thing: fast.Hook(path, thing)(thing, thing),  # type: ignore[misc]
                None if thing is print else ANY,
            )
        yield Case(f"{path} of no arguments", lambda path=path: fast.Hook(path, len)(), TypeError)  # type: ignore[misc]
        yield Case(f"{path} by name", lambda path=path: fast.Hook(path, len)(x=1), TypeError)  # type: ignore[misc]
        deep = lambda path=path: in_a_chain(path, lambda hook: hook(1))  # type: ignore[misc]  # noqa: E731
        yield Case(f"a chain of {path}", deep, RecursionError)
    for name in ("__doc__", "__name__", "nothing"):
        deep = lambda name=name: in_a_chain("item", lambda hook: getattr(hook, name))  # type: ignore[misc]  # noqa: E731
        yield Case(f"{name} of a chain", deep, RecursionError)
    yield Case("a hook of an attribute that raises", lambda: fast.Hook("item", Hostile()).nothing, KeyError)
    yield Case("an instance of Silent", lambda: fast.Silent(), TypeError)
    for k, thing in enumerate(THINGS):
        yield Case(f"quicken('call', thing {k})", lambda thing=thing: fast.quicken("call", thing), TypeError)  # type: ignore[misc]
        yield Case(f"quicken(thing {k}, f)", lambda thing=thing: fast.quicken(thing, told_of), (TypeError, ValueError))  # type: ignore[misc]
        quick = fast.quicken("attribute", lambda *args: args)
        yield Case(f"an attribute of thing {k}", lambda f=quick, thing=thing: f(thing, "x"), None)  # type: ignore[misc]
        quick = fast.quicken("call", lambda *args: args)
        yield Case(f"a call of thing {k}", lambda f=quick, thing=thing: f(thing, "x"), None)  # type: ignore[misc]
    for mine in ({"_parameters": 3}, {"_parameters": {}, "_buffers": []}, {"_parameters": {}, "_buffers": {}}):
        module = SimpleNamespace(**mine)
        quick = fast.quicken("attribute", lambda *args: args)
        yield Case(f"an attribute of {mine}", lambda f=quick, module=module: f(module, "x"), None)  # type: ignore[misc]


def told_of() -> None:
    """A function to quicken."""


def of_functions() -> Iterator[Case]:
    for k, thing in enumerate(THINGS):
        yield Case(f"tensor(thing {k})", lambda thing=thing: fast.tensor(thing), TypeError)  # type: ignore[misc]
        yield Case(f"tensor of spec {k}", lambda thing=thing: fast.tensor(value(spec=thing)), TypeError)  # type: ignore[misc]
        yield Case(f"entry(thing {k})", lambda thing=thing: fast.entry(thing), TypeError)  # type: ignore[misc]
        yield Case(f"look(thing {k})", lambda thing=thing: none(fast.look(thing)), None)  # type: ignore[misc]
        yield Case(f"configure(thing {k})", lambda thing=thing: fast.configure(thing), (TypeError, ValueError))  # type: ignore[misc]
        for place in range(4):
            given: list[Any] = [None, None, (), {}]
            given[place] = thing
            wanted = TypeError if place == 2 and thing.__class__ is not tuple else None
            wanted = TypeError if place == 3 and thing.__class__ is not dict else wanted
            yield Case(f"capture, {place} is thing {k}", lambda given=given: fast.capture(*given), wanted)  # type: ignore[misc]
        for place in range(5):
            given = [LOCAL.state.batch, {}, [], b"", []]
            given[place] = thing
            yield Case(f"replay, {place} is thing {k}", lambda given=given: fast.replay(*given), ANY)  # type: ignore[misc]
    for section in ("package", "mxnet", "torch", "none"):
        for named in ({}, {"State": int}, {"LazyTensor": 3}, {"Cell": Hostile}):
            made: Any = lambda section=section, named=named: fast.configure(section, **named)  # type: ignore[misc]  # noqa: E731
            yield Case(f"configure({section}, {list(named)})", made, (TypeError, AttributeError))
    for given in ((), (1,), (1, 2, 3), (None, None, (), {}, 5)):
        yield Case(f"capture{given}", lambda given=given: fast.capture(*given), TypeError)  # type: ignore[misc]
    yield Case("spare_bodies(1)", lambda: fast.spare_bodies(1), TypeError)
    for kind in (
        None,
        object(),
        Hostile(),
        kind_of(rows=-1),
        kind_of(rows=2**40),
        kind_of(rows="1"),
        kind_of(outputs=[]),
    ):
        yield Case(f"entry of {kind!r:.40}", lambda kind=kind: fast.entry(Record(kind, 0, 0.0)), ANY)  # type: ignore[misc]
    for output in (
        None,
        (1, 2),
        SimpleNamespace(offset=-1, spec=SPEC),
        SimpleNamespace(offset=2**60, spec=SPEC),
        Hostile(),
    ):
        record = Record(kind_of(outputs=(output,)), 0, 0.0)
        yield Case(f"entry of output {output!r:.40}", lambda record=record: fast.entry(record), ANY)  # type: ignore[misc]
    for share, mode in ((None, 0), ("x", 0), (0.0, None), (0.0, 2**70), (Hostile(), 0), (0.0, Hostile())):
        record = Record(kind_of(), mode, share)
        yield Case(f"entry of {share!r:.9}, {mode!r:.9}", lambda record=record: fast.entry(record), ANY)  # type: ignore[misc]


def none(found: Any) -> None:
    assert found is None


def kind_of(**changed: Any) -> Any:
    given = {"structure": None, "rows": 1, "pure": True, "outputs": (SimpleNamespace(offset=0, spec=SPEC),)}
    return SimpleNamespace(**{**given, **changed})


def of_numbers() -> Iterator[Case]:
    good = [(1, 2), (3, 4)]
    for function in (fast.references, fast.integers):
        name = function.__name__
        for k, (width, count) in enumerate(
            [(2, 3), (2, 5), (-2, 4), (3, 6), (2**62, 4), (2**63 - 1, 4), (-(2**63), 4), (2**64, 4), (1, 2)]
        ):
            into = np.zeros(count, np.int64)
            wanted = None if name == "integers" and k in (3, 8) else (ValueError, TypeError, OverflowError)
            yield Case(f"{name}, {width} wide", lambda f=function, w=width, into=into: f(good, w, into), wanted)  # type: ignore[misc]
        odd = np.zeros(33, np.uint8)[1:]
        fixed = np.zeros(4, np.int64)
        fixed.flags.writeable = False
        for k, into in enumerate((None, 3, b"1" * 32, odd, fixed, np.zeros(8, np.int64)[::2], [0] * 4, object())):
            yield Case(f"{name} into {k}", lambda f=function, into=into: f(good, 2, into), ANY)  # type: ignore[misc]
        for k, tuples in enumerate((None, (), 3, [(1,), (2, 3, 4)], [[1, 2], [3, 4]], [None, None], ["ab", "cd"])):
            wanted = None if name == "integers" and k > 2 else ANY
            call = lambda f=function, tuples=tuples: f(tuples, 2, np.zeros(4, np.int64))  # type: ignore[misc]  # noqa: E731
            yield Case(f"{name} of {tuples!r:.20}", call, wanted)
        yield Case(f"{name}()", lambda f=function: f(), TypeError)  # type: ignore[misc]
    yield Case("integers too large", lambda: fast.integers([(2**70, 1)], 2, np.zeros(2, np.int64)), OverflowError)


CASES = [*of_values(), *of_hooks(), *of_functions(), *of_numbers()]

if __name__ == "__main__":
    run(CASES)
