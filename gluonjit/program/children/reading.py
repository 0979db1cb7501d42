"""Reads a trace child by child: what is done for each child in the same way is one operator on a child's values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, NamedTuple, Union

from gluonjit.program.axes.along import Section
from gluonjit.program.axes.row import RATIO, SUM, Application, Row
from gluonjit.program.axes.shapes import Expand, Join
from gluonjit.program.axes.values import ROWS, NotBatchable, Operand, Shaped, Values
from gluonjit.program.children import table as core
from gluonjit.program.children.table import OF_ONE, Read, Roles, ValueTable
from gluonjit.program.trace import Attrs, Trace, TraceOp

_JOINS = "it joins the values of the children into one array, and does not sum it"


class Unlike(NotBatchable):
    """A program cannot be read child by child; the text says why."""


class Operators(NamedTuple):
    """An engine's operators.

    call_of: the row of one, and its call of some values; lies: how its results lie for values that lie so, which raises
    NotBatchable if its row does not say.
    """

    call_of: Callable[[TraceOp, Sequence[Values], Sequence[Shaped]], tuple[Row | None, Application]]
    lies: Callable[[TraceOp, Sequence[Values], Sequence[Shaped]], list[Values]]


class Numbered(NamedTuple):
    """A value of one child, or where that is None of the node."""

    child: int | None
    number: int

    @property
    def parts(self) -> tuple[Numbered, ...]:
        """The terms that it adds to a sum."""
        return (self,)


class Listed(NamedTuple):
    """Values of all children one after the other along axis 0, where each has one entry."""

    parts: tuple[Numbered, ...]


class Terms(NamedTuple):
    """A sum; it becomes a value when something other than an addition uses it."""

    parts: tuple[Numbered, ...]


Known = Union[Numbered, Listed, Terms]


def read(table: ValueTable, operators: Operators, trace: Trace, roles: Roles) -> Read:
    """Reads a trace into a table. Raises Unlike."""
    return _Reading(table, operators, trace, roles).read()


class _Reading:
    def __init__(self, table: ValueTable, operators: Operators, trace: Trace, roles: Roles) -> None:
        self.table, self.operators, self.trace = table, operators, trace
        self.count = roles.count(trace.operands)
        self.children: Sequence[Any] = range(self.count) if self.count > 1 else (None,)
        shaped = [(spec.shape, spec.dtype) for spec in roles.specs(trace.operands)]
        self.leaves = tuple(table.leaf(number, each) for number, each in enumerate(shaped))
        first = len(shaped) - len(roles.roles)
        self.known: dict[int, Known] = {}
        for role, number in zip(roles.roles, self.leaves[first:]):
            parts = tuple(Numbered(child, number) for child in self.children)
            self.known.update(zip(role, [Listed(parts)] if roles.of_rows else parts))
        own = [position for position in range(len(trace.operands)) if position not in self.known]
        self.known.update((position, Numbered(None, number)) for position, number in zip(own, self.leaves))
        for position, array in trace.constants():
            self.known[position] = Numbered(None, table.constant(array, trace.shapes[position]))

    def read(self) -> Read:
        """The numbers of operands and results."""
        for op in self.trace.ops:
            self.known.update(zip(op.outputs, self.results(op)))
        results = [self.value(position) for position in self.trace.results]
        if any(part.child is not None for part in results):
            raise Unlike("a result belongs to one child")
        return Read(self.leaves, tuple(part.number for part in results))

    def results(self, op: TraceOp) -> Sequence[Known]:
        """The results of an operator: a longer sum, values side by side, what is done to each of those, or values."""
        given = [self.known[position] for position in op.inputs]
        outs = [self.trace.shapes[position] for position in op.outputs]
        of_rows = any(isinstance(item, Listed) for item in given)
        vals = [self._lying(k, self.trace.shapes[at], item) for k, (at, item) in enumerate(zip(op.inputs, given))]
        row, call = self.operators.call_of(op, vals, outs) if given else (None, None)
        if row is None or call is None:
            return self.apply(op.name, op.attrs, [self.value(position) for position in op.inputs], outs)
        if row.refuse is not None and row.refuse(call):
            row = _PLAIN
        if not of_rows and _adds(row, call, [self.trace.shapes[position] for position in op.inputs], outs):
            return [Terms(tuple(term for item in given for term in item.parts))]
        found = self.copied(op, row, call) or (self.pooled if of_rows else self.joined)(op, row, call)
        if found is not None:
            return found
        if not of_rows:
            return self.made(op, row, call, [self.value(position) for position in op.inputs], outs)
        if any(out[:1] != (self.count,) for out, _ in outs):
            raise Unlike(_JOINS)
        if not self._leaves_rows(op, row, call):
            raise Unlike(f"{op.name} joins the values of the children into one array, and does not treat rows alike")
        rows = [((1, *out[1:]), dtype) for out, dtype in outs]
        each = [self.made(op, row, call, inputs, rows) for inputs in self.each(op)]
        return [Listed(tuple(parts)) for parts in zip(*each)]

    def joined(self, op: TraceOp, row: Row, call: Application) -> list[Known] | None:
        """Values of all children side by side; None for other operators."""
        (shape, dtype), shapes = call.outs[0], {val.shape for val in call.vals}
        if not isinstance(row, Join) or len(call.vals) != self.count or len(shapes) > 1 or row.axis(call):
            return None
        parts = [self.value(position) for position in op.inputs]
        if {part.child for part in parts} != set(self.children) or not (row.new or call.vals[0].shape[0] == 1):
            return None
        return [Listed(tuple(self.view(part, ((1, *shape[1:]), dtype)) for part in parts))]

    def copied(self, op: TraceOp, row: Row, call: Application) -> list[Known] | None:
        """A value of the node once for each child, where others have rows of children; None for other operators."""
        (shape, dtype), val = call.outs[0], call.vals[0]
        before = (*(1,) * (len(shape) - val.rank), *val.shape)
        if val.packed or not row.copies or before != (1, *shape[1:]) or shape[0] != self.count:
            return None
        if not any(isinstance(item, Listed) for item in self.known.values()):
            return None
        return [Listed((self.view(self.value(op.inputs[0]), (before, dtype)),) * self.count)]

    def pooled(self, op: TraceOp, row: Row, call: Application) -> list[Known] | None:
        """A value of the rows of all children, or one of those; None for other operators."""
        val, outs = call.vals[0], call.outs
        if val.packed and isinstance(row, Section) and prod(outs[0][0]) * self.count == prod(val.shape):
            if row.axes(call) == (0,):
                parts = self.known[op.inputs[0]].parts
                chosen = parts if len(outs) == self.count else [parts[row.first(call) or 0]]
                return [self.view(part, outs[0]) for part in chosen]
        pooling = row.pooling(call)
        if pooling is None:
            return None
        changed = op._replace(attrs=tuple((key, pooling.changes.get(key, value)) for key, value in op.attrs))
        each = [self.made(changed, row, call, inputs, pooling.outs) for inputs in self.each(op)]
        found: list[Known] = []
        for how, parts, shaped in zip(pooling.hows, zip(*each), pooling.outs):
            own = tuple(Numbered(child, self.of(child, part)) for child, part in zip(self.children, parts))
            summed = how in (SUM, RATIO)
            found.append(Terms(own) if summed else self.gathered(how, own, shaped) if how else Listed(own))
        if RATIO in pooling.hows:  # the sum of all by that of the other result
            both = [self.total(item.parts, pooling.outs[0]) for item in found]
            found[0] = self.apply(core.RATIO, (*OF_ONE, ("other", Operand(1))), both, pooling.outs[:1])[0]
        return found

    def each(self, op: TraceOp) -> Iterator[tuple[Numbered, ...]]:
        """The operands of an operator for each child."""
        given = [(position, self.known[position]) for position in op.inputs]
        return zip(*[item.parts if isinstance(item, Listed) else (self.value(k),) * self.count for k, item in given])

    def made(
        self, op: TraceOp, row: Row, call: Application, inputs: Sequence[Numbered], outs: Sequence[Shaped]
    ) -> list[Numbered]:
        """The results of an operator on values that belong to one child, or to the node."""
        shapes = [self.table.shapes[part.number] for part in inputs]
        if _adds(row, call, shapes, outs):
            return [self.total(inputs, outs[0])]
        if _in_order(row, shapes[0], outs):
            return [self.view(inputs[0], outs[0])]
        if isinstance(row, Expand) and len(inputs) == 1:
            return self.apply(core.WIDEN, OF_ONE, inputs, outs)
        return self.apply(op.name, op.attrs, inputs, outs)

    def apply(self, name: str, attrs: Attrs, inputs: Sequence[Any], outs: Sequence[Shaped]) -> list[Numbered]:
        """The results of an operator on values that belong to one child, or to the node."""
        owners = {part.child for part in inputs} - {None}
        if len(owners) > 1:
            raise Unlike(f"{name} takes the values of several children")
        child = owners.pop() if owners else None
        numbers = self.table.op(name, attrs, [self.of(child, part) for part in inputs], outs)
        return [Numbered(child, number) for number in numbers]

    def view(self, part: Numbered, shaped: Shaped) -> Numbered:
        """The same numbers in another shape."""
        return Numbered(part.child, self.table.view(part.number, shaped))

    def value(self, position: int) -> Numbered:
        """A value that is no sum, and no rows but those of an only child."""
        found = self.known[position]
        if isinstance(found, Listed):
            if self.count > 1:
                raise Unlike(_JOINS)
            return found.parts[0]
        return self.total(found.parts, self.trace.shapes[position]) if isinstance(found, Terms) else found

    def total(self, parts: Sequence[Numbered], shaped: Shaped) -> Numbered:
        """The sum of terms; those of several children must be those of all."""
        owners = {part.child for part in parts} - {None}
        if len(owners) > 1:
            own = [part for part in parts if part.child is None]
            parts = [*own, self.gathered(SUM, [part for part in parts if part.child is not None], shaped)]
            owners = set()
        child = owners.pop() if owners else None
        return Numbered(child, self.table.total([self.of(child, part) for part in parts], shaped))

    def gathered(self, how: str, parts: Sequence[Numbered], shaped: Shaped) -> Numbered:
        """A node's value of those of all its children, each of which has as many and the same."""
        each = [sorted(part.number for part in parts if part.child == child) for child in self.children]
        if any(numbers != each[0] for numbers in each):
            raise Unlike("it does not do the same for every child")
        number = self.table.total(each[0], shaped)
        if self.count > 1:
            (number,) = self.table.op(core.GATHER, (*OF_ONE, ("how", how)), [number], [shaped])
        return Numbered(None, number)

    def of(self, child: int | None, part: Numbered) -> int:
        """The number of a value as one of the child, if needed; constants belong to both."""
        if child is None or part.child is not None or part.number in self.table.consts:
            return part.number
        return self.table.op(core.SPREAD, OF_ONE, [part.number], [self.table.shapes[part.number]])[0]

    def _leaves_rows(self, op: TraceOp, row: Row, call: Application) -> bool:
        """True if an operator's row says that it leaves rows of any number as they are."""
        val = call.vals[0]
        if val.packed and _in_order(row, (val.shape, val.dtype), call.outs):
            return True
        if val.packed and isinstance(row, Expand) and len(call.vals) == 1 and len(call.shape) == val.rank:
            return True
        try:
            return all(val.lead == ROWS for val in self.operators.lies(op, call.vals, call.outs))
        except NotBatchable:
            return False

    def _lying(self, slot: int, shaped: Shaped, item: Known) -> Values:
        shape, dtype = shaped
        if isinstance(item, Listed):
            return Values(slot, shape, dtype, ROWS, shape[1:])
        return Values(slot, shape, dtype, None, shape)


_PLAIN = Row()


def _in_order(row: Row, first: Shaped, outs: Sequence[Shaped]) -> bool:
    """True if the only result has the entries of the first operand in their order."""
    (shape, dtype), *others = outs
    return row.ordered and not others and dtype == first[1] and prod(shape) == prod(first[0])


def _adds(row: Row, call: Application, shapes: Sequence[Shaped], outs: Sequence[Shaped]) -> bool:
    """True if a call adds its operands, of these shapes, and does nothing else."""
    floats = outs[0][1].startswith(("float", "bfloat"))
    return all(shaped == outs[0] for shaped in shapes) and (len(shapes) == 1 or floats) and row.adds(call)
