"""Hostile calls of gluonjit._fast, by itself and with the slots of an open batch damaged: see hostile_support."""

from __future__ import annotations

import gc
import sys
from array import array
from collections.abc import Callable, Iterator
from operator import attrgetter
from types import CellType, SimpleNamespace
from typing import Any

from hostile_support import Case, run

import gluonjit
from gluonjit import _fast as fast
from gluonjit.graph import Record, intern_spec
from gluonjit.graph.joining import copied, joined
from gluonjit.graph.replay import Replay, gather
from gluonjit.graph.slices import picked
from gluonjit.hybrid.capture.guards.facts import ABSENT, CELL, CONTENTS, ENTRY, ITEM, SIZE, Guards

Value = fast.Value
SPEC = intern_spec((3, 2), "float32", "cpu", "rows")
ANY = Exception
DEEP, LONG = 200_000, 2_000  # links of a chain whose end is to be survived, and of those that are looked at for memory


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
CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


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


class Chained:
    """A call on what a chain of links ends in: a very long chain the first time, and then shorter ones."""

    def __init__(self, make: Callable[[Any], Any], use: Callable[[Any], Any] = lambda last: None, last: Any = None):
        self.make, self.use, self.last, self.length = make, use, last, DEEP

    def __call__(self) -> Any:
        length, self.length, last = self.length, LONG, self.last
        for _ in range(length):
            last = self.make(last)
        return self.use(last)


def in_hooks(path: str, use: Callable[[Any], Any]) -> Chained:
    """What is asked of very many hooks, each of the next."""
    return Chained(lambda hook: fast.Hook(path, hook), use, print)


def in_doors(use: Callable[[Any], Any]) -> Chained:
    """What is asked of very many doors, each before the next."""
    return Chained(lambda door: fast.Hook("door", door or len, door), use)


def of_values() -> Iterator[Case]:
    for name in ("rows", "spec", "graph", "base"):
        yield Case(f"del value.{name}", lambda name=name: delete(name), None)  # type: ignore[misc]
    for name in ("result", "depth", "taped", "row_list", "none"):
        yield Case(f"del value.{name}", lambda name=name: delete(name), ANY)  # type: ignore[misc]
    for name in ("depth", "row_list", "none"):
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
    yield Case("a chain of values", Chained(lambda base: Value(0, 0, SPEC, None, False, base)), None)
    yield Case("a class of values", lambda: type("Mine", (Value,), {}), TypeError)
    yield Case("a class of signatures", lambda: type("Mine", (fast.SignatureTable,), {}), TypeError)
    yield Case("Value by another class", lambda: Value.__new__(int), TypeError)
    yield Case("rows of no value", lambda: Value.rows.__get__(3), TypeError)


def watched(notice: Any, *passed: Any) -> None:
    """Calls of Python's functions while something is told of them, but for those of code that is passed over."""
    fast.watch_calls(notice, *(passed or ({},)))
    try:
        told_of()
        told_of()
    finally:
        sys.setprofile(None)


def of_hooks() -> Iterator[Case]:
    for given in (
        (),
        ("call",),
        ("call", 1, 2, 3, 4, 5),
        (None, print),
        ("none", print),
        (b"call", print),
        ("call\0", print),
    ):
        yield Case(f"Hook{given}", lambda given=given: fast.Hook(*given), (TypeError, ValueError))  # type: ignore[misc]
    for path in ("call", "item", "numpy_item", "operator", "verify", "numpy_verify"):
        for k, thing in enumerate(THINGS):
            yield Case(
                f"a hook of {path} of thing {k}",
                lambda path=path, thing=thing: fast.Hook(path, thing)(thing, thing),  # type: ignore[misc]
                None if thing is print else ANY,
            )
        yield Case(f"{path} of no arguments", lambda path=path: fast.Hook(path, len)(), TypeError)  # type: ignore[misc]
        yield Case(f"{path} by name", lambda path=path: fast.Hook(path, len)(x=1), TypeError)  # type: ignore[misc]
        yield Case(f"a chain of {path}", in_hooks(path, lambda hook: hook(1)), RecursionError)
    for name in ("__doc__", "__name__", "nothing"):
        yield Case(f"{name} of a chain", in_hooks("item", attrgetter(name)), RecursionError)
    yield Case("a hook of an attribute that raises", lambda: fast.Hook("item", Hostile()).nothing, KeyError)
    yield Case("an instance of Silent", lambda: none(fast.Silent().__del__()), None)
    for k, thing in enumerate(THINGS):
        yield Case(f"quicken('call', thing {k})", lambda thing=thing: fast.quicken("call", thing), TypeError)  # type: ignore[misc]
        yield Case(f"quicken(thing {k}, f)", lambda thing=thing: fast.quicken(thing, told_of), (TypeError, ValueError))  # type: ignore[misc]
        kinds = None if isinstance(thing, type) else TypeError
        yield Case(f"quick_attributes(thing {k})", lambda thing=thing: fast.quick_attributes(thing, type), kinds)  # type: ignore[misc]
        yield Case(f"quick_attributes(int, thing {k})", lambda thing=thing: fast.quick_attributes(int, thing), kinds)  # type: ignore[misc]
        raises = None if callable(thing) else TypeError
        yield Case(f"watch_calls(thing {k})", lambda thing=thing: watched(thing), raises)  # type: ignore[misc]
        fits = None if isinstance(thing, dict) else TypeError
        yield Case(f"watch_calls(f, thing {k})", lambda thing=thing: watched(print, thing), fits)  # type: ignore[misc]
        yield Case(f"new(thing {k}, thing)", lambda thing=thing: fast.new(thing, thing), None)  # type: ignore[misc]
        quick = fast.quicken("attribute", lambda *args: args)
        yield Case(f"an attribute of thing {k}", lambda f=quick, thing=thing: f(thing, "x"), None)  # type: ignore[misc]
        quick = fast.quicken("call", lambda *args: args)
        yield Case(f"a call of thing {k}", lambda f=quick, thing=thing: f(thing, "x"), None)  # type: ignore[misc]
    yield Case("attributes of a class of C's", lambda: fast.quick_attributes(int, object), None)
    yield Case("a watch that raises", lambda: watched(Hostile().fail), TypeError)
    yield Case("a watch that raises in the middle", lambda: watched(lambda *args: Hostile().fail()), KeyError)
    yield Case("a watch that ends itself", lambda: watched(lambda *args: sys.setprofile(None)), None)
    for mine in ({"_parameters": 3}, {"_parameters": {}, "_buffers": []}, {"_parameters": {}, "_buffers": {}}):
        module = SimpleNamespace(**mine)
        quick = fast.quicken("attribute", lambda *args: args)
        yield Case(f"an attribute of {mine}", lambda f=quick, module=module: f(module, "x"), None)  # type: ignore[misc]


class Itemized(fast.Items, SimpleNamespace):
    """What has the items of lazy tensors, and is none."""


def of_items() -> Iterator[Case]:
    itemized: Any = Itemized()
    for k, thing in enumerate(THINGS):
        yield Case(f"what is at thing {k}", lambda thing=thing: itemized[thing], (TypeError, KeyError))  # type: ignore[misc]
    yield Case("an instance of Items", lambda: fast.Items()[0], TypeError)


def of_cells() -> Iterator[Case]:
    for k, thing in enumerate((*THINGS, fast.Celled)):
        yield Case(f"quick_cells(thing {k})", lambda thing=thing: fast.quick_cells(thing), TypeError)  # type: ignore[misc]
    for k, thing in enumerate(THINGS):
        made = gluonjit.cell(lambda *args, **named: (args, named))
        yield Case(f"a cell of thing {k}", lambda f=made, thing=thing: f(thing, thing, x=thing), None)  # type: ignore[misc]
        yield Case(f"a cell of many things {k}", lambda f=made, thing=thing: f(*[thing] * 20), None)  # type: ignore[misc]
    yield Case("a cell without caches", lambda: none(fast.Celled().caches), None)
    yield Case("a call of what is no cell", lambda: fast.Celled()(), TypeError)
    yield Case("a cell that calls itself", lambda: recursive(1), RecursionError)


@gluonjit.cell
def recursive(x: Any) -> Any:
    """Never ends."""
    return recursive(x)


def of_doors() -> Iterator[Case]:
    for given in ((), (print,), ("door",), ("door", print, print, 1, 2, 3)):
        yield Case(f"Hook{given}", lambda given=given: fast.Hook(*given), TypeError)  # type: ignore[misc]
    for given in (
        (),
        (1,),
        (1, 2),
        (print, (), 5),
        (print, (), (), 5),
        (print, (), (), {}, 5),
        ([], (), ()),
        (Hostile(), (), ()),
    ):
        yield Case(f"the main door{given!r:.30}", lambda given=given: fast.torch_function(*given), TypeError)  # type: ignore[misc]
    yield Case("the main door by name", lambda: fast.torch_function(func=print), TypeError)
    for given in ((), (print,), (print, 3), (print, [None])):
        yield Case(f"the door of functions{given!r:.30}", lambda given=given: fast.handled(*given), TypeError)  # type: ignore[misc]
    for given in ((), (0, 0), (0, 0, 0, 0, "x"), (None, 0, 0, 0, 0), (0, 0, 0, 0, 2**70), (-1, 0, 0, 0, 0)):
        raised = (TypeError, OverflowError)
        yield Case(f"read_modes{given}", lambda given=given: fast.read_modes(*given), raised)  # type: ignore[misc]
    yield Case("modes of nothing", lambda: fast.modes(), TypeError)
    for k, thing in enumerate(THINGS):
        yield Case(f"a door of thing {k}", lambda thing=thing: fast.Hook("door", len, *[thing] * 3)([]), None)  # type: ignore[misc]
        behind = lambda thing=thing: fast.Hook("door", thing, len)(thing, thing)  # type: ignore[misc]  # noqa: E731
        yield Case(f"a door before thing {k}", behind, None if thing is print else ANY)
    yield Case("a door by name", lambda: fast.Hook("door", len, len)(x=1), TypeError)
    yield Case("a chain of doors", in_doors(lambda door: door([])), RecursionError)
    for name in ("__doc__", "__name__", "nothing"):
        yield Case(f"{name} of doors", in_doors(attrgetter(name)), RecursionError)


def told_of() -> None:
    """A function to quicken."""


def replaying(named: str = "", thing: Any = None) -> Replay:
    """A replay that knows one kind and one table and has three rows; with a thing in the place of one of its lists."""
    graph = fast.GraphRows()
    graph.rows = 3
    found = Replay(graph, thing if named == "origins" else [None])
    found.records, found.entries = [Record(kind_of(), 0, 0.0)], [{0: 0}]
    found.begin((), ())
    found.add(0, 3)
    if named in ("records", "entries"):
        setattr(found, named, thing)
    return found


def of_replays() -> Iterator[Case]:
    plain = array("i", (0, 1, 1, 0, 1, 0))
    batch = fast.BatchRoom()
    for k, thing in enumerate(THINGS):
        for named in ("records", "entries", "origins"):
            for item in (thing, [thing]):
                made = lambda named=named, item=item: replaying(named, item)  # type: ignore[misc]  # noqa: E731
                told = f"of {named} {item!r:.9} ({k})"
                yield Case(f"replay {told}", lambda made=made: made().capture(batch, plain), None)  # type: ignore[misc]
                yield Case(f"look-up {told}", lambda made=made: made().begin((), ((0, (0, 1)),)), None)  # type: ignore[misc]
                yield Case(f"kinds {told}", lambda made=made: made().begin((0, 1), ()), None)  # type: ignore[misc]
        for given in ((thing, plain), (batch, thing)):
            yield Case(f"replay of thing {k}", lambda given=given: replaying().capture(*given), ANY)  # type: ignore[misc]
        for name, given in (
            ("begin", (thing, ())),
            ("begin", ((thing,), ())),
            ("begin", ((), thing)),
            ("begin", ((), (thing,))),
            ("begin", ((), ((thing, (0,)),))),
            ("begin", ((), ((0, thing),))),
            ("begin", ((), ((0, (thing,)),))),
            ("add", (thing, 1)),
            ("add", (0, thing)),
            ("row", (thing,)),
            ("values", (thing,)),
            ("value", (thing, 0)),
            ("value", (0, thing)),
        ):
            made = lambda name=name, given=given: getattr(replaying(), name)(*given)  # type: ignore[misc]  # noqa: E731
            yield Case(f"{name}{given!r:.30} of thing {k}", made, None)
        for given in ((thing, {}, int, []), (1, thing, int, []), (1, {}, thing, []), (1, {}, int, thing)):
            yield Case(f"gather {k}", lambda given=given: gather(*given), None)  # type: ignore[misc]
        for way in (thing, 1, 3, 4, 9):
            made = lambda way=way, thing=thing: gather([thing], {}, lambda kind: way, [])  # type: ignore[misc]  # noqa: E731
            yield Case(f"gather {k} by {way!r:.9}", made, None)
    yield Case("gather in a circle", lambda: gather(CIRCLE, {}, lambda kind: 3, []), RecursionError)
    for lookups in (((),), ((0,),), ((-1, (0,)),), ((2**40, (0,)),)):
        yield Case(f"begin with {lookups}", lambda lookups=lookups: replaying().begin((), lookups), None)  # type: ignore[misc]
    for code in (
        (0,),
        (0, 1, 1, 0, 1),
        (1, 1, 1, 0, 1, 0),
        (-1, 1, 1, 0, 1, 0),
        (0, 1, 1, 1, 1, 0),
        (0, 1, 1, -1, 1, 0),
        (0, 1, 1, 0, 0),
        (0, 1, 1, 0, 2, 0, 0),
        (0, 1, 1, 0, 1, 3),
        (0, 1, 1, 0, 1, -2, 0),
        (0, 1, 1, 0, 1, -1, 3),
        (0, 1, 1, 0, 1, -1, -1),
        (0, 1, 1, 0, 1, -(2**31)),
    ):
        damaged = array("i", code)
        yield Case(f"replay of {code}", lambda damaged=damaged: replaying().capture(batch, damaged), ValueError)  # type: ignore[misc]
    yield Case("replay of long numbers", lambda: replaying().capture(batch, array("q", plain)), TypeError)


def of_functions() -> Iterator[Case]:
    for k, thing in enumerate(THINGS):
        yield Case(f"tensor(thing {k})", lambda thing=thing: fast.tensor(thing), TypeError)  # type: ignore[misc]
        yield Case(f"tensor of spec {k}", lambda thing=thing: fast.tensor(value(spec=thing)), ANY)  # type: ignore[misc]
        yield Case(f"Record(thing {k})", lambda thing=thing: Record(thing, 0, 0.0), ANY)  # type: ignore[misc]
        for wrong in (thing, [thing], [value(), thing]):
            yield Case(f"joined({wrong!r:.20}), {k}", lambda wrong=wrong: joined(wrong, "rows"), None)  # type: ignore[misc]
        for mode in ("rows", thing):
            for wrong in ([value(spec=thing)], [value(), value(spec=thing)], [value(rows=thing)]):
                yield Case(f"joined, {k}, {mode!r:.9}", lambda wrong=wrong, mode=mode: joined(wrong, mode), None)  # type: ignore[misc]
        yield Case(f"picked(thing {k})", lambda thing=thing: picked(thing, [0]), ANY)  # type: ignore[misc]
        yield Case(f"picked of spec {k}", lambda thing=thing: picked(value(spec=thing), [0]), ANY)  # type: ignore[misc]
        yield Case(f"picked of rows {k}", lambda thing=thing: picked(value(rows=thing), [0]), ANY)  # type: ignore[misc]
        yield Case(f"picked at thing {k}", lambda thing=thing: picked(value(), [thing]), None)  # type: ignore[misc]
        yield Case(f"copied(thing {k})", lambda thing=thing: copied(thing), ANY)  # type: ignore[misc]
        yield Case(f"numbers(thing {k})", lambda thing=thing: none(fast.numbers(thing)), None)  # type: ignore[misc]
        yield Case(f"look(thing {k})", lambda thing=thing: none(fast.look(thing)), None)  # type: ignore[misc]
        yield Case(f"address(thing {k})", lambda thing=thing: none(fast.address(thing)), None)  # type: ignore[misc]
        yield Case(f"configure(thing {k})", lambda thing=thing: fast.configure(thing), (TypeError, ValueError))  # type: ignore[misc]
        for place in range(4):
            given: list[Any] = [None, None, (), {}]
            given[place] = thing
            wanted = TypeError if place == 2 and thing.__class__ is not tuple else None
            wanted = TypeError if place == 3 and thing.__class__ is not dict else wanted
            yield Case(f"capture, {place} is thing {k}", lambda given=given: fast.capture(*given), wanted)  # type: ignore[misc]
        for place in range(6):
            given = [None, None, (), {}, (), Record(kind_of(), 0, 0.0)]
            given[place] = thing
            wanted = (
                None
                if place in (0, 1) or (place, thing.__class__) in ((2, tuple), (3, dict), (4, tuple))
                else TypeError
            )
            yield Case(f"keep, {place} is thing {k}", lambda given=given: fast.keep(*given), wanted)  # type: ignore[misc]
    for section in ("package", "mxnet", "torch", "none"):
        for named in ({}, {"State": int}, {"LazyTensor": 3}, {"Cell": Hostile}):
            made: Any = lambda section=section, named=named: fast.configure(section, **named)  # type: ignore[misc]  # noqa: E731
            yield Case(f"configure({section}, {list(named)})", made, (TypeError, AttributeError))
    for given in ((), (1,), (1, 2, 3), (None, None, (), {}, 5)):
        yield Case(f"capture{given}", lambda given=given: fast.capture(*given), TypeError)  # type: ignore[misc]
    for given in ((), (1,), (None, None, (), {}, ()), (None, None, (), {}, (), Record(kind_of(), 0, 0.0), 5)):
        yield Case(f"keep{given!r:.30}", lambda given=given: fast.keep(*given), TypeError)  # type: ignore[misc]
    for given in ((), (1,), (1, [], [], [], None), (1, [], [], [], Record(kind_of(), 0, 0.0), 5)):
        yield Case(f"keep_operator{given!r:.30}", lambda given=given: fast.keep_operator(*given), TypeError)  # type: ignore[misc]
    yield Case("spare_bodies(1)", lambda: fast.spare_bodies(1), TypeError)
    for given in ((), (1,), (object,), (object, 1)):
        yield Case(f"keep_bodies{given!r:.30}", lambda given=given: fast.keep_bodies(*given), TypeError)  # type: ignore[misc]
    for kind in (
        None,
        object(),
        Hostile(),
        kind_of(rows=-1),
        kind_of(rows=2**40),
        kind_of(rows="1"),
    ):
        yield Case(f"Record of {kind!r:.40}", lambda kind=kind: Record(kind, 0, 0.0), ANY)  # type: ignore[misc]
    for output in (
        None,
        (1, 2),
        SimpleNamespace(offset=-1, spec=SPEC),
        SimpleNamespace(offset=2**60, spec=SPEC),
        Hostile(),
    ):
        kind = kind_of(outputs=(output,))
        yield Case(f"Record of output {output!r:.40}", lambda kind=kind: Record(kind, 0, 0.0), ANY)  # type: ignore[misc]
    for share, mode in ((None, 0), ("x", 0), (0.0, None), (0.0, 2**70), (Hostile(), 0), (0.0, Hostile())):
        made = lambda mode=mode, share=share: Record(kind_of(), mode, share)  # type: ignore[misc]  # noqa: E731
        yield Case(f"Record of {share!r:.9}, {mode!r:.9}", made, ANY)
    record = Record(kind_of(), 0, 0.0)
    for k, thing in enumerate(THINGS):
        for place in range(5):
            given = [fast.BatchRoom(), fast.GraphRows(), (0,), 1, True]
            given[place] = thing
            yield Case(f"capture of a node, {place} is thing {k}", lambda given=given: record.capture(*given), None)  # type: ignore[misc]
        for name in ("operands_of", "base", "depth", "values", "forget", "truncate", "put_back", "like"):
            yield Case(f"{name} of thing {k}", lambda name=name, thing=thing: getattr(record, name)(thing), None)  # type: ignore[misc]


def none(found: Any) -> None:
    assert found is None


def kind_of(**changed: Any) -> Any:
    given = {
        "structure": None,
        "rows": 1,
        "pure": True,
        "operands": (SPEC,),
        "outputs": (SimpleNamespace(offset=0, spec=SPEC),),
    }
    return SimpleNamespace(**{**given, **changed})


def guards(*facts: Any) -> Any:
    return Guards(facts)


def held(*facts: Any) -> bool:
    """Whether guards hold, twice."""
    made = guards(*facts)
    return bool(made.hold()) and bool(made.hold())


def mutated(way: int, act: Callable[[list[Any], dict[Any, Any]], Any]) -> bool:
    """Guards of containers that are changed while they are looked at."""
    items: list[Any] = [0] * 50
    entries: dict[Any, Any] = {}

    def changing() -> bool:
        act(items, entries)
        return True

    items[0] = Hostile(changing)
    entries["x"] = Hostile(changing)
    container: Any = items if way in (ITEM, CONTENTS) else entries
    found = (Hostile(changing), *[0] * 49) if way == CONTENTS else Hostile(changing)
    return held((way, container, 0 if way == ITEM else "x", found)) and held((way, container, Hostile(changing), found))


def own_circle(count: int) -> None:
    """Guards that hold themselves, of which nothing is left."""
    for _ in range(count):
        box: list[Any] = []
        box.append(guards((ITEM, box, 0, box)))


def of_guards() -> Iterator[Case]:
    for given in ((), (1,), (None,), ((), 1), ((), 1, 2), ([None],), ({1: 2},)):
        yield Case(f"Guards{given}", lambda given=given: Guards(*given), TypeError)  # type: ignore[misc]
    for fact in (
        None,
        5,
        "abcd",
        [0, {}, "x", 1],
        (),
        (0, {}, "x"),
        (0, {}, "x", 1, 2),
        ("0", {}, "x", 1),
        (0.0, {}, "x", 1),
    ):
        yield Case(f"a fact {fact!r:.30}", lambda fact=fact: guards(fact), TypeError)  # type: ignore[misc]
        yield Case(f"a second fact {fact!r:.30}", lambda fact=fact: guards((0, {}, 1, 2), fact), TypeError)  # type: ignore[misc]
    yield Case("no facts", lambda: held(), None)
    yield Case("a class of guards", lambda: type("Mine", (Guards,), {}), TypeError)
    yield Case("guards of nothing", lambda: Guards.__new__(Guards).hold(), ANY)
    yield Case("hold() of no guards", lambda: Guards.hold(3), TypeError)
    for way in (*range(9), -1, 2**31, 2**32, 2**63 - 1, -(2**63)):
        for k, thing in enumerate(THINGS):
            for place in (1, 2, 3):
                fact: list[Any] = [way, {"x": 1}, "x", 1]
                fact[place] = thing
                yield Case(f"way {way}, {place} is thing {k}", lambda fact=tuple(fact): held(fact), None)  # type: ignore[misc]
    yield Case("a huge way", lambda: held((2**70, {}, "x", 1)), TypeError)
    for index in (0, 1, -1, -2, 2**31, 2**63 - 1, -(2**63), 2**64, True):
        yield Case(f"item {index}", lambda index=index: held((ITEM, [1], index, 1)), None)  # type: ignore[misc]
        yield Case(f"{index} items", lambda index=index: held((SIZE, [1], None, index)), None)  # type: ignore[misc]
    for k, act in enumerate([
        lambda items, entries: (items.clear(), entries.clear()),
        lambda items, entries: (items.extend(range(1000)), entries.update(dict.fromkeys(range(1000)))),
        lambda items, entries: gc.collect(),
    ]):  # fmt: skip
        for way in (ENTRY, ITEM, SIZE, CONTENTS):
            yield Case(f"way {way} changes it, {k}", lambda way=way, act=act: mutated(way, act), None)  # type: ignore[misc]
    yield Case("a length that raises", lambda: held((SIZE, object(), None, 3)), TypeError)
    yield Case("a key that raises", lambda: held((ENTRY, {1: 1}, Hostile(), 1)), KeyError)
    yield Case("an empty cell", lambda: held((CELL, CellType(), None, ABSENT)), None)
    yield Case("a chain of guards", Chained(lambda last: guards((ENTRY, {}, last, last))), None)
    yield Case("guards of themselves", lambda: own_circle(100), None)


CASES = [*of_values(), *of_hooks(), *of_doors(), *of_items(), *of_cells(), *of_functions(), *of_replays(), *of_guards()]

if __name__ == "__main__":
    run(CASES)
