"""Cells made from source: which statements may be one, which stay as they are and why, told from source alone."""

from __future__ import annotations

import ast
import math
from types import SimpleNamespace
from typing import Any

import pytest

from gluonjit.hybrid.capture.guards.rewriting import Unfollowable
from gluonjit.hybrid.capture.guards.sources import source_of
from gluonjit.hybrid.capture.outlining.effects import Effects
from gluonjit.hybrid.capture.outlining.known import LAYER, LOOKUP, WEIGHT, FrameworkFunctions, FunctionNames
from gluonjit.hybrid.capture.outlining.placing import Outliner, outlined


def tanh(x: Any) -> Any:
    return math.tanh(x)


def stack(xs: Any) -> Any:
    return sum(xs)


def tensor(x: Any) -> Any:
    return x


lib = SimpleNamespace()


class Toy(FrameworkFunctions):
    """A framework of numbers: two functions, a method, layers that add one."""

    arrays = frozenset({float})

    def function(self, item: Any) -> bool:
        return item in (tanh, stack)

    def method(self, name: str) -> bool:
        return name == "exp"

    def creates(self, item: Any) -> bool:
        return item is tensor

    def part(self, owner: Any, name: str) -> str:
        return {"a": LAYER, "b": LAYER, "embed": LOOKUP, "w": WEIGHT}.get(name, "")


class Model:
    def __init__(self) -> None:
        self.a = self.b = lambda x: x + 1
        self.w, self.log = 2.0, []

    def chain(self, x):
        y = tanh(self.a(x))
        z = y * self.w
        return z

    def around_a_call(self, x):
        y = tanh(x) + 1
        self.note(y)
        return tanh(y) * 2

    def before_a_call(self, x):
        return tanh(x) * 2 + self.note(x) + tanh(x) * 3

    def recursion(self, node):
        below = sum(self.a(self.recursion(child)) for child in node.children)
        return tanh(self.b(node.x) + below)

    def noting(self, node):
        below = sum(self.a(self.noting(child)) for child in node.children)
        self.log.append(node)
        return tanh(self.b(node.x) + below)

    def note(self, x):
        self.log.append(x)
        return x

    def branches(self, x, flag):
        y = tanh(self.a(x))
        if flag:
            y = tanh(y) * 3
        return y

    def tests(self, x, i):
        y = tanh(self.a(x))
        if i == 0:
            return y
        z = tanh(y) * 2
        if tanh(z) * 2 > 0:
            return z
        return y

    def loop(self, xs):
        h = 0.0
        for x in xs:
            h = tanh(self.a(h) + x)
        return h

    def one(self, x):
        return self.a(x)

    def writes(self, x):
        y = tanh(x) * 2
        y += tanh(x) * 3
        self.kept = tanh(y) * 4
        return self.kept

    def walrus(self, x):
        return (y := tanh(self.a(x))) * y

    def generator(self, x):
        yield tanh(self.a(x))

    def local(self, x):
        y = tanh(self.a(x))
        return locals(), y

    def rebinds(self, x):
        self = x
        return tanh(tanh(self))

    def inplace(self, x):
        return tanh(x, True) * 2


KNOWN = Toy()


def taken_apart(name: str) -> tuple[list[str], Outliner]:
    """The text of a method's blocks, and what found them."""
    model = Model()
    function = getattr(Model, name)
    node, _ = source_of(function)
    maker = Outliner(FunctionNames(function, model, KNOWN))
    maker.statements(node.body)
    texts = ["; ".join(ast.unparse(ast.fix_missing_locations(s)) for s in block.body) for block in maker.blocks]
    return texts, maker


CASES = {
    "chain": ["y = tanh(self.a(x)); z = y * self.w"],
    "around_a_call": ["y = tanh(x) + 1", "_gluonjit_2 = tanh(y) * 2"],
    "before_a_call": ["_gluonjit_1 = tanh(x) * 2", "_gluonjit_3 = _gluonjit_1 + _gluonjit_2 + tanh(x) * 3"],
    "branches": ["y = tanh(self.a(x))", "y = tanh(y) * 3"],
    "tests": ["y = tanh(self.a(x))", "z = tanh(y) * 2; _gluonjit_1 = tanh(z) * 2 > 0"],
    "loop": ["h = tanh(self.a(h) + x)"],
    "one": [],
    "writes": ["y = tanh(x) * 2; _gluonjit_1 = tanh(x) * 3", "_gluonjit_2 = tanh(y) * 4"],
    "inplace": [],
}


@pytest.mark.parametrize("name", CASES)
def test_blocks_are_straight_line_code(name: str) -> None:
    found, _ = taken_apart(name)
    plain = [text for text in CASES[name]]
    assert len(found) == len(plain)
    for text, other in zip(found, plain):
        numbers = {word for word in text.replace("(", " ").replace(";", " ").split() if word.startswith("_gluonjit_")}
        for number, word in enumerate(sorted(numbers, key=lambda word: int(word.rpartition("_")[2]))):
            text = text.replace(word, f"T{number}")
        wanted = sorted(
            {word for word in other.replace("(", " ").replace(";", " ").split() if word.startswith("_gluonjit_")},
            key=lambda word: int(word.rpartition("_")[2]),
        )
        for number, word in enumerate(wanted):
            other = other.replace(word, f"T{number}")
        assert text == other


def test_a_sum_over_clean_calls_is_cut_in_two() -> None:
    (text,), maker = taken_apart("recursion")
    listed = next(iter(maker.lists))
    assert text.startswith(f"below = sum((self.a(_gluonjit_p1) for _gluonjit_p1 in {listed})); ")
    assert list(maker.effects.methods) == ["recursion"]
    assert maker.blocks[0].parts == {"a": LAYER, "b": LAYER}


def test_a_sum_over_calls_with_effects_stays() -> None:
    found, maker = taken_apart("noting")
    assert not maker.lists
    assert all("sum" not in text for text in found)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("walrus", "it assigns in an expression"),
        ("generator", "it is a generator"),
        ("local", "it calls locals"),
        ("rebinds", "it rebinds self"),
        ("one", "no two operators in it may run together"),
    ],
)
def test_what_cannot_be_taken_apart_says_why(name: str, why: str) -> None:
    with pytest.raises(Unfollowable, match=why):
        outlined(getattr(Model, name), Model(), KNOWN, None)


def test_clean_is_what_writes_nothing() -> None:
    model = Model()
    effects = Effects(FunctionNames(Model.chain, model, KNOWN))
    for text in (
        "self.recursion(x)",
        "tensor(len(x))",
        "self.embed(x)",
        "x[0]",
        "tanh(x).exp()",
        "[tanh(3)]",
    ):
        assert effects.clean(ast.parse(text, mode="eval")), text
    for text in ("self.note(x)", "self.noting(x)", "x.exp()", "print(x)", "x.pop()", "tanh(x, out=y)", "(lambda: x)"):
        assert not effects.clean(ast.parse(text, mode="eval")), text


def entered(owner: Any) -> Any:
    """Gives no cells."""


def test_without_cells_the_code_is_the_methods_own() -> None:
    made = outlined(Model.chain, Model(), KNOWN, entered)
    code = Model.chain.__code__
    assert (made.code.co_filename, made.code.co_firstlineno) == (code.co_filename, code.co_firstlineno)
    assert made.code.co_freevars == code.co_freevars
    (site,) = made.sites
    assert site.lines == f"lines {code.co_firstlineno + 1}-{code.co_firstlineno + 2}"
    model = Model()
    before = model.chain(0.25)
    Model.chain.__code__ = made.code
    try:
        assert model.chain(0.25) == before
    finally:
        Model.chain.__code__ = code


@pytest.mark.parametrize("used", [True, False])
def test_with_cells_the_code_calls_them_or_runs_the_statements(used: bool) -> None:
    seen: list[Any] = []

    def cells(owner: Any) -> Any:
        def run(x: Any) -> Any:
            seen.append(x)
            return 42.0 if used else None

        return [KNOWN.arrays, run, lambda item: False]

    made = outlined(Model.chain, Model(), KNOWN, cells)
    code = Model.chain.__code__
    before = Model().chain(0.25)
    Model.chain.__code__ = made.code
    try:
        assert Model().chain(0.25) == (42.0 if used else before)
        assert seen == [0.25]
        assert Model().chain(1) == pytest.approx(2 * math.tanh(2))  # no array: as it was written
        assert seen == [0.25]
    finally:
        Model.chain.__code__ = code
