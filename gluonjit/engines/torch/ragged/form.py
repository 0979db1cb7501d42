"""The form that traces have in common which differ in sizes alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import Any

import torch

from gluonjit.program.trace import Operand, Trace, TraceOp

Leaf = tuple[Any, ...]
"""An argument of an operator, or a part of it: the position of the first result, the name, and places in tuples."""


class OtherForm(Exception):
    """Two traces that differ in more than sizes."""


class Form:
    """A trace, and which of its sizes differ in traces like it.

    trace: the first; sizes: the number of a differing size, by position and axis; lengths: how many
    different ones there are (two that are equal in both traces are one); products: those that are two others
    multiplied, as of a view that makes one axis of two; own: the constants that each trace has for itself; numbered:
    the operators with arguments that differ, by their places in the trace; numbers: these arguments, by the position of
    the first result, their names, and the place in a tuple, with the length that each of them is, if it is one; ops:
    the operators, as they are to be written for any length.
    """

    def __init__(self, trace: Trace, other: Trace) -> None:
        """Compares two traces. Raises OtherForm."""
        self.trace = trace
        self.own, differing = self._compare(other)
        self.sizes: dict[tuple[int, int], int] = {}
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
        made = {position for position, *_ in differing}
        self.numbered = {place for place, op in enumerate(trace.ops) if made.intersection(op.outputs)}
        self.ops = [self._expanding(op) for op in trace.ops]
        self.products: dict[int, tuple[int, int]] = {}
        for op in trace.ops:
            self._note_product(op)
        self._grown = self.grown(range(len(trace.shapes)))

    def elements(self, lengths: Sequence[int]) -> int:
        """The number of elements of all values, at these lengths."""
        return sum([times * prod([lengths[length] for length in each]) for times, each in self._grown])

    def grown(self, positions: Iterable[int]) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """The elements of values: so many times the lengths that they are multiplied by."""
        found: dict[tuple[int, ...], int] = {}
        for position in positions:
            shape, axes = self.trace.shapes[position][0], self.axes(position)
            lengths = [self.sizes[position, axis] for axis in axes]
            key = tuple(sorted([each for length in lengths for each in self.products.get(length, (length,))]))
            found[key] = found.get(key, 0) + prod([size for axis, size in enumerate(shape) if axis not in axes])
        return tuple([(times, key) for key, times in found.items()])

    def shape(self, position: int, lengths: Any) -> tuple[int, ...]:
        """The shape of a value at these lengths, by their numbers. Raises KeyError for one that is not among them."""
        whole, sizes = self.trace.shapes[position][0], self.sizes
        return tuple(
            [lengths[sizes[position, axis]] if (position, axis) in sizes else size for axis, size in enumerate(whole)]
        )

    def is_used(self, position: int) -> bool:
        """Tells whether a value is a result, or an operator takes it."""
        return position in self.trace.used()

    def axes(self, position: int) -> list[int]:
        """The axes of a value whose sizes differ."""
        rank = len(self.trace.shapes[position][0])
        return [axis for axis in range(rank) if (position, axis) in self.sizes]

    def lengths_of(self, other: Trace) -> tuple[int, ...]:
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
        for leaf, (_, value) in differing.items():
            number = self.numbers[leaf]
            if number is not None and found[number] != value:
                raise OtherForm("a number differs that was a length")
        return tuple(found)

    def differing(self, op: TraceOp) -> set[str]:
        """The names of the arguments of an operator that differ."""
        return {name for position, name, *_ in self.numbers if position == op.outputs[0]}

    def _expanding(self, op: TraceOp) -> TraceOp:
        """An operator that repeats axes of one entry as an expansion."""
        if op.name != "repeat.default":
            return op
        (given,), (made,) = op.inputs, op.outputs
        before, after = self.trace.shapes[given][0], self.trace.shapes[made][0]
        more = len(after) - len(before)
        for axis, size in enumerate(before):
            alike = size == after[axis + more] and self.sizes.get((given, axis)) == self.sizes.get((made, axis + more))
            if size != 1 and not alike:
                return op
        return op._replace(name="expand.default", attrs=(("self", Operand(0)), ("size", after)))

    def _note_product(self, op: TraceOp) -> None:
        if op.name.split(".")[0] not in ("view", "_unsafe_view", "reshape"):
            return
        for two, one in ((op.inputs[0], op.outputs[0]), (op.outputs[0], op.inputs[0])):
            shapes = self.trace.shapes[two][0], self.trace.shapes[one][0]
            if self.axes(two) == [0, 1] and self.axes(one) == [0] and shapes[0][2:] == shapes[1][1:]:
                self.products[self.sizes[one, 0]] = self.sizes[two, 0], self.sizes[two, 1]

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
                differing.update(_differing((op.outputs[0], name), value, its_own))
        if len(trace.consts) != len(other.consts):
            raise OtherForm("they have other constants")
        for (position, tensor), its_own in zip(trace.constants(), other.consts):
            if tensor is its_own:
                continue
            if tensor.requires_grad or its_own.requires_grad:
                raise OtherForm("they have other weights")
            if tensor.shape != its_own.shape or not torch.equal(tensor, its_own):
                own.add(position)
        return own, differing


def _look(shaped: tuple[tuple[int, ...], str]) -> tuple[int, str]:
    return len(shaped[0]), shaped[1]


def _is_other(op: TraceOp, beside: TraceOp) -> bool:
    return (op.name, op.inputs, op.outputs) != (beside.name, beside.inputs, beside.outputs) or not _may_be(
        op.attrs, beside.attrs
    )


def _may_be(value: Any, beside: Any) -> bool:
    """Tells whether arguments are equal but for numbers."""
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
