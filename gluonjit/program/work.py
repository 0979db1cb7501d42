"""Work of one node of a traced program: operators, arithmetic and memory, from the shapes of its trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from gluonjit.graph.kinds import Work
from gluonjit.graph.values import item_size
from gluonjit.program.axes.products import Contract
from gluonjit.program.axes.row import Application, Row
from gluonjit.program.axes.values import NotBatchable, Shaped, Values
from gluonjit.program.trace import Trace, TraceOp

CallOf = Callable[[TraceOp, Sequence[Any], Sequence[Shaped]], "tuple[Row | None, Application]"]
"""An engine's row of an operator, and its call of some values."""


def traced_work(call_of: CallOf, trace: Trace, operators: int) -> Work:
    """Returns the work of one node of a traced program, which runs as this many operators."""
    consts = {position for position, _ in trace.constants()}
    flops, moved = 0.0, 0
    for op in trace.ops:
        flops += _flops(*call_in(trace, op, call_of), [trace.shapes[position] for position in op.outputs])
        moved += _bytes(trace, [position for position in (*op.inputs, *op.outputs) if position not in consts])
    return Work(operators, flops, moved, _bytes(trace, consts))


def call_in(trace: Trace, op: TraceOp, call_of: CallOf) -> tuple[Row | None, Any]:
    """The row of an operator of a trace, be it what its instruction says, and its call on values of one node."""
    inputs = [(*trace.shapes[position], None, trace.shapes[position][0]) for position in op.inputs]
    vals = [Values(slot, *each) for slot, each in enumerate(inputs)]
    try:
        row, call = call_of(op, vals, [trace.shapes[position] for position in op.outputs])
    except NotBatchable:
        return None, None
    return row.code if row is not None and isinstance(row.code, Row) else row, call


def _flops(row: Row | None, call: Any, outs: Sequence[Shaped]) -> float:
    """Two for each factor of a product, as its row says, and else one for each element of the results."""
    if row is not None and row.work is not None:
        return 2.0 * float(row.work(call))
    if not isinstance(row, Contract):
        return float(sum(prod(shape) for shape, _ in outs))
    terms = zip(row.terms(call)[0], call.vals)
    sizes = {label: size for labels, val in terms if labels[:1] != "+" for label, size in zip(labels, val.shape)}
    return 2.0 * float(prod(sizes.values()))


def _bytes(trace: Trace, positions: Any) -> int:
    return sum(prod(shape) * item_size(dtype) for shape, dtype in map(trace.shapes.__getitem__, positions))
