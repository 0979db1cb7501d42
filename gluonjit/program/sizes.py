"""Sizes that differ in traces which do the same, and what follows from them: shapes, numbers, and where Python decides.

What Python has compared while a call was traced bounds for what other sizes its trace stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

from gluonjit.program.axes.values import Size
from gluonjit.program.trace import Trace, TraceOp

Numbers = tuple[int, ...]
"""A shape, lengths, or factors of these."""
Leaf = tuple[Any, ...]
"""An argument of an operator, or a part of it: the position of the first result, the name, and places in tuples."""
ENOUGH = 3
"""The values that each length has to have in traced calls, before others are derived from them."""

_CHOOSING = frozenset("axes axis dim dim0 dim1 dims interpolation_mode mode padding_mode reduction".split())
"""Whole numbers of operators that choose what they do: equal to a length by chance, they are none."""


class OtherForm(Exception):
    """Two traces that differ in more than sizes."""


class NotDerivable(Exception):
    """Something that differs among traced calls, and follows from nothing known here."""


class NamedSizes:
    """A trace, and which of its sizes differ in traces like it: each has the number of a length.

    trace: the first; sizes: lengths by position and axis; lengths: how many there are (two sizes that are equal in both
    traces are one); own: the constants that each trace has for itself; numbered: the operators with arguments that
    differ, by their places in the trace; numbers: these arguments, by the position of the first result, their names,
    and the place in a tuple, with the length that each of them is, if it is one; products: lengths that are others
    multiplied, as sizes.
    """

    def __init__(self, trace: Trace, other: Trace, equal: Callable[[Any, Any], bool]) -> None:
        """Compares two traces; `equal` compares constants. Raises OtherForm."""
        self.trace = trace
        self._equal = equal
        self.own, differing = self._compare(other)
        self.sizes: dict[tuple[int, int], int] = {}
        self.products: dict[int, Any] = {}
        numbers: dict[tuple[int, int], int] = {}
        for position, ((shape, _), (beside, _)) in enumerate(zip(trace.shapes, other.shapes)):
            for axis, pair in enumerate(zip(shape, beside)):
                if pair[0] != pair[1]:
                    self.sizes[position, axis] = numbers.setdefault(pair, len(numbers))
        for position in {position for position, _ in self.sizes}:
            if any(not size and axis not in self.axes(position) for axis, size in enumerate(trace.shapes[position][0])):
                raise OtherForm("a value has rows of no numbers")  # which do not tell how many rows there are
        self.lengths = len(numbers)
        self.numbers = {leaf: numbers.get(pair) for leaf, pair in differing.items()}
        self._first = {leaf: value for leaf, (value, _) in differing.items()}
        made = {position for position, *_ in differing}
        self.numbered = {place for place, op in enumerate(trace.ops) if made.intersection(op.outputs)}

    def elements(self, lengths: Sequence[int]) -> int:
        """The number of elements of all values, at these lengths."""
        return sum(times * prod([lengths[length] for length in each]) for times, each in self._grown)

    @cached_property
    def _grown(self) -> tuple[tuple[int, Numbers], ...]:
        return self.grown(range(len(self.trace.shapes)))

    def grown(self, positions: Iterable[int]) -> tuple[tuple[int, Numbers], ...]:
        """The elements of values: so many times the lengths that they are multiplied by."""
        found: dict[Numbers, int] = {}
        for position in positions:
            shape, axes = self.trace.shapes[position][0], self.axes(position)
            lengths = [self.sizes[position, axis] for axis in axes]
            sizes = [self.products.get(length, Size(length)) for length in lengths]
            whole = Size() * prod([*sizes, *[size for axis, size in enumerate(shape) if axis not in axes]])
            if whole:
                found[whole.lengths] = found.get(whole.lengths, 0) + whole.times
        return tuple((times, key) for key, times in found.items())

    def shape(self, position: int, lengths: Any) -> Numbers:
        """The shape of a value at these lengths, by their numbers. Raises KeyError for one that is not among them."""
        whole, sizes = self.trace.shapes[position][0], self.sizes
        return tuple(
            lengths[sizes[position, axis]] if (position, axis) in sizes else size for axis, size in enumerate(whole)
        )

    def is_used(self, position: int) -> bool:
        """True if a value is a result, or an operator takes it."""
        return position in self.trace.used()

    def axes(self, position: int) -> list[int]:
        """The axes of a value whose sizes differ."""
        rank = len(self.trace.shapes[position][0])
        return [axis for axis in range(rank) if (position, axis) in self.sizes]

    def lengths_of(self, other: Trace) -> Numbers:
        """The sizes that differ, in a trace of this form. Raises OtherForm if it has another."""
        own, differing = self._compare(other)
        if not (own <= self.own and differing.keys() <= self.numbers.keys()):
            raise OtherForm("other constants or numbers differ")
        found: list[int] = [-1] * self.lengths
        for position, ((shape, _), (beside, _)) in enumerate(zip(self.trace.shapes, other.shapes)):
            for axis, (size, now) in enumerate(zip(shape, beside)):
                number = self.sizes.get((position, axis))
                if number is None:
                    if size != now:
                        raise OtherForm("a size differs that was the same")
                elif found[number] not in (-1, now):
                    raise OtherForm("sizes differ that were equal")
                else:
                    found[number] = now
        given = {**self._first, **{leaf: value for leaf, (_, value) in differing.items()}}
        for leaf, number in self.numbers.items():
            if number is not None and found[number] != given[leaf]:
                raise OtherForm("a number differs that was a length")
        return tuple(found)

    def _compare(self, other: Trace) -> tuple[set[int], dict[Leaf, tuple[Any, Any]]]:
        """Returns the constants and the numbers that differ in another trace. Raises OtherForm for more."""
        trace = self.trace
        own: set[int] = set()
        differing: dict[Leaf, tuple[Any, Any]] = {}
        if len(trace.ops) != len(other.ops) or trace.results != other.results or trace.device != other.device:
            raise OtherForm("they have other operators or results")
        if [_look(shaped) for shaped in trace.shapes] != [_look(shaped) for shaped in other.shapes]:
            raise OtherForm("dtypes or numbers of axes differ")
        if len(trace.operands) != len(other.operands):
            raise OtherForm("they have other operands")
        for op, beside in zip(trace.ops, other.ops):
            if _is_other(op, beside):
                raise OtherForm(f"{op.name} in one is {beside.name} in the other")
            for (name, value), (_, its_own) in zip(op.attrs, beside.attrs):
                if name in _CHOOSING and value != its_own:
                    raise OtherForm(f"{name} of {op.name} is {value} in one and {its_own} in the other")
                differing.update(_differing((op.outputs[0], name), value, its_own))
        if len(trace.consts) != len(other.consts):
            raise OtherForm("they have other constants")
        for (position, tensor), its_own in zip(trace.constants(), other.consts):
            if tensor is not its_own and not self._equal(tensor, its_own):
                own.add(position)
        return own, differing


def _look(shaped: tuple[Numbers, str]) -> tuple[int, str]:
    return len(shaped[0]), shaped[1]


def _is_other(op: TraceOp, beside: TraceOp) -> bool:
    return (op.name, op.inputs, op.outputs) != (beside.name, beside.inputs, beside.outputs) or not _may_be(
        op.attrs, beside.attrs
    )


def _may_be(value: Any, beside: Any) -> bool:
    """True if arguments are equal but for numbers."""
    if type(value) is not type(beside):
        return False
    if isinstance(value, tuple):
        return len(value) == len(beside) and all(map(_may_be, value, beside))
    return type(value) in (int, float) or bool(value == beside)


def _differing(leaf: Leaf, value: Any, beside: Any) -> Iterator[tuple[Leaf, tuple[Any, Any]]]:
    """The numbers of an argument that differ in another trace, with both values."""
    if isinstance(value, tuple):
        for place, pair in enumerate(zip(value, beside)):
            yield from _differing((*leaf, place), *pair)
    elif repr(value) != repr(beside):  # -0.0 is not 0.0, nan is nan
        yield leaf, (value, beside)


class Comparison(NamedTuple):
    """A comparison of whole numbers, one of which is computed of sizes: the method of `int`, and what it gave."""

    name: str
    left: int
    right: int
    outcome: bool

    def holds(self, left: int, right: int) -> bool:
        """True if it comes out the same for other numbers."""
        return getattr(left, self.name)(right) is self.outcome


def decisions(trace: Trace) -> tuple[Any, ...]:
    """The outcomes of comparisons of sizes, and the sizes that Python has asked for otherwise."""
    return tuple((item.name, item.outcome) if item.__class__ is Comparison else item for item in trace.asked)


class Bounds:
    """The lengths for which Python decides as it has in traces of these. Raises NotDerivable if traces differ in that.

    What is equal in calls of few lengths, such as a number that is rounded, may differ for others.
    """

    def __init__(self, traces: Sequence[Trace], lengths: Sequence[Numbers]) -> None:
        if not traces or any(len(set(sizes)) < ENOUGH for sizes in zip(*lengths)):
            raise NotDerivable
        if any(decisions(trace) != decisions(traces[0]) for trace in traces):
            raise NotDerivable
        self._asked = [
            (asked[0], line_through([(each.left, each.right) for each in asked], lengths))
            for asked in zip(*[trace.asked for trace in traces])
            if asked[0].__class__ is Comparison
        ]

    def hold(self, known: dict[int, int]) -> bool:
        """True if Python decides alike at these lengths. Raises NotDerivable if one is not known."""
        return all(asked.holds(*at_lengths(rule, known)) for asked, rule in self._asked)


class LengthRule(NamedTuple):
    """A number that follows from a length: so many times it, and some more."""

    length: int
    times: int
    more: int

    def at(self, known: dict[int, int]) -> int:
        """The number for lengths. Raises NotDerivable if its own is not known."""
        if self.length not in known:
            raise NotDerivable
        return self.times * known[self.length] + self.more


def line_through(values: Sequence[Any], lengths: Sequence[Numbers]) -> Any:
    """Arguments of calls of these lengths as one, with lines in place of numbers that differ. Raises NotDerivable."""
    first = values[0]
    if isinstance(first, tuple):
        return tuple(line_through(items, lengths) for items in zip(*values))
    if all(repr(value) == repr(first) for value in values):
        return first
    if type(first) is not int:
        raise NotDerivable
    for number, sizes in enumerate(zip(*lengths)):
        low, high = sizes.index(min(sizes)), sizes.index(max(sizes))
        if sizes[low] == sizes[high]:
            continue
        times, rest = divmod(values[high] - values[low], sizes[high] - sizes[low])
        found = LengthRule(number, times, values[low] - times * sizes[low])
        if not rest and all(found.at({number: size}) == value for size, value in zip(sizes, values)):
            return found
    raise NotDerivable


def at_lengths(rule: Any, known: dict[int, int]) -> Any:
    """Arguments at these lengths. Raises NotDerivable."""
    if rule.__class__ is LengthRule:
        return rule.at(known)
    return tuple(at_lengths(item, known) for item in rule) if rule.__class__ is tuple else rule
