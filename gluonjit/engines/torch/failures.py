"""From a step that failed to the call of the user's that did it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gluonjit.analysis.operands import rows_read
from gluonjit.engines.torch.program import interpret, piece
from gluonjit.errors import FlushError
from gluonjit.graph import Record
from gluonjit.hybrid.provenance import Provenance

_NEXT = "gluonjit.hybridize(net, dynamic_batch=False) lets the same code run eagerly."
_kinds: dict[type[Exception], Any] = {}


def _as_error(error: Exception, text: str) -> Exception:
    """A FlushError that is also of the framework's own kind, so that handlers for that one work."""
    kind = type(error)
    if kind not in _kinds:
        _kinds[kind] = type("FlushError", (FlushError, kind), {"__module__": FlushError.__module__})
    try:
        found: Exception = _kinds[kind](text)
    except TypeError:  # its class wants more than a text
        found = FlushError(text)
    return found


Rows = Callable[[int, Sequence[int]], Any]
"""Rows of an arena, by their positions."""


def failed(provenance: Provenance, rows: Rows, number: int, error: Exception) -> Exception:
    """The error to raise for a step that failed: its nodes run again, one by one, until one of them fails."""
    step = provenance.plan.steps[number]
    for record, nodes in step.parts:
        for node in nodes.tolist():
            try:
                _run_alone(provenance, rows, record, node)
            except Exception as own:
                text = f"The {provenance.describe(record, node)}, failed when it ran: {own}. {_NEXT}"
                return _as_error(own, text)
    record, nodes = step.parts[0]
    text = (
        f"{step.count} calls of {step.kind.name} run together failed, though each runs by itself: {error}. "
        f"The first is the {provenance.describe(record, int(nodes[0]))}. {_NEXT}"
    )
    return _as_error(error, text)


def _run_alone(provenance: Provenance, rows: Rows, record: Record, node: int) -> None:
    plan = provenance.plan
    trace, results = record.kind.program.trace, record.kind.program.results
    operands = []
    for numbers, spec in zip(rows_read(record, node), trace.operands):
        operands.append(piece(rows(int(plan.arena[numbers[0]]), plan.position[numbers].tolist()), spec, 0))
    interpret(trace, results, operands, record.kind.program.consts)
