"""Kinds of operators and layers for new numbers of rows, derived from two traced ones, without a trace.

An operator that does the same to each row has one program for any number of rows. If two calls that differ only in that
number have the same program, so does a third. The same holds for PyTorch's own layers, whose code does not ask for the
number of rows; a user's layer may.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gluonjit.engines.torch.cell import Call
from gluonjit.engines.torch.layers import is_layer
from gluonjit.graph import Kind, Spec, Work
from gluonjit.graph.kinds import outputs_of


class TracedCall(NamedTuple):
    """A call that was traced, and has read nothing of Python's state: its number of rows, and its kind."""

    rows: int
    kind: Kind


def _key(wanted: tuple[Any, ...]) -> tuple[Any, ...]:
    """A signature but for the numbers of rows."""
    return tuple([_blind(item) if item.__class__ is Spec and item.mode == "rows" else item for item in wanted])


def _blind(spec: Spec) -> tuple[Any, ...]:
    return "rows", spec.row_shape, spec.dtype, spec.device


def _rows_of(call: Call) -> int:
    """The number of rows of all operands that have rows; 0 where these differ, or one is not told from no axis."""
    found = {value.spec.rows for value in call.values if value.spec.mode == "rows"}
    rows = found.pop() if len(found) == 1 else 0
    return rows if rows > 1 else 0


def note_traced(call: Call, wanted: tuple[Any, ...], kind: Kind) -> None:
    """Remember the kind of an operator or a layer that does the same to each row."""
    rows = _rows_of(call) if call.cell.operator or is_layer(call.owner) else 0
    plain = kind.pure and kind.poly and not (kind.apart or kind.children or kind.lone or kind.split or call.noted.facts)
    if not rows or not plain or any(output.spec.mode != "rows" for output in kind.outputs):
        return
    if any(output.spec.rows != rows for output in kind.outputs):
        return
    known = call.cell.by_rows.setdefault(_key(wanted), [])
    if len(known) < 2 and all(each.rows != rows and each.kind.family is kind.family for each in known):
        known.append(TracedCall(rows, kind))


def of_other_rows(call: Call, wanted: tuple[Any, ...]) -> Kind | None:
    """The kind of a call, made of those that were traced with two other numbers of rows."""
    rows = _rows_of(call) if call.cell.by_rows else 0
    known = call.cell.by_rows.get(_key(wanted), ()) if rows else ()
    if len(known) < 2:
        return None
    (first, kind), (second, other) = known
    part = (rows - first) / (second - first)
    outputs, height = outputs_of([output.spec.with_rows(rows) for output in kind.outputs])
    work = Work(*[one + round(part * (two - one)) for one, two in zip(kind.work, other.work)])
    return Kind(
        kind.name,
        tuple([value.spec for value in call.values]),
        outputs,
        height,
        kind.program,
        operator=kind.operator,
        poly=True,
        sum_of=kind.sum_of,
        family=kind.family,
        work=work,
        structure=kind.structure,
    )
