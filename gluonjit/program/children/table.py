"""Equal values of calls over children, and how they are written down as instructions for all nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gluonjit.graph.values import Spec
from gluonjit.program.axes.row import Application, Row, operands
from gluonjit.program.axes.shapes import Expand, Reshape
from gluonjit.program.axes.values import Operand, Shaped, Vals, Values
from gluonjit.program.axes.writer import Writer
from gluonjit.program.trace import Attrs, Trace, TraceBuilder, TraceOp

Numbers = tuple[int, ...]
"""Numbers of values, or of operands."""
SPREAD, GATHER, TOTAL, RATIO = "spread out", "gather up", "add up", "divide up"
"""A node's value for each child; one value for a node of those of its children; sums of several values; quotients."""
VIEW, WIDEN = "view as", "widen to"
"""The same numbers in another shape, and longer axes. None of these operators is an engine's."""
OF_ONE: Attrs = (("self", Operand(0)),)


class Roles(NamedTuple):
    """The operands of each role, child by child; with `of_rows` a role has one operand, with a row for each child."""

    roles: tuple[Numbers, ...]
    of_rows: bool = False

    def count(self, specs: Sequence[Spec]) -> int:
        """The number of children."""
        return specs[self.roles[0][0]].rows if self.of_rows else len(self.roles[0])

    def specs(self, specs: Sequence[Spec]) -> list[Spec]:
        """The operands of a node, then of each role that of one child."""
        positions = {position for role in self.roles for position in role}
        own = [spec for position, spec in enumerate(specs) if position not in positions]
        children = [specs[role[0]] for role in self.roles]
        return own + [spec.with_rows(1) if self.of_rows else spec for spec in children]


class Read(NamedTuple):
    """A trace in a table: the numbers of its operands, as `Roles.specs` has them, and of its results."""

    operands: Numbers
    results: Numbers


class ForChildren(NamedTuple):
    """A program for any number of children.

    trace: its operands are the node's and, from number `first` on, those of one child; call: what it was made from.
    """

    trace: Trace
    first: int
    call: Trace

    @property
    def roles(self) -> tuple[Numbers, ...]:
        """The operands of a child."""
        return tuple((position,) for position in range(self.first, len(self.trace.operands)))

    def owned(self) -> set[int]:
        """The positions of values that each child has."""
        found = {position for (position,) in self.roles}
        for op in self.trace.ops:
            if op.name == SPREAD or (op.name != GATHER and not found.isdisjoint(op.inputs)):
                found.update(op.outputs)
        return found


class ValueTable:
    """Operators on numbered values: equal ones are one. `shapes` has those of the values."""

    def __init__(self) -> None:
        self.shapes: list[Shaped] = []
        self.consts: dict[int, Any] = {}
        self._ops: list[TraceOp] = []
        self._known: dict[Any, Numbers] = {}
        self._terms: dict[int, Numbers] = {}
        self._views: dict[int, int] = {}

    def leaf(self, key: Any, shaped: Shaped) -> int:
        """An operand, by what it is to the call."""
        return self._numbered((key, shaped), [shaped])[0]

    def constant(self, array: Any, shaped: Shaped) -> int:
        """Constants are the same where they are the same array."""
        number = self.leaf(("constant", id(array)), shaped)
        self.consts[number] = array
        return number

    def op(self, name: str, attrs: Attrs, inputs: Sequence[int], outputs: Sequence[Shaped]) -> Numbers:
        """The results of an operator."""
        count, key = len(self.shapes), (name, attrs, *inputs)
        found = self._numbered((key, *outputs), outputs)
        if len(self.shapes) > count:
            self._ops.append(TraceOp(name, attrs, tuple(inputs), found))
        return found

    def total(self, numbers: Sequence[int], shaped: Shaped) -> int:
        """The sum of terms, whose order does not matter, nor whether some were added up before."""
        terms = tuple(sorted(term for number in numbers for term in self._terms.get(number, (number,))))
        if len(terms) == 1:
            return terms[0]
        (found,) = self.op(TOTAL, (("terms", operands(len(terms))),), terms, [shaped])
        self._terms[found] = terms
        return found

    def view(self, number: int, shaped: Shaped) -> int:
        """The same numbers in another shape."""
        source = self._views.get(number, number)
        if self.shapes[source] == shaped:
            return source
        (found,) = self.op(VIEW, OF_ONE, [source], [shaped])
        self._views[found] = source
        return found

    def of_one_child(self, read: Read) -> Read:
        """A program for a node with one child, whose values are then the node's."""
        place: dict[int, int] = {}
        for op in self._needed(read.results):
            inputs = [place.get(number, number) for number in op.inputs]
            outputs = [self.shapes[number] for number in op.outputs]
            if op.name in (SPREAD, GATHER):
                made: Sequence[int] = inputs
            elif op.name == TOTAL:
                made = [self.total(inputs, outputs[0])]
            elif op.name == VIEW:
                made = [self.view(inputs[0], outputs[0])]
            else:
                made = self.op(op.name, op.attrs, inputs, outputs)
            place.update(zip(op.outputs, made))
        return read._replace(results=tuple(place.get(number, number) for number in read.results))

    def program(self, read: Read, call: Trace, roles: Roles) -> ForChildren:
        """The program that a trace has been read as."""
        specs = roles.specs(call.operands)
        builder = TraceBuilder(specs, call.device, call.mode)
        place = dict(zip(read.operands, range(len(specs))))
        for position, array in call.constants():
            shaped = call.shapes[position]
            place[self.constant(array, shaped)] = builder.constant(array, shaped)
        for op in self._needed(read.results):
            outputs = [self.shapes[number] for number in op.outputs]
            made = builder.op(op.name, op.attrs, [place[number] for number in op.inputs], outputs)
            place.update(zip(op.outputs, made))
        trace = builder.finish([place[number] for number in read.results])
        return ForChildren(trace, len(specs) - len(roles.roles), call)

    def _numbered(self, key: Any, outputs: Sequence[Shaped]) -> Numbers:
        if key not in self._known:
            self._known[key] = tuple(range(len(self.shapes), len(self.shapes) + len(outputs)))
            self.shapes.extend(outputs)
        return self._known[key]

    def _needed(self, results: Sequence[int]) -> list[TraceOp]:
        needed, found = set(results), []
        for op in reversed(self._ops):
            if not needed.isdisjoint(op.outputs):
                needed.update(op.inputs)
                found.append(op)
        return found[::-1]


def write(op: TraceOp, vals: Sequence[Values], outs: Sequence[Shaped], writer: Writer) -> Vals:
    """The results of an operator of `RULES`. Raises NotBatchable."""
    return RULES[op.name](Application(op.name, dict(op.attrs), vals, outs, writer))


def _spread(call: Application) -> Vals:
    """A node's value for each of its children."""
    (val,), writer = call.vals, call.writer
    if val.shared:
        return [val]
    one = writer.whole(val)
    return [one._replace(slot=writer.emit("pick", [one, *writer.owners]))]


def _gathered(call: Application) -> Vals:
    """One value for each node of those of its children."""
    (val,), writer = call.vals, call.writer
    if val.shared:
        raise call.refuse("a value that is the same for all children")
    return [writer.gathered(writer.whole(val), call.attrs["how"])]


def _total(call: Application) -> Vals:
    """Values of one shape added up, those that are the same for all nodes once."""
    writer, mine, shared = call.writer, call.mine, [val for val in call.vals if val.shared]
    if mine and shared:
        mine = [writer.stack(val) for val in mine]
    sums = [
        _sum(writer, [writer.form(val, vals[0].lead, vals[0].rest) for val in vals]) for vals in (mine, shared) if vals
    ]
    return [sums[0] if len(sums) == 1 else sums[0]._replace(slot=writer.emit("add", sums))]


def _sum(writer: Writer, vals: Sequence[Values]) -> Values:
    return vals[0] if len(vals) == 1 else vals[0]._replace(slot=writer.emit("total", vals))


def _ratio(call: Application) -> Vals:
    vals = call.stacked(*call.vals)
    return [vals[0]._replace(slot=call.writer.emit("divide", vals))]


VIEWS: dict[str, Row] = {VIEW: Reshape(), WIDEN: Expand(lambda call: True)}
RULES: dict[str, Callable[[Application], Vals]] = {
    SPREAD: _spread,
    GATHER: _gathered,
    TOTAL: _total,
    RATIO: _ratio,
    **{name: row.lift for name, row in VIEWS.items()},
}
"""By operator: what writes it down."""
