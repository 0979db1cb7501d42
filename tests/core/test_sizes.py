"""Sizes that differ in traces which do the same, and for what other sizes Python would have decided alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gluonjit.graph import intern_spec
from gluonjit.hybrid.capture.guards.sizes import traced
from gluonjit.program.axes.values import Operand
from gluonjit.program.sizes import (
    Bounds,
    Comparison,
    LengthRule,
    NamedSizes,
    NotDerivable,
    OtherForm,
    at_lengths,
    line_through,
)
from gluonjit.program.trace import Trace, TraceBuilder

WIDTH = 3


def sliced(length: int, wide: int = WIDTH, asked: Any = ()) -> Trace:
    """`places[:n] + x[:n - 1]`, of which the first is a constant of each length, and a weight that all have."""
    builder = TraceBuilder([intern_spec((length, wide), "float32", "cpu", "rows")])
    places = builder.constant(np.arange(length - 1.0), ((length - 1,), "float32"))
    weight = builder.constant(WEIGHT, ((wide,), "float32"))
    attrs = (("self", Operand(0)), ("begin", 0), ("end", length - 1))
    (part,) = builder.op("slice", attrs, [0], [((length - 1, wide), "float32")])
    attrs = (("self", Operand(0)), ("other", Operand(1)), ("weight", Operand(2)))
    return builder.finish(builder.op("add", attrs, [part, places, weight], [((length - 1, wide), "float32")]), asked)


WEIGHT = np.ones(WIDTH)


def form(one: Trace, other: Trace) -> NamedSizes:
    return NamedSizes(one, other, lambda a, b: a.shape == b.shape and bool((a == b).all()))


def test_sizes_that_differ_are_named_and_equal_ones_have_one_name() -> None:
    found = form(sliced(5), sliced(7))
    assert found.lengths == 2
    assert found.sizes == {(0, 0): 0, (1, 0): 1, (3, 0): 1, (4, 0): 1}
    assert found.own == {1}  # the constant of this length; the weight is everybody's
    assert found.numbers == {(3, "end"): 1}
    assert found.numbered == {0}
    assert found.axes(4) == [0]
    assert found.shape(4, {0: 9, 1: 8}) == (8, WIDTH)
    assert found.elements((9, 8)) == 9 * WIDTH + 8 + WIDTH + 2 * 8 * WIDTH


def test_a_third_trace_has_lengths_of_the_form() -> None:
    found = form(sliced(5), sliced(7))
    assert found.lengths_of(sliced(20)) == (20, 19)
    with pytest.raises(OtherForm, match="a size differs that was the same"):
        found.lengths_of(sliced(20, wide=4))
    for number in (3, 4):  # the second one is that of the first trace
        with pytest.raises(OtherForm, match="a number differs that was a length"):
            end = sliced(20)
            attrs = tuple([(name, number if name == "end" else value) for name, value in end.ops[0].attrs])
            found.lengths_of(replace(end, ops=(end.ops[0]._replace(attrs=attrs), end.ops[1])))


def test_traces_that_differ_in_more_than_sizes_have_no_form() -> None:
    one, other = sliced(5), sliced(7)
    with pytest.raises(OtherForm, match="other operators or results"):
        form(one, replace(other, results=(3,)))
    with pytest.raises(OtherForm, match="add in one is sub in the other"):
        form(one, replace(other, ops=(other.ops[0], other.ops[1]._replace(name="sub"))))
    with pytest.raises(OtherForm, match="dtypes or numbers of axes"):
        shapes = (*other.shapes[:-1], ((6, WIDTH, 1), "float32"))
        form(one, replace(other, shapes=shapes))


def asked_by(decide: Any, length: int) -> tuple[Any, ...]:
    """What a program notes that decides by a length."""
    asked: list[Any] = []
    decide(traced(length, asked))
    return tuple(asked)


def bounds(decide: Any, *lengths: int) -> Bounds:
    traces = [sliced(length, asked=asked_by(decide, length)) for length in lengths]
    return Bounds(traces, [(length,) for length in lengths])


BOUNDED = {
    "the smaller one": (lambda n: min(3, n - 1), (5, 6, 9), (4, 100), (3, 2)),
    "a branch": (lambda n: n > 4 or None, (5, 7, 9), (6, 50), (4, 1)),
    "between": (lambda n: 3 < n <= 6 or None, (4, 5, 6), (), (3, 7)),
    "another comparison of twice it": (lambda n: n * 2 + 1 == 9, (5, 6, 7), (8, 3), (4,)),
    "nothing": (lambda n: n + 1, (5, 6, 7), (1, 2, 100), ()),
}


@pytest.mark.parametrize("decide, lengths, inside, outside", BOUNDED.values(), ids=list(BOUNDED))
def test_a_trace_stands_for_lengths_that_compare_alike(decide: Any, lengths: Any, inside: Any, outside: Any) -> None:
    found = bounds(decide, *lengths)
    assert all(found.hold({0: length}) for length in (*lengths, *inside))
    assert not any(found.hold({0: length}) for length in outside)


ASKED = {
    "a loop": lambda n: [k for k in iter(range(100)) if k < n],
    "a loop that ends": lambda n: next(k for k in range(100) if not k < n),
    "a half": lambda n: n // 2,
    "a key": lambda n: {5: 1}.get(n),
    "a text": lambda n: f"{n}",
    "a truth": lambda n: bool(n),
}


@pytest.mark.parametrize("decide", ASKED.values(), ids=list(ASKED))
def test_what_asks_for_a_size_itself_is_traced_for_each(decide: Any) -> None:
    with pytest.raises(NotDerivable):
        bounds(decide, 5, 6, 7)


def test_comparisons_that_differ_are_no_form_and_few_lengths_are_not_enough() -> None:
    with pytest.raises(NotDerivable):
        bounds(lambda n: n > 6, 5, 7, 9)
    with pytest.raises(NotDerivable):
        bounds(lambda n: n > 4, 5, 7, 5)
    with pytest.raises(NotDerivable):
        Bounds([], [])


def test_a_number_follows_a_line() -> None:
    lengths = [(5, 2), (6, 2), (9, 4)]
    assert line_through([9, 11, 17], lengths) == LengthRule(0, 2, -1)
    assert line_through([3, 3, 3], lengths) == 3
    rule = line_through([(0, 4, "x"), (0, 5, "x"), (0, 8, "x")], lengths)
    assert at_lengths(rule, {0: 12}) == (0, 11, "x")
    with pytest.raises(NotDerivable):
        at_lengths(rule, {1: 12})
    for values in ([9, 11, 18], [0.5, 0.6, 0.9], ["a", "b", "c"]):
        with pytest.raises(NotDerivable):
            line_through(values, lengths)


def test_a_comparison_holds_where_it_comes_out_the_same() -> None:
    assert Comparison("__lt__", 3, 5, True).holds(4, 9)
    assert not Comparison("__lt__", 3, 5, True).holds(9, 4)
