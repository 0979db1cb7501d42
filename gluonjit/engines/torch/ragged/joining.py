"""Gives calls of a cell that differ in sizes alone kinds that run together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from gluonjit.engines.torch.hooked import plain
from gluonjit.engines.torch.program import lay_out
from gluonjit.engines.torch.ragged.building import Stages
from gluonjit.engines.torch.ragged.checking import agrees
from gluonjit.engines.torch.ragged.form import Form, Unlike
from gluonjit.engines.torch.ragged.program import Ragged
from gluonjit.engines.torch.rules.values import NotBatchable
from gluonjit.engines.torch.trace import Trace
from gluonjit.engines.torch.work import work_of
from gluonjit.graph import Kind
from gluonjit.hybrid.run.batch import Batch

_KEY = "lengths"
_MOST = 8  # traces that wait for one like them, and forms


class _Waiting(NamedTuple):
    """A kind that no other is like so far, and what it was made from."""

    kind: Kind
    trace: Trace
    results: tuple[int, ...]


@dataclass
class _Lengths:
    """The calls of a cell: those that wait for others like them, and the forms found, each with its first kind."""

    waiting: list[_Waiting] = field(default_factory=list)
    found: list[tuple[Stages, Kind]] = field(default_factory=list)


def of_other_lengths(
    cell: Any, trace: Trace, results: list[int], structure: Any, pure: bool, batch: Batch
) -> Kind | None:
    """The kind of a call that differs in sizes alone from others of its cell, whose kinds run together."""
    known: _Lengths | None = cell.joints.get(_KEY)
    for stages, first in known.found if known is not None and "lengths" not in batch.options.without else ():
        try:
            lengths = stages.form.lengths_of(trace, results)
            if first.structure == structure and first.pure == pure:
                return _member(first, trace, results, stages, lengths, first)
        except (Unlike, NotBatchable):
            continue
    return None


def join_lengths(cell: Any, kind: Kind, trace: Trace, results: list[int], batch: Batch) -> Kind:
    """The kind of a call: `kind`, or where one call with other sizes was met one that runs together with its kind.

    That is exchanged, in the open batch too if the rows of its results stay as they are.
    """
    if not _may_differ(kind, trace) or "lengths" in batch.options.without:
        return kind
    known: _Lengths = cell.joints.setdefault(_KEY, _Lengths())
    new = _Waiting(kind, trace, tuple(results))
    for other in known.waiting if len(known.found) < _MOST else ():
        made = _joined(other, new)
        if made is not None:
            stages, first, own = made
            known.waiting.remove(other)
            known.found.append((stages, first))
            _exchange(cell, other.kind, first, batch)
            return own
    known.waiting = [*known.waiting[-_MOST + 1 :], new]
    return kind


def _may_differ(kind: Kind, trace: Trace) -> bool:
    """Tells whether calls like this may come with other sizes, and do not run with them already."""
    rest = kind if kind.split is None else kind.split.rest
    if kind.lone or kind.operator or rest.poly or rest.children or kind.apart:
        return False
    return any(spec.mode == "rows" and spec.rows > 1 for spec in trace.operands)


def _joined(other: _Waiting, new: _Waiting) -> tuple[Stages, Kind, Kind] | None:
    """The stages of two calls, and their kinds; None if they differ in more than sizes."""
    try:
        form = Form(other.trace, other.results, new.trace, new.results)
        if not form.lengths:
            return None
        with plain():
            stages = Stages(form)
            first, own = (
                _member(call.kind, call.trace, call.results, stages, form.lengths_of(call.trace, call.results))
                for call in (other, new)
            )
            own = replace(own, family=first)
            fits = agrees([first, own])
    except (Unlike, NotBatchable):
        return None
    return (stages, first, own) if fits else None


def _member(
    like: Kind, trace: Trace, results: Sequence[int], stages: Stages, lengths: tuple[int, ...], family: Any = None
) -> Kind:
    """A kind that runs together with the others of its form. Raises NotBatchable."""
    with plain():
        program = Ragged(stages, trace, results, lengths)
    outputs, rows = lay_out([trace.shapes[position] for position in results], trace.device, stages.wide)
    return replace(
        like,
        operands=trace.operands,
        outputs=outputs,
        rows=rows,
        program=program,
        poly=True,
        apart=True,
        split=None,
        children=(),
        family=family,
        work=work_of(trace, program.operators),
    )


def _exchange(cell: Any, old: Kind, new: Kind, batch: Batch) -> None:
    cell.kinds = {call: new if kind is old else kind for call, kind in cell.kinds.items()}
    if old.split is None and old.outputs == new.outputs:
        for record in batch.records.values():
            if record.kind is old:
                record.kind = new
