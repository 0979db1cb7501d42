"""Traces for new lengths, derived from traced calls without another run of the program.

A program that has decided the same by sizes in several traces, and read the same, calls the same operators at any
length by which it decides so. What differs among the traced calls has to follow: a size that no operand has from the
operator that makes it, which runs on zeros, a number from a length by a line through those of the traced calls, and a
constant as the beginning of the longest one. Operators on the rows of all nodes fit any length; the others run on
examples when a member's programs are built, which finds a size that does not follow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

from gluonjit.graph import Spec, Work
from gluonjit.program.axes.along import Section
from gluonjit.program.axes.row import By, Row
from gluonjit.program.axes.samples import Last, Samples
from gluonjit.program.axes.shapes import Join
from gluonjit.program.axes.values import Shape
from gluonjit.program.lengths.form import Form
from gluonjit.program.lengths.stages import LengthEngine
from gluonjit.program.sizes import Bounds, NotDerivable, at_lengths, decisions, line_through
from gluonjit.program.trace import Trace, TraceOp
from gluonjit.rows.program import RowProgram

_CUTS = (Section, Join, Samples, Last, By)
"""Rows of operators whose results may have any number of rows."""
_OF_SO_MANY = ("topk", "kthvalue")
"""Operators that refuse fewer rows than they are asked for."""


class JoiningEngine(LengthEngine):
    """The part of an engine in joining calls of several lengths.

    * `quiet()`: returns a region for `with` in which nothing is captured or recorded.
    * `row_of(name)`: the row of an operator.
    * `begin(array, shape)`: the beginning of a constant along all axes.
    * `fixed(call)`: the specs that operands of a call have to keep: None for one whose rows may lie otherwise.
    * `equal(one, other)`: true if constants have the same numbers. Raises OtherForm if they learn.
    * `member(like, stages, trace, lengths)`: the program of nodes of these lengths, and of all others, for a kind
      like this. Raises NotBatchable.
    * `row_program(kind)`: the program of the nodes of a kind in C. Raises NotFusable.
    * `work_of(trace, operators)`: the work of one node.
    * `current(kind)`: true if a call of its signature would still give a kind: its weights are what they were.
    """

    quiet: Callable[..., Any]
    row_of: Callable[..., Row | None]
    begin: Callable[..., Any]
    fixed: Callable[..., Sequence[Spec | None]]
    equal: Callable[..., bool]
    member: Callable[..., Any]
    row_program: Callable[..., RowProgram]
    work_of: Callable[..., Work]
    current: Callable[..., bool]


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

    def __init__(self, engine: JoiningEngine, form: Form, calls: Sequence[SizedCall]) -> None:
        self._engine = engine
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
                self._consts[position] = self._longest(position, [call.trace.consts[number] for call in calls])

    def _may_differ(self, number: int, op: TraceOp) -> bool:
        """True if an operator may give other sizes than its results have in the form.

        Two that are equal in the form are one length: a slice may keep all rows of short sentences only.
        """
        form = self._form
        given, made = (
            {form.sizes[position, axis] for position in positions for axis in form.axes(position)}
            for positions in (op.inputs, op.outputs)
        )
        cuts = isinstance(self._engine.row_of(op.name), _CUTS) or op.name.partition(".")[0] in _OF_SO_MANY
        if cuts and (made or given):
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
                known[length] = self._shapes(number, known)[output][axis]
        if min(known.values()) < 2 or not self._bounds.hold(known):
            raise NotDerivable
        for number in self._checked:
            shapes = self._shapes(number, known)
            if any(shape != self._shape(each, known) for each, shape in zip(form.trace.ops[number].outputs, shapes)):
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
            consts=tuple(self._constant(position, known) for position in self._consts),
            ops=tuple(ops),
            shapes=tuple(shapes),
        )
        return found, tuple(known.get(length, 0) for length in range(form.lengths))

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
            found = self._begun[place] = self._engine.begin(longest, shape)
        return found

    def _shapes(self, number: int, known: dict[int, int]) -> Sequence[Shape]:
        """The shapes of the results of an operator."""
        op, trace, engine = self._form.trace.ops[number], self._form.trace, self._engine
        inputs = [
            self._constant(position, known)
            if position in self._consts
            else engine.zeros(self._shape(position, known), trace.shapes[position][1], trace.device)
            for position in op.inputs
        ]
        try:
            return engine.shapes(op._replace(attrs=self._attrs(number, known)), inputs)
        except (RuntimeError, IndexError, ValueError) as error:
            raise NotDerivable from error  # the program itself will say what is wrong

    def _longest(self, position: int, given: Sequence[Any]) -> Any:
        """The longest of constants, of which all others are the beginning."""
        longest = max(given, key=lambda array: prod(array.shape))
        parts = [(self._engine.begin(longest, tuple(array.shape)), array) for array in given]
        if not self._form.axes(position) or not all(self._engine.equal(*both) for both in parts):
            raise NotDerivable
        return longest
