"""From a step that failed to the call of the user's that did it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gluonjit.analysis.operands import rows_read
from gluonjit.errors import FlushError
from gluonjit.graph import Record
from gluonjit.hybrid.provenance import Provenance

Rows = Callable[[int, Sequence[int]], Any]
"""Rows of an arena, by their positions."""

_kinds: dict[type[Exception], Any] = {}


def failed(
    provenance: Provenance,
    number: int,
    error: Exception,
    run: Callable[[Record, int], None],
    reason: Callable[[Exception], str],
    advice: str,
) -> Exception:
    """The error to raise for a step that failed: its nodes `run` again, one by one, until one of them fails.

    reason: what an error of the framework's says; advice: what to do next.
    """
    step = provenance.plan.steps[number]
    for record, nodes in step.parts:
        for node in nodes.tolist():
            try:
                run(record, node)
            except Exception as own:
                text = f"The {provenance.describe(record, node)}, failed when it ran: {reason(own)}. {advice}"
                return _as_error(own, text)
    record, nodes = step.parts[0]
    text = (
        f"{step.count} calls of {step.kind.name} run together failed, though each runs by itself: {reason(error)}. "
        f"The first is the {provenance.describe(record, int(nodes[0]))}. {advice}"
    )
    return _as_error(error, text)


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


def gathered(provenance: Provenance, rows: Rows, record: Record, node: int) -> list[Any]:
    """The operands of one node, as those of a step lie: for each group of its kind the rows of its roles."""
    plan, given = provenance.plan, rows_read(record, node)
    found = []
    for group in record.kind.groups:
        numbers = [row for role in group for position in role for row in given[position]]
        found.append(rows(int(plan.arena[numbers[0]]), plan.position[numbers].tolist()))
    return found
