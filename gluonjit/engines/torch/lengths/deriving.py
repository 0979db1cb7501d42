"""Traces for new lengths, derived from traced calls without another run of the program.

A program that has decided the same by sizes in several traces, and read the same, calls the same operators at any
length by which it decides so. What differs among the traced calls has to follow: a size that no operand has from the
operator that makes it, which runs on zeros, a number from a length by a line through those of the traced calls, and a
constant as the beginning of the longest one. Operators on the rows of all nodes fit any length; the others run on
examples when a member's programs are built, which finds a size that does not follow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from gluonjit.engines.torch.arrays import device_named, dtype_named
from gluonjit.engines.torch.operators.table import row_of
from gluonjit.engines.torch.program import run_operator
from gluonjit.graph import Spec
from gluonjit.program.axes.along import Section
from gluonjit.program.axes.row import By
from gluonjit.program.axes.samples import Last, Samples
from gluonjit.program.axes.shapes import Join
from gluonjit.program.lengths.form import Form
from gluonjit.program.sizes import Bounds, NotDerivable, at_lengths, decisions, line_through
from gluonjit.program.trace import Trace, TraceOp

_CUTS = (Section, Join, Samples, Last, By)
"""Rows of operators whose results may have any number of rows."""
_OF_SO_MANY = ("topk.default", "kthvalue.default")
"""Operators that refuse fewer rows than they are asked for."""


class SizedCall(NamedTuple):
    """A traced call: its trace and the sizes that differ, and what it has read of Python's state.

    structure: that of what it returns, with its constants.
    """

    trace: Trace
    lengths: tuple[int, ...]
    facts: tuple[Any, ...]
    kept: tuple[Any, ...]
    structure: Any

    @property
    def decisions(self) -> tuple[Any, ...]:
        """The outcomes of comparisons, the sizes that were asked for otherwise, and what it returns."""
        return *decisions(self.trace), repr(self.structure)


def _places(call: SizedCall) -> list[Any]:
    return [(fact.way, id(fact.container), fact.key, id(fact.found)) for fact in call.facts]


class Recipe:
    """The rules by which calls of one form differ, found in those that were traced. Raises NotDerivable.

    facts, kept: what the program has read of Python's state in each of them; structure: that of what it returns.
    """

    def __init__(self, form: Form, calls: Sequence[SizedCall]) -> None:
        lengths = [call.lengths for call in calls]
        self._bounds = Bounds([call.trace for call in calls], lengths)
        if any(call.decisions != calls[0].decisions or _places(call) != _places(calls[0]) for call in calls):
            raise NotDerivable
        self.facts, self.kept, self.structure = calls[0].facts, calls[0].kept, calls[0].structure
        self._form = form
        trace = form.trace
        self._lengths: dict[int, tuple[int, int]] = {}  # of operands, where they are found
        self._made: dict[int, tuple[int, int, int]] = {}  # others: which result of which operator has them, and where
        makers = {position: (number, k) for number, op in enumerate(trace.ops) for k, position in enumerate(op.outputs)}
        for (position, axis), length in form.sizes.items():
            if position < len(trace.operands):
                self._lengths.setdefault(length, (position, axis))
            elif position in makers:
                self._made.setdefault(length, (*makers[position], axis))
        self._numbers = {
            number: line_through([call.trace.ops[number].attrs for call in calls], lengths) for number in form.numbered
        }
        self._checked = [number for number, op in enumerate(trace.ops) if self._may_differ(number, op)]
        self._consts = dict(trace.constants())
        self._begun: dict[tuple[int, ...], Any] = {}  # beginnings of those that each call has for itself
        for number, position in enumerate(self._consts):
            if position in form.own:
                self._consts[position] = _longest(form, position, [call.trace.consts[number] for call in calls])

    def _may_differ(self, number: int, op: TraceOp) -> bool:
        """Tells whether an operator may give other sizes than its results have in the form.

        Two that are equal in the form are one length: a slice may keep all rows of short sentences only.
        """
        form = self._form
        given, made = (
            {form.sizes[position, axis] for position in positions for axis in form.axes(position)}
            for positions in (op.inputs, op.outputs)
        )
        if (isinstance(row_of(op.name), _CUTS) or op.name in _OF_SO_MANY) and (made or given):
            return True
        return bool(made) and (number in form.numbered or not made <= given)

    def trace(self, operands: Sequence[Spec]) -> tuple[Trace, tuple[int, ...]]:
        """The trace of a call with these operands, and its lengths. Raises NotDerivable."""
        form = self._form
        known = {length: operands[position].shape[axis] for length, (position, axis) in self._lengths.items()}
        for length, (number, output, axis) in self._made.items():
            if length in known:
                continue
            if length in form.products:
                known[length] = form.products[length].at(defaultdict(int, known))
            else:
                known[length] = self._run(number, known)[output].shape[axis]
        if min(known.values()) < 2 or not self._bounds.hold(known):
            raise NotDerivable
        for number in self._checked:
            results = self._run(number, known)
            for position, result in zip(form.trace.ops[number].outputs, results):
                if tuple(result.shape) != self._shape(position, known):
                    raise NotDerivable
        sized = {position for position, _ in form.sizes}
        shapes = [
            (self._shape(position, known), shaped[1]) if position in sized else shaped
            for position, shaped in enumerate(form.trace.shapes)
        ]
        if any(shaped[0] != spec.shape for shaped, spec in zip(shapes, operands)):
            raise NotDerivable
        ops = list(form.trace.ops)
        for number in self._numbers:
            ops[number] = ops[number]._replace(attrs=self._attrs(number, known))
        found = replace(
            form.trace,
            operands=tuple(operands),
            consts=tuple([self._constant(position, known) for position in self._consts]),
            ops=tuple(ops),
            shapes=tuple(shapes),
            built={},
        )
        return found, tuple([known.get(length, 0) for length in range(form.lengths)])

    def _shape(self, position: int, known: dict[int, int]) -> tuple[int, ...]:
        try:
            return self._form.shape(position, known)
        except KeyError:
            raise NotDerivable from None

    def _attrs(self, number: int, known: dict[int, int]) -> Any:
        rule = self._numbers.get(number)
        return self._form.trace.ops[number].attrs if rule is None else at_lengths(rule, known)

    def _constant(self, position: int, known: dict[int, int]) -> Any:
        """The constant of a call; of one that each call has for itself the beginning."""
        longest = self._consts[position]
        if position not in self._form.own:
            return longest
        shape = self._shape(position, known)
        if any(size > most for size, most in zip(shape, longest.shape)):
            raise NotDerivable
        place = (position, *shape)
        found = self._begun.get(place)
        if found is None:
            found = self._begun[place] = longest[tuple(map(slice, shape))].contiguous()
        return found

    def _run(self, number: int, known: dict[int, int]) -> Sequence[Any]:
        """The results of an operator on zeros."""
        op, shapes = self._form.trace.ops[number], self._form.trace.shapes
        device = device_named(self._form.trace.device)
        inputs = [
            self._constant(position, known)
            if position in self._consts
            else torch.zeros(self._shape(position, known), dtype=dtype_named(shapes[position][1]), device=device)
            for position in op.inputs
        ]
        try:
            return run_operator(op._replace(attrs=self._attrs(number, known)), inputs)
        except (RuntimeError, IndexError, ValueError) as error:
            raise NotDerivable from error  # the program itself will say what is wrong


def _longest(form: Form, position: int, given: Sequence[Any]) -> Any:
    """The longest of constants, of which all others are the beginning."""
    longest = max(given, key=lambda tensor: tensor.numel())
    parts = [(longest[tuple(map(slice, tensor.shape))], tensor) for tensor in given]
    if not form.axes(position) or not all(
        part.shape == whole.shape and torch.equal(part, whole) for part, whole in parts
    ):
        raise NotDerivable
    return longest
