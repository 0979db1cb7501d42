"""Reads a trace with sums apart: additions of equal shapes, however they are nested, are one sum of many terms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, Union

from gluonjit.engines.mxnet import rules
from gluonjit.engines.mxnet.trace import Attrs, Shaped, Trace, TraceOp

_ADDITIONS = {"add_n", "elemwise_add", "_plus", "broadcast_add", "_npi_add"}
_COUNTS = {"num_args"}
_JOINS = {"stack": "axis", "Concat": "dim", "_npi_stack": "axis", "_npi_concatenate": "axis"}
_SUMS = {"sum", "_np_sum"}


class Unlike(Exception):
    """A trace cannot be read child by child; the text says why."""


class Sum(NamedTuple):
    """Terms that are added up; it becomes a value when something else than an addition uses it."""

    terms: tuple[Any, ...]


class Listed(NamedTuple):
    """Values put together along axis 0, one row or entry each, that wait to be summed."""

    values: tuple[Any, ...]


class Domain(Protocol):
    """What a reading makes of operands, constants and operators."""

    def operand(self, position: int) -> Any:
        """The value of an operand."""

    def constant(self, array: Any) -> Any:
        """The value of an array that is the same in every call."""

    def apply(self, name: str, attrs: Attrs, inputs: Sequence[Any], outputs: Sequence[Shaped]) -> list[Any]:
        """The results of an operator."""

    def add(self, terms: Sequence[Any], shaped: Shaped) -> Any:
        """The sum of terms."""


Known = Union[Sum, Listed, Any]


def read(trace: Trace, results: Sequence[int], domain: Domain) -> list[Any]:
    """Go through a trace in a domain; returns the values of the results. Raises Unlike."""
    known: dict[int, Known] = {position: domain.operand(position) for position in range(len(trace.operands))}
    known.update((position, domain.constant(array)) for position, array in trace.consts)
    made: dict[int, Any] = {}

    def value(position: int) -> Any:
        found = known[position]
        if isinstance(found, Listed):
            raise Unlike("it puts what children bring into one array, and does not sum it up")
        if not isinstance(found, Sum):
            return found
        if position not in made:
            made[position] = domain.add(found.terms, trace.shapes[position])
        return made[position]

    for op in trace.ops:
        folded = _folded(op, trace, known, value)
        if folded is not None:
            known[op.outputs[0]] = folded
            continue
        outputs = [trace.shapes[position] for position in op.outputs]
        inputs = [value(position) for position in op.inputs]
        for position, result in zip(
            op.outputs, domain.apply(rules.canonical(op.name), _plain(op.attrs), inputs, outputs)
        ):
            known[position] = result
    return [value(position) for position in results]


def _folded(op: TraceOp, trace: Trace, known: dict[int, Known], value: Callable[[int], Any]) -> Known | None:
    """What an operator gives that need not run by itself: a longer sum, the same value, or values side by side."""
    name = rules.canonical(op.name)
    shaped = trace.shapes[op.outputs[0]]
    alike = all(trace.shapes[position] == shaped for position in op.inputs)
    first = known[op.inputs[0]] if op.inputs else None
    if name in _ADDITIONS and alike and shaped[1].startswith("float"):
        return Sum(tuple([term for position in op.inputs for term in _terms(known[position], position, value)]))
    if name == "_copy" or (name == "_plus_scalar" and alike and _number(op, "scalar") == 0.0):
        return first
    if name in _JOINS and _number(op, _JOINS[name]) == 0.0 and _side_by_side(name, op, trace):
        return Listed(tuple([value(position) for position in op.inputs]))
    if name in _SUMS and isinstance(first, Listed) and shaped == _one_of(trace, op.inputs[0]):
        if dict(op.attrs).get("axis", "").strip("()[], ") == "0":
            return Sum(first.values)
    return None


def _terms(found: Known, position: int, value: Callable[[int], Any]) -> tuple[Any, ...]:
    return found.terms if isinstance(found, Sum) else (value(position),)


def _side_by_side(name: str, op: TraceOp, trace: Trace) -> bool:
    """Whether a join puts arrays of one shape together: as entries, or of one row each as rows."""
    shapes = {trace.shapes[position] for position in op.inputs}
    if len(shapes) != 1:
        return False
    ((shape, _),) = shapes
    return name in ("stack", "_npi_stack") or (len(shape) >= 2 and shape[0] == 1)


def _one_of(trace: Trace, joined: int) -> Shaped:
    """The shape of one of the arrays that were put together at this position."""
    op = next(op for op in trace.ops if joined in op.outputs)
    return trace.shapes[op.inputs[0]]


def _number(op: TraceOp, name: str) -> float:
    """An attribute that is a number; where it is not given, as joins and additions have it."""
    text = dict(op.attrs).get(name, {"dim": "1", "scalar": "nan"}.get(name, "0"))
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _plain(attrs: Attrs) -> Attrs:
    """Attributes without those that count inputs, in one order."""
    return tuple(sorted([(key, text) for key, text in attrs if key not in _COUNTS]))
