"""The dialect of MXNet's operators on children: which of them add, and which join arrays."""

from __future__ import annotations

from collections.abc import Mapping

from gluonjit.engines.mxnet.hooked import Attrs
from gluonjit.engines.mxnet.operators.symbols import canonical
from gluonjit.hybrid.capture.variadic.reading import Domain, Known, Listed, Sum, Value, terms_of
from gluonjit.program.trace import Shaped, Trace, TraceOp

_ADDITIONS = {"add_n", "elemwise_add", "_plus", "broadcast_add", "_npi_add"}
_COUNTS = {"num_args"}
_JOINS = {"stack": "axis", "Concat": "dim", "_npi_stack": "axis", "_npi_concatenate": "axis"}
_SUMS = {"sum", "_np_sum"}


class MXNetDialect:
    """Implements `gluonjit.hybrid.capture.variadic.Dialect`."""

    def plain(self, op: TraceOp) -> tuple[str, Attrs]:
        """The name, and the attributes without those that count inputs, in one order."""
        attrs = tuple(sorted([(key, text) for key, text in op.attrs if key not in _COUNTS]))
        return canonical(op.name), attrs

    def folded(
        self, op: TraceOp, trace: Trace, known: Mapping[int, Known], value: Value, domain: Domain
    ) -> list[Known] | None:
        """A longer sum, the same value, or values side by side."""
        found = _folded(op, trace, known, value)
        return None if found is None else [found]


def _folded(op: TraceOp, trace: Trace, known: Mapping[int, Known], value: Value) -> Known | None:
    """Returns the result of an operator that need not run."""
    name = canonical(op.name)
    shaped = trace.shapes[op.outputs[0]]
    alike = all(trace.shapes[position] == shaped for position in op.inputs)
    first = known[op.inputs[0]] if op.inputs else None
    if name in _ADDITIONS and alike and shaped[1].startswith("float"):
        return Sum(tuple([term for position in op.inputs for term in terms_of(known[position], position, value)]))
    if name == "_copy" or (name == "_plus_scalar" and alike and _number(op, "scalar") == 0.0):
        return first
    if name in _JOINS and _number(op, _JOINS[name]) == 0.0 and _side_by_side(name, op, trace):
        return Listed(tuple([value(position) for position in op.inputs]))
    if name in _SUMS and isinstance(first, Listed) and shaped == _one_of(trace, op.inputs[0]):
        if dict(op.attrs).get("axis", "").strip("()[], ") == "0":
            return Sum(first.values)
    return None


def _side_by_side(name: str, op: TraceOp, trace: Trace) -> bool:
    """Tells whether a join puts arrays of one shape together: as entries, or of one row each as rows."""
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
