"""Following the user's code: what it reads is a guard, and what outlives the call is never written to."""

from __future__ import annotations

import functools
import gc
import math
import signal
import sys
import traceback
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from gluonjit.hybrid import LOCAL
from gluonjit.hybrid.capture.guards import facts
from gluonjit.hybrid.capture.guards.facts import Fact, Fingerprint, Guards, alike, read_at
from gluonjit.hybrid.capture.guards.follower import Follower
from gluonjit.hybrid.capture.guards.interrupts import is_interrupted
from gluonjit.hybrid.capture.guards.objects import FrameworkObjects, Refused
from gluonjit.hybrid.capture.guards.variants import Noted, holding, too_many, variant_key

GLOBAL = 2.0
KEPT: list[Any] = []
VALUES = [1, 2.0, True, "text", None, (1, "a"), 0.0, -0.0, math.nan, b"b", 1j, frozenset((1,)), 10**30]


class Known(FrameworkObjects):
    """A framework without arrays."""

    def array(self, item: Any) -> bool:
        return False

    def own(self, item: Any) -> bool:
        return False


def follow(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, list[Fact]]:
    follower = Follower(Known(), (args, kwargs))
    return follower.run(function, args, kwargs), list(follower.facts.values())


def refusal(function: Callable[..., Any], *args: Any) -> str:
    with pytest.raises(Refused) as caught:
        follow(function, *args)
    return str(caught.value)


class Base:
    scale = 3

    def __init__(self) -> None:
        self.__hidden = 4
        self.items = [1, 2, 3]
        self.options = {"a": 1}
        self.count = 0

    def hidden(self, x: Any) -> Any:
        return x * self.__hidden

    def named(self, x: Any) -> Any:
        return x + self.scale


class Derived(Base):
    def named(self, x: Any) -> Any:
        return super().named(x) * 2

    @property
    def twice(self) -> Any:
        return self.items[0] * 2

    @staticmethod
    def plain(x: Any) -> Any:
        return x - 1

    @classmethod
    def of_class(cls, x: Any) -> Any:
        return x * cls.scale


def names_of(found: list[Fact]) -> set[str]:
    return {fact.name for fact in found}


def everything(self: Any, x: Any, y: int = 2, *rest: Any, k: int = 3, **more: Any) -> Any:
    made = [self.hidden(x) for _ in range(2)]
    made.append(self.named(x))
    made[0] += 1
    more["new"] = 1
    first, *others = made
    total = first + sum(others) + self.twice + self.plain(x) + self.of_class(x) + len(self.items) + y + k + GLOBAL
    for index, item in enumerate(self.items):
        total += index * item
    while total > 1000:
        total -= 1000
    text = f"{total:.1f} {x!r}"
    counted = {key: value for key, value in self.options.items() if value}
    with_default = self.options.get("b", 5)

    def inner(z: Any) -> Any:
        nonlocal total
        total += 1
        return z + math.sqrt(4)

    try:
        raise ValueError("no")
    except ValueError as error:
        text += str(error)
    swapped = (lambda u, v: (v, u))(1, 2)
    return (
        inner(total),
        text,
        counted,
        with_default,
        swapped,
        [*map(lambda q: q + x, rest)],
        3 in self.items,
        x if self.items else 0,
    )


def test_a_followed_call_gives_what_the_call_gives() -> None:
    item = Derived()
    wanted = everything(item, 1.5, 7, 8, 9, k=4, z=1)
    found, facts_found = follow(everything, item, 1.5, 7, 8, 9, k=4, z=1)
    assert found == wanted
    assert {"self._Base__hidden", "self.items[0]", "len(self.items)", "GLOBAL", "Derived.scale"} <= names_of(
        facts_found
    )
    assert all(fact.holds() for fact in facts_found)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: KEPT.append(x),
        lambda x: print(x),
        lambda x: open("there.txt", "w"),
        lambda x: setattr(KEPT, "a", x),
        lambda x: id(x),
        lambda x: globals(),
        lambda x: eval("1"),
        lambda x: KEPT.sort(),
        lambda x: sorted([1], key=lambda item: KEPT.append(item)),
        lambda x: next(ITERATOR),
        lambda x: remembered(x),
        lambda x: x.update(b=1),
        lambda x: __import__("json"),
        lambda x: sys.stdout.write("x"),
        lambda x: object.__setattr__(NAMESPACE, "x", x),
    ],
)
def test_an_effect_is_refused_before_it_happens(function: Callable[..., Any], capsys: Any) -> None:
    refusal(function, {"a": 1})
    assert not KEPT and capsys.readouterr().out == "" and not vars(NAMESPACE)
    assert next(COPY) == 0 and COPY.__reduce__()[2] == 1
    COPY.__setstate__(0)


ITERATOR = iter([1, 2])
COPY: Any = iter([0, 1])
NAMESPACE = SimpleNamespace()


@functools.cache
def remembered(x: Any) -> Any:
    return x


def counting(self: Any) -> None:
    self.count += 1


def swallowing(self: Any) -> Any:
    try:
        self.count = 3
    except BaseException:
        pass
    return 1


def test_reasons_name_what_is_written_to() -> None:
    assert refusal(counting, Base()) == "it sets self.count"
    assert refusal(swallowing, Base()) == "it sets self.count"
    assert refusal(lambda: KEPT.append(1)) == "it writes to KEPT"
    assert refusal(lambda: print()) == "it prints (print)"
    assert "its source is not available" in refusal(eval("lambda: 1"))


def test_no_handler_of_the_programs_lets_an_effect_happen() -> None:
    item = Base()
    refusal(swallowing, item)
    assert item.count == 0


class Compared:
    def __eq__(self, other: object) -> bool:
        KEPT.append(other)
        return True

    __hash__ = None  # type: ignore[assignment]


def test_code_that_nobody_follows_ends_the_trace_before_it_runs() -> None:
    assert "__eq__" in refusal(lambda a, b: a == b, Compared(), Compared())
    assert not KEPT


def test_the_profiler_that_was_there_is_there_again() -> None:
    def profiler(*ignored: Any) -> None:
        pass

    sys.setprofile(profiler)
    try:
        follow(lambda x: x + 1, 1)
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(None)


def test_what_follows_is_there_again_after_a_pause_and_nothing_where_a_trace_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    follower, found = Follower(Known(), ()), []  # type: ignore[arg-type]

    def program(notice: Any) -> None:
        sys.setprofile(notice)
        try:
            with follower.suspended():
                assert sys.getprofile() is None
            found.append(sys.getprofile() is notice)
        finally:
            sys.setprofile(None)

    monkeypatch.setattr(LOCAL.state, "trace", SimpleNamespace(follower=follower))
    program(lambda *event: None)
    program(None)
    assert found == [True, True]


@pytest.mark.parametrize("one", VALUES, ids=repr)
@pytest.mark.parametrize("other", VALUES, ids=repr)
def test_constants_are_told_apart_by_type_and_content(one: Any, other: Any) -> None:
    same = VALUES.index(one) == VALUES.index(other) if one == one else other != other
    if (one, other) in ((0.0, -0.0), (-0.0, 0.0)) or 0.0 == one == other:
        same = math.copysign(1, one) == math.copysign(1, other)
    if one == 1 == other:
        same = type(one) is type(other)
    assert alike(one, other) is same


def function_with(a: int = 1, *, b: int = 2) -> int:
    return a + b


class Slotted:
    __slots__ = ("x",)


def closure_with(value: Any) -> Any:
    def change(to: Any) -> None:
        nonlocal value
        value = to

    return change, change.__closure__[0]  # type: ignore[index]


def cases() -> dict[str, tuple[tuple[int, Any, Any], Callable[[], Any]]]:
    """What is looked at, and what changes it."""
    table, listed, slotted = {"a": 1.0}, [1, 2], Slotted()
    slotted.x = 1  # type: ignore[attr-defined]
    change, cell = closure_with(5)
    kind = type("Kind", (Base,), {})
    many, options, numbered = [1, [2]], {"a": 1}, {1, 2}

    def changed_default() -> None:
        function_with.__defaults__ = (3,)

    def own(a: int = 1, *, b: int = 2) -> int:
        return a + b

    return {
        "entry": ((facts.ENTRY, table, "a"), lambda: table.update(a=-1.0)),
        "no entry": ((facts.ENTRY, {}, "b"), lambda: None),
        "entry that comes": ((facts.ENTRY, table, "b"), lambda: table.update(b=1)),
        "item": ((facts.ITEM, listed, -1), lambda: listed.append(9)),
        "item that goes": ((facts.ITEM, listed, 1), lambda: listed.clear()),
        "size": ((facts.SIZE, table, None), lambda: table.update(z=1)),
        "cell": ((facts.CELL, cell, None), lambda: change(6)),
        "class": ((facts.CLASS, kind, "scale"), lambda: setattr(kind, "scale", 7)),
        "defaults": ((facts.DEFAULTS, own, "__defaults__"), lambda: setattr(own, "__defaults__", (4,))),
        "named defaults": ((facts.DEFAULTS, own, "__kwdefaults__"), lambda: setattr(own, "__kwdefaults__", {"b": 4})),
        "contents": ((facts.CONTENTS, many, None), lambda: many.insert(0, 4)),
        "contents of a dict": ((facts.CONTENTS, options, None), lambda: options.update(a=2)),
        "contents of a set": ((facts.CONTENTS, numbered, None), lambda: numbered.add(3)),
        "slot": ((facts.SLOT, slotted, Slotted.x), lambda: setattr(slotted, "x", 2)),  # type: ignore[attr-defined]
    }


@pytest.mark.parametrize("name", cases())
def test_guards_hold_until_something_changes(name: str) -> None:
    (way, container, key), change = cases()[name]
    guards = Guards([(way, container, key, read_at(way, container, key))])
    assert guards.hold() is True
    assert guards.hold() is True
    change()
    assert guards.hold() is (name == "no entry")


def test_guards_compare_by_content_and_objects_by_identity() -> None:
    for value in VALUES:
        table = {"a": value}
        guards = Guards([(facts.ENTRY, table, "a", value)])
        for other in VALUES:
            table["a"] = other
            assert guards.hold() is alike(value, other)
        table["a"] = [value]
        assert guards.hold() is False


@pytest.mark.parametrize("given", [1, (1,), ((1,),), ([],), (("a", 1, 2, 3),), ((0, 1, 2),)])
def test_guards_refuse_what_is_no_fact(given: Any) -> None:
    with pytest.raises(TypeError):
        Guards(given)


@pytest.mark.parametrize("way", [*range(-1, 12), 10**30])
def test_guards_of_the_wrong_objects_raise_or_do_not_hold(way: int) -> None:
    for container in (1, [], {}, int, None, function_with):
        for key in (0, "a", None, 10**30):
            guards = Guards([(way, container, key, object())])
            try:
                assert guards.hold() is False
            except (TypeError, AttributeError, IndexError):
                pass


def test_variants_are_found_by_what_holds_and_bounded() -> None:
    table = {"a": 0}
    known = []
    for number in range(16):
        table["a"] = number
        noted = Noted()
        noted.facts = (Fact(facts.ENTRY, table, "a", number, "self.a"),)
        assert not too_many(known)
        known.append(noted.variant(variant_key(("key",), number)))
    table["a"] = 3
    found = holding(known)
    assert found is known[3] and found.key == ("key", "variant", 3)
    table["a"] = 99
    assert holding(known) is None
    assert too_many(known).startswith("self.a had 16 values")


class Bar:
    """As a progress bar, which its `__del__` closes."""

    def __init__(self, seen: list[str]) -> None:
        self.seen = seen

    def __del__(self) -> None:
        self.note("closed")

    def note(self, what: str) -> None:
        self.seen.append(what)


class Rings:
    """A handler of a signal that is an object, calls another function, and lets go of bars."""

    def __init__(self, seen: list[str]) -> None:
        self.seen, self.bars = seen, [Bar(seen), Bar(seen)]

    def __call__(self, number: int, frame: Any) -> None:
        self.note("rang")
        if self.bars:
            self.bars.pop()

    def note(self, what: str) -> None:
        self.seen.append(what)


def grown(x: float) -> float:
    return sum([x, 1.0])


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers that send signals")
@pytest.mark.parametrize("as_object", [False, True])
def test_what_python_itself_calls_ends_no_trace(as_object: bool) -> None:
    """Handlers of signals run in the middle of whatever the program does."""
    rings = Rings([])

    def rang(number: int, frame: Any) -> None:
        rings(number, frame)

    def run(x: float) -> float:
        for _ in range(20_000):
            x = grown(x)
        return x

    follower = Follower(Known(), ())  # type: ignore[arg-type]
    before = signal.signal(signal.SIGALRM, rings if as_object else rang)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
        assert follower.run(run, (1.0,), {}) == 20_001.0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert {"closed", "rang"} <= set(rings.seen) and not follower.refusal


def test_nothing_is_collected_while_a_call_is_followed() -> None:
    """The end of a generator that is garbage is code of the program, which would run in the middle of the call."""
    seen: list[bool] = []

    def collected(phase: str, info: dict[str, int]) -> None:
        seen.append(any(frame.f_code.co_name == "grown" for frame, _ in traceback.walk_stack(None)))

    def run(x: float) -> float:
        for _ in range(100):
            x = grown(max([x, 1.0]))
        return x

    threshold = gc.get_threshold()
    gc.set_threshold(1)
    gc.callbacks.append(collected)
    try:
        assert Follower(Known(), ()).run(run, (1.0,), {}) == 101.0  # type: ignore[arg-type]
    finally:
        gc.callbacks.remove(collected)
        gc.set_threshold(*threshold)
    assert gc.isenabled() and seen and not any(seen)


def with_parts(depth: int = 2) -> Any:
    """An object with parts, as modules of PyTorch's hold theirs."""
    inner = {"one": with_parts(depth - 1), "none": None} if depth else {}
    weights = {"weight": object()}
    return SimpleNamespace(rate=0.5, name="a", hooks={}, listed=[1], _parameters=weights, _buffers={}, _modules=inner)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "a constant": lambda owner: setattr(owner, "rate", 0.25),
    "a constant, twice": lambda owner: (setattr(owner, "rate", owner.rate * 3), setattr(owner, "rate", owner.rate / 2)),
    "a new attribute": lambda owner: setattr(owner, "other", None),
    "one attribute less": lambda owner: delattr(owner, "name"),
    "a longer list": lambda owner: owner.listed.append(2),
    "a hook": lambda owner: owner.hooks.update(hook=print),
    "a weight": lambda owner: owner._parameters.update(weight=object()),
    "a part": lambda owner: owner._modules.update(one=with_parts(0)),
    "no part": lambda owner: owner._modules.update(one=None),
    "a constant of a part": lambda owner: setattr(owner._modules["one"], "rate", 0.25),
    "a part of a part": lambda owner: owner._modules["one"]._modules.clear(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_seen_of_an_object_holds_until_something_changes(change: str) -> None:
    owner = with_parts()
    seen = Fingerprint(owner)
    assert seen.holds(owner) and not seen.holds(with_parts())
    CHANGES[change](owner)
    assert not seen.holds(owner)
    assert Fingerprint(owner).holds(owner)


def test_an_object_that_is_its_own_part_is_never_as_it_was() -> None:
    owner = with_parts(0)
    owner._modules["itself"] = owner
    assert not Fingerprint(owner).holds(owner)


def test_an_object_with_very_many_parts_is_seen_whole() -> None:
    owner = with_parts(0)
    owner._modules.update({str(k): with_parts(0) for k in range(300)})
    seen = Fingerprint(owner)
    assert seen.holds(owner)
    owner._modules["299"].rate = 0.25
    assert not seen.holds(owner)


def test_a_finder_of_modules_is_no_part_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The framework may import something while a call is followed; editable installs have finders of their own.

    A large library makes very many calls as it is imported, for which signals are not looked up one by one.
    """
    asked, signals, valid = {}, [], signal.valid_signals()

    class Finder:
        @staticmethod
        def find_spec(name: str, path: Any = None, target: Any = None) -> None:
            asked[name] = is_interrupted(sys._getframe()), len(signals)

    monkeypatch.setattr(signal, "valid_signals", lambda: signals.append(0) or valid)
    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    import colorsys  # noqa: F401

    Finder.find_spec("called")
    assert asked == {"colorsys": (True, 0), "called": (False, 1)}
