"""Errors that are the library's and the framework's at once, and from a step that failed to the call that did it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from gluonjit.analysis.operands import rows_read
from gluonjit.errors import FlushError, GluonJITError
from gluonjit.graph import Record
from gluonjit.hybrid.provenance import Provenance

Rows = Callable[[int, Sequence[int]], Any]
"""Rows of an arena, by their positions."""

_Ours = TypeVar("_Ours", bound=GluonJITError)
_kinds: dict[tuple[type[GluonJITError], type[BaseException]], Any] = {}


def both(ours: type[_Ours], theirs: type[BaseException], text: str) -> _Ours:
    """An error of the library's class `ours` that is one of the framework's class `theirs` too.

    So handlers for either find it. To who reads it, it is `ours`; it can be pickled.
    """
    if issubclass(ours, theirs) or issubclass(theirs, GluonJITError):
        return ours(text)
    try:
        found: _Ours = _joint(ours, theirs)(text)
    except TypeError:  # its class wants more than a text
        found = ours(text)
    return found


def _joint(ours: type[GluonJITError], theirs: type[BaseException]) -> Any:
    """The class of both, made once."""
    made = _kinds.get((ours, theirs))
    if made is None:
        content = {
            "__module__": ours.__module__,
            "__doc__": ours.__doc__,
            "__str__": lambda self: str(self.args[0]) if len(self.args) == 1 else Exception.__str__(self),
            "__reduce__": lambda self: (_restored, (ours, theirs, self.args), self.__dict__ or None),
        }
        made = _kinds[ours, theirs] = type(ours.__name__, (ours, theirs), content)
    return made


def _restored(ours: type[GluonJITError], theirs: type[BaseException], args: tuple[Any, ...]) -> Any:
    """An error as it was pickled."""
    return _joint(ours, theirs)(*args)


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
                return both(FlushError, type(own), text)
    record, nodes = step.parts[0]
    text = (
        f"{step.count} calls of {step.kind.name} run together failed, though each runs by itself: {reason(error)}. "
        f"The first is the {provenance.describe(record, int(nodes[0]))}. {advice}"
    )
    return both(FlushError, type(error), text)


def gathered(provenance: Provenance, rows: Rows, record: Record, node: int) -> list[Any]:
    """The operands of one node, as those of a step lie: for each group of its kind the rows of its roles."""
    plan, given = provenance.plan, rows_read(record, node)
    found = []
    for group in record.kind.groups:
        numbers = [row for role in group for position in role for row in given[position]]
        found.append(rows(int(plan.arena[numbers[0]]), plan.position[numbers].tolist()))
    return found
