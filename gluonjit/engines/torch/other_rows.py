"""Kinds of operators and layers for new numbers of rows, derived from two traced ones, without a trace.

An operator that does the same to each row has one program for any number of rows, and so has one that adds rows up. If
two calls that differ only in that number have the same program, so does a third. The same holds for PyTorch's own
layers, whose code does not ask for the number of rows; a user's layer may.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from gluonjit.engines.torch.cell import Call
from gluonjit.engines.torch.layers import is_layer
from gluonjit.engines.torch.without_gradients import signatures_of
from gluonjit.graph import Kind, Spec, Work
from gluonjit.graph.kinds import outputs_of
from gluonjit.hybrid.capture.guards.facts import OF_LIBRARY, Fact
from gluonjit.program.sizes import NotDerivable, at_lengths, line_through
from gluonjit.program.trace import MalformedTrace, Trace


class TracedCall(NamedTuple):
    """A call that was traced: its number of rows, its kind's key, and what it has read, of libraries alone.

    The kind itself may be exchanged when calls with other numbers are met.
    """

    rows: int
    key: Any
    facts: tuple[Fact, ...]


def without_rows(wanted: tuple[Any, ...]) -> tuple[Any, ...]:
    """A signature but for the numbers of rows."""
    return tuple([_blind(item) if item.__class__ is Spec and item.mode == "rows" else item for item in wanted])


def _blind(spec: Spec) -> tuple[Any, ...]:
    return "rows", spec.row_shape, spec.dtype, spec.device


def _rows_of(call: Call) -> int:
    """The number of rows of all operands that have rows; 0 where these differ, or one is not told from no axis."""
    found = {value.spec.rows for value in call.values if value.spec.mode == "rows"}
    rows = found.pop() if len(found) == 1 else 0
    return rows if rows > 1 else 0


def note_traced(call: Call, wanted: tuple[Any, ...], key: Any, kind: Kind) -> None:
    """Remembers where the kind of an operator or a layer is that may be one for any number of rows."""
    rows = _rows_of(call) if call.cell.operator or is_layer(call.owner) else 0
    if not rows or not kind.pure or kind.apart or kind.lone or kind.split or call.noted.asked:
        return
    if any(fact.way != OF_LIBRARY for fact in call.noted.facts):
        return  # other calls may find other values there
    known = call.cell.by_rows.setdefault(without_rows(wanted), [])
    known[:] = [each for each in known if all([fact.holds() for fact in each.facts])]
    if len(known) < 2 and all(each.rows != rows for each in known):
        known.append(TracedCall(rows, key, call.noted.facts))


def of_other_rows(call: Call, wanted: tuple[Any, ...]) -> Kind | None:
    """The kind of a call, made of those that were traced with two other numbers of rows."""
    rows = _rows_of(call) if call.cell.by_rows else 0
    for signature in signatures_of(call.cell, wanted) if rows else ():
        known = call.cell.by_rows.get(without_rows(signature), ())
        read = [fact for each in known for fact in each.facts]
        kind = _between(call, rows, *known) if len(known) == 2 and all([fact.holds() for fact in read]) else None
        if kind is not None:
            call.noted.facts = tuple({(id(fact.container), fact.key): fact for fact in read}.values())
            return kind
    return None


def _between(call: Call, rows: int, one_call: TracedCall, other_call: TracedCall) -> Kind | None:
    (first, one, _), (second, two, _) = one_call, other_call
    kind, other = (call.cell.kinds.get(key) for key in (one, two))
    if kind is None or other is None or kind.family is not other.family or kind.children != other.children:
        return None
    if kind.apart:  # it has been exchanged for one of operands of any length, whose program knows its own
        return None
    specs = [output.spec for output in kind.outputs]
    if kind.poly and _have(kind, first) and _have(other, second):
        specs = [spec.with_rows(rows) for spec in specs]
    elif not (call.cell.operator and kind.children and specs == [output.spec for output in other.outputs]):
        return None
    outputs, height = outputs_of(specs)
    part: Any = (rows - first) / (second - first)
    work = Work(*[begin + round(part * (end - begin)) for begin, end in zip(kind.work, other.work)])
    operands = tuple([value.spec for value in call.values])
    made = _trace_of(kind.call, other.call, first, second, rows, operands)
    if made is None:
        return None
    return replace(kind, operands=operands, outputs=outputs, rows=height, work=work, call=made)


def _have(kind: Kind, rows: int) -> bool:
    """Tells whether all results of a kind have this many rows."""
    return all([output.spec.mode == "rows" and output.spec.rows == rows for output in kind.outputs])


def _trace_of(one: Trace, other: Trace, first: int, second: int, rows: int, operands: tuple[Spec, ...]) -> Trace | None:
    """The trace of a call, on the line through those of two numbers of rows; None if there is none."""
    both = [(trace.shapes, tuple([(op.name, op.attrs) for op in trace.ops])) for trace in (one, other)]
    try:
        shapes, ops = at_lengths(line_through(both, [(first,), (second,)]), {0: rows})
        named = [op._replace(attrs=attrs) for op, (_, attrs) in zip(one.ops, ops)]
        return replace(one, operands=operands, shapes=shapes, ops=tuple(named), built={})
    except (NotDerivable, MalformedTrace):
        return None
