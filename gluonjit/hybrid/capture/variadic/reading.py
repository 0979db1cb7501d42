"""Reads a program with sums separated: additions of equal shapes, however nested, are one sum of many terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Union

from gluonjit.program.trace import Attrs, Shaped, Trace, TraceOp

Value = Callable[[int], Any]


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

    def plain(self, op: TraceOp) -> tuple[str, Attrs]:
        """Returns name and attributes of an operator, without those that differ between equal operators."""

    def folded(
        self, op: TraceOp, trace: Trace, known: Mapping[int, Known], value: Value, domain: Domain
    ) -> list[Known] | None:
        """Returns the result of an operator that need not run, such as a longer sum; None for others. Raises Unlike."""


def read(trace: Trace, domain: Domain, dialect: Dialect) -> list[Any]:
    """Interprets a program in a domain and returns the values of its results. Raises Unlike."""
    known: dict[int, Known] = {position: domain.operand(position) for position in range(len(trace.operands))}
    known.update((position, domain.constant(array)) for position, array in trace.constants())
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
    return [value(position) for position in trace.results]


def terms_of(found: Known, position: int, value: Value) -> tuple[Any, ...]:
    """Returns the terms that a value adds to a sum."""
    return found.terms if isinstance(found, Sum) else (value(position),)
