"""A program in which a value belongs to a node or to a child, made from the trace of a call with several children."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gluonjit.graph.kinds import operand_groups
from gluonjit.graph.values import Spec
from gluonjit.hybrid.capture.variadic.reading import Dialect, Listed, Unlike, read
from gluonjit.hybrid.capture.variadic.roles import Roles
from gluonjit.program.trace import ADD_UP as ADD_UP
from gluonjit.program.trace import GATHER_UP as GATHER_UP
from gluonjit.program.trace import OF_CHILD, OF_NODE, Attrs, Shaped, Trace, TraceOp
from gluonjit.program.trace import SPREAD as SPREAD

NODE, CHILD = OF_NODE, OF_CHILD


class ProgramInput(NamedTuple):
    """The beginning of a program: operand `number` of a node, or of each child in a `role`, or a constant."""

    number: int
    role: int | None = None
    constant: Any = None


@dataclass
class Variadic:
    """Values are numbered: those of `sources` first, then those of `ops`; `spaces` says whom each belongs to.

    Three operators are no engine's: SPREAD gives a node's value to its children, GATHER_UP sums the children's for
    their node, ADD_UP adds values that belong alike.
    """

    sources: list[ProgramInput] = field(default_factory=list)
    ops: list[TraceOp] = field(default_factory=list)
    spaces: list[str] = field(default_factory=list)
    shapes: list[Shaped] = field(default_factory=list)
    results: list[int] = field(default_factory=list)

    def new(self, space: str, shaped: Shaped) -> int:
        """The number of one more value."""
        self.spaces.append(space)
        self.shapes.append(shaped)
        return len(self.spaces) - 1

    def operands(self, specs: Sequence[Spec], roles: Roles) -> list[tuple[int, Spec]]:
        """The values of a call's operands, with their specs, in the order in which these are gathered."""
        shared = [position for position in range(len(specs)) if position not in roles.positions()]
        numbers = {
            (source.role, source.role is None and source.number): number
            for number, source in enumerate(self.sources)
            if source.constant is None
        }
        keys: dict[Any, Any] = {(position,): (None, number) for number, position in enumerate(shared)}
        keys.update({role: (number, False) for number, role in enumerate(roles.roles)})
        listed = [role for group in operand_groups(specs, False, roles.roles) for role in group]
        return [(numbers[keys[role]], specs[role[0]]) for role in listed]

    def constants(self) -> list[int]:
        """The values that are constants."""
        return [number for number, source in enumerate(self.sources) if source.constant is not None]


class _Value(NamedTuple):
    """A value while it is read: of one child, or where that is None of the node. Other children's have no numbers."""

    child: int | None
    number: int | None


class _VariadicMaker:
    """A domain that makes a variadic program from the work for the node and for its first child."""

    def __init__(self, trace: Trace, children: Roles) -> None:
        self.variadic = Variadic()
        self._operands: dict[int, _Value | Listed] = {}
        self._spread: dict[int, int] = {}
        count = children.count(trace.operands)
        owner = {
            position: (role, child)
            for role, listed in enumerate(children.roles)
            for child, position in enumerate(listed)
        }
        shared = 0
        for position, spec in enumerate(trace.operands):
            role, child = owner.get(position, (None, None))
            if role is None:
                shaped = (spec.shape, spec.dtype)
                self._operands[position] = self._source(ProgramInput(shared), NODE, shaped, None)
                shared += 1
            elif child == 0:
                first = self._source(ProgramInput(position, role), CHILD, children.shaped(spec), 0)
                others = [_Value(child, None) for child in range(1, count)]
                self._operands[position] = Listed((first, *others)) if children.of_rows else first
            else:
                self._operands[position] = _Value(child, None)
        self._constants = {
            id(array): self._source(ProgramInput(position, None, array), NODE, trace.shapes[position], None)
            for position, array in trace.constants()
        }

    def _source(self, source: ProgramInput, space: str, shaped: Shaped, child: int | None) -> _Value:
        self.variadic.sources.append(source)
        return _Value(child, self.variadic.new(space, shaped))

    def operand(self, position: int) -> _Value | Listed:
        """An operand of the node, of one child, or of all children."""
        return self._operands[position]

    def constant(self, array: Any) -> _Value:
        """A constant belongs to the node."""
        return self._constants[id(array)]

    def apply(self, name: str, attrs: Attrs, inputs: Sequence[_Value], outputs: Sequence[Shaped]) -> list[_Value]:
        """Applies an operator, except for children other than the first."""
        of = {value.child for value in inputs if value.child is not None}
        if len(of) > 1:
            raise Unlike(f"{name} takes the values of several children")
        child = of.pop() if of else None
        if child:
            return [_Value(child, None) for _ in outputs]
        return [_Value(child, number) for number in self._emit(name, attrs, inputs, outputs, child)]

    def add(self, terms: Sequence[_Value], shaped: Shaped) -> _Value:
        """Terms of several children are a sum over all children, which `is_like` has to confirm."""
        of = {value.child for value in terms if value.child is not None}
        if len(of) == 1:
            (child,) = of
            return _Value(child, None) if child else _Value(0, self._sum(terms, shaped, 0))
        if of:
            brought = self._sum([value for value in terms if value.child == 0], shaped, 0)
            (total,) = self._emit(GATHER_UP, (), [_Value(None, brought)], [shaped], None)
            terms = [*[value for value in terms if value.child is None], _Value(None, total)]
        return _Value(None, self._sum(terms, shaped, None))

    def _sum(self, terms: Sequence[_Value], shaped: Shaped, child: int | None) -> int:
        if not terms:
            raise Unlike("it sums the values of only some children")
        if len(terms) == 1:
            return self._belonging(terms[0], child)
        return self._emit(ADD_UP, (), terms, [shaped], child)[0]

    def _emit(
        self, name: str, attrs: Attrs, inputs: Sequence[_Value], outputs: Sequence[Shaped], child: int | None
    ) -> tuple[int, ...]:
        """Appends an operator; returns the numbers of its results."""
        given = tuple([self._belonging(value, child) for value in inputs])
        space = NODE if child is None else CHILD
        numbers = tuple([self.variadic.new(space, shaped) for shaped in outputs])
        self.variadic.ops.append(TraceOp(name, attrs, given, numbers))
        return numbers

    def _belonging(self, value: _Value, child: int | None) -> int:
        """Returns the number of a value as one of the child, if needed; constants belong to both."""
        assert value.number is not None
        variadic = self.variadic
        number = value.number
        constant = number < len(variadic.sources) and variadic.sources[number].constant is not None
        if child is None or variadic.spaces[number] == CHILD or constant:
            return number
        if number not in self._spread:
            self._spread[number] = variadic.new(CHILD, variadic.shapes[number])
            variadic.ops.append(TraceOp(SPREAD, (), (number,), (self._spread[number],)))
        return self._spread[number]


def make_variadic(trace: Trace, children: Roles, dialect: Dialect) -> Variadic:
    """The variadic program of a trace with at least two children. Raises Unlike if there is none.

    It still has to be compared with traces (`is_like`): here nobody looks at other children than the first.
    """
    domain = _VariadicMaker(trace, children)
    values = read(trace, domain, dialect)
    if any(value.child is not None for value in values):
        raise Unlike("a result belongs to one child")
    domain.variadic.results = [value.number for value in values]
    return domain.variadic
