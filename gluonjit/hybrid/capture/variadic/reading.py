"""Reads a program with sums separated: additions of equal shapes, however nested, are one sum of many terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Union

from gluonjit.graph.values import Spec
from gluonjit.hybrid.capture.variadic.roles import Shaped

Attrs = tuple[tuple[str, Any], ...]
Value = Callable[[int], Any]


class Op(Protocol):
    """One operator of a program; inputs and outputs are positions."""

    @property
    def name(self) -> str:
        """The engine's name of it."""

    @property
    def attrs(self) -> Attrs:
        """Its other arguments."""

    @property
    def inputs(self) -> tuple[int, ...]:
        """Positions of what it reads."""

    @property
    def outputs(self) -> tuple[int, ...]:
        """Positions of what it gives."""


class TracedProgram(Protocol):
    """A traced program: operands come first in `shapes`, then constants and results."""

    @property
    def operands(self) -> tuple[Spec, ...]:
        """The operands that it is called with."""

    @property
    def shapes(self) -> Sequence[Shaped]:
        """Shape and dtype of each position."""

    @property
    def consts(self) -> Sequence[tuple[int, Any]]:
        """Arrays that are the same in every call, with their positions."""

    @property
    def ops(self) -> Sequence[Any]:
        """The operators, in order; each is an `Op`."""


class Unlike(Exception):
    """A program cannot be read child by child; the text says why."""


class Sum(NamedTuple):
    """A sum of terms; it becomes a value when something other than an addition uses it."""

    terms: tuple[Any, ...]


class Listed(NamedTuple):
    """Values joined along axis 0, one row or entry each."""

    values: tuple[Any, ...]


class Domain(Protocol):
    """A reading's own operands, constants and operators."""

    def operand(self, position: int) -> Any:
        """The value of an operand; `Listed` where its rows are those of children."""

    def constant(self, array: Any) -> Any:
        """The value of an array that is the same in every call."""

    def apply(self, name: str, attrs: Attrs, inputs: Sequence[Any], outputs: Sequence[Shaped]) -> list[Any]:
        """The results of an operator."""

    def add(self, terms: Sequence[Any], shaped: Shaped) -> Any:
        """The sum of terms."""


Known = Union[Sum, Listed, Any]


class Dialect(Protocol):
    """The meaning of an engine's operators."""

    def plain(self, op: Any) -> tuple[str, Attrs]:
        """Returns name and attributes of an operator, without those that differ between equal operators."""

    def folded(
        self, op: Any, trace: TracedProgram, known: Mapping[int, Known], value: Value, domain: Domain
    ) -> list[Known] | None:
        """Returns the result of an operator that need not run, such as a longer sum; None for others. Raises Unlike."""


def read(trace: TracedProgram, results: Sequence[int], domain: Domain, dialect: Dialect) -> list[Any]:
    """Interprets a program in a domain and returns the values of its results. Raises Unlike."""
    known: dict[int, Known] = {position: domain.operand(position) for position in range(len(trace.operands))}
    known.update((position, domain.constant(array)) for position, array in trace.consts)
    made: dict[int, Any] = {}

    def value(position: int) -> Any:
        found = known[position]
        if isinstance(found, Listed):
            raise Unlike("it joins the values of the children into one array, and does not sum it")
        if not isinstance(found, Sum):
            return found
        if position not in made:
            made[position] = domain.add(found.terms, trace.shapes[position])
        return made[position]

    for op in trace.ops:
        folded = dialect.folded(op, trace, known, value, domain)
        if folded is None:
            outputs = [trace.shapes[position] for position in op.outputs]
            folded = domain.apply(*dialect.plain(op), [value(position) for position in op.inputs], outputs)
        known.update(zip(op.outputs, folded))
    return [value(position) for position in results]


def terms_of(found: Known, position: int, value: Value) -> tuple[Any, ...]:
    """Returns the terms that a value adds to a sum."""
    return found.terms if isinstance(found, Sum) else (value(position),)
