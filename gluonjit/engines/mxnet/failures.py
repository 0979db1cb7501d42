"""From a step that failed to the call of the user's that did it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gluonjit.analysis import Plan
from gluonjit.analysis.operands import rows_read
from gluonjit.engines.mxnet.arrays import context_of, room_for
from gluonjit.engines.mxnet.segments import Segments
from gluonjit.engines.mxnet.trace import reason_of
from gluonjit.errors import FlushError
from gluonjit.graph import Record
from gluonjit.hybrid.provenance import Provenance

_NEXT = "hybridize(dynamic_batch=False) runs the same code eagerly."


_kinds: dict[type[Exception], Any] = {}


def _as_error(error: Exception, text: str) -> Exception:
    """A FlushError that is also of the framework's own kind, so that handlers for that one work."""
    kind = type(error)
    if kind not in _kinds:
        _kinds[kind] = type("FlushError", (FlushError, kind), {"__module__": FlushError.__module__})
    found: Exception = _kinds[kind](text)
    return found


Rows = Callable[[int, Sequence[int]], Any]
"""Rows of an arena, by their positions."""


def failed(provenance: Provenance, rows: Rows, number: int, error: Exception) -> Exception:
    """The error to raise for a step that failed: its nodes run again, one by one, until one of them fails."""
    plan = provenance.plan
    step = plan.steps[number]
    for record, nodes in step.parts:
        for node in nodes.tolist():
            try:
                _run_alone(plan, rows, record, node)
            except Exception as own:
                text = f"The {provenance.describe(record, node)}, failed when it ran: {reason_of(own)}. {_NEXT}"
                return _as_error(own, text)
    record, nodes = step.parts[0]
    text = (
        f"{step.count} calls of {step.kind.name} run together failed, though each runs by itself: {reason_of(error)}. "
        f"The first is the {provenance.describe(record, int(nodes[0]))}. {_NEXT}"
    )
    return _as_error(error, text)


def _run_alone(plan: Plan, rows: Rows, record: Record, node: int) -> None:
    """Run one node by itself and wait for it."""
    kind = record.kind
    given = rows_read(record, node)
    operands = []
    for group in kind.groups:
        numbers = [row for role in group for position in role for row in given[position]]
        operands.append(rows(int(plan.arena[numbers[0]]), plan.position[numbers].tolist()))
    results = [room_for(output.spec, output.spec.rows) for output in kind.outputs]
    besides: list[Any] = []
    if kind.children:
        besides = Segments([np.array([kind.arity])], context_of(kind.operands[0].device)).of(0)
    kind.program(operands, kind.program.consts, 1, results, besides)
    for result in results:
        result.wait_to_read()
