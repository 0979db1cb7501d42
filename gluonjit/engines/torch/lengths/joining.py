"""Gives calls of a cell that differ in sizes alone kinds that run together."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

import torch

from gluonjit.engines.torch.cell import Call, TraceFindings
from gluonjit.engines.torch.hooked import plain
from gluonjit.engines.torch.lengths.deriving import Recipe, SizedCall
from gluonjit.engines.torch.lengths.program import Ragged, laid_trace, stages_of
from gluonjit.engines.torch.operators.table import row_of, work_of
from gluonjit.engines.torch.program import lay_out
from gluonjit.engines.torch.structure import without_constants
from gluonjit.graph import Kind, Spec, Work
from gluonjit.hybrid.capture.guards.variants import Noted
from gluonjit.hybrid.run.batch import Batch
from gluonjit.program.axes.shapes import Reshape
from gluonjit.program.lengths.form import Form
from gluonjit.program.lengths.stages import Stages
from gluonjit.program.sizes import NotDerivable, OtherForm
from gluonjit.program.trace import NotBatchable, Trace

_KEY = "lengths"
_MOST = 8  # traces that wait for one like them, forms, and calls of a form by which others are derived


class _Waiting(NamedTuple):
    """A kind that no other is like so far, and what it was made from."""

    kind: Kind
    traced: TraceFindings
    noted: Noted


@dataclass
class _Found:
    """A form, its stages, and the first kind of it, with what that was made from.

    calls, recipes: those that were traced, and how they differ, by their signatures but for sizes.
    """

    stages: Stages
    first: Kind
    origin: _Waiting
    calls: dict[Any, list[SizedCall]] = field(default_factory=dict)
    recipes: dict[Any, list[Recipe]] = field(default_factory=dict)

    def note(self, noted: Noted, traced: TraceFindings, lengths: tuple[int, ...], structure: Any) -> None:
        """Notes a call that was traced; not of size 1, which PyTorch may treat like one that is broadcast."""
        listed = self.calls.setdefault(noted.signature, [])
        if len(listed) < _MOST and min(lengths) > 1:
            listed.append(SizedCall(traced.trace, lengths, noted.facts, noted.kept, structure))
            self.recipes.pop(noted.signature, None)

    def recipes_of(self, signature: Any) -> list[Recipe]:
        """The recipes of the calls of a signature, one for those that decide alike by sizes."""
        if signature not in self.recipes:
            alike: dict[Any, list[SizedCall]] = {}
            for call in self.calls.get(signature, ()):
                alike.setdefault(call.decisions, []).append(call)
            self.recipes[signature] = []
            for calls in alike.values():
                with suppress(NotDerivable):
                    self.recipes[signature].append(Recipe(self.stages.form, calls))
        return self.recipes[signature]


@dataclass
class _Lengths:
    """The calls of a cell: those that wait for others like them, and the forms found."""

    waiting: list[_Waiting] = field(default_factory=list)
    found: list[_Found] = field(default_factory=list)


def _known(call: Call) -> list[_Found]:
    known: _Lengths | None = call.cell.joints.get(_KEY)
    return known.found if known is not None and "arity" not in call.batch.options.without else []


def derived_kind(call: Call) -> Kind | None:
    """The kind of a call of a new size, from traced calls of other sizes: the program is not run again for it."""
    operands = tuple([value.spec for value in call.values])
    for found in _known(call):
        with plain(), torch.no_grad():
            recipes = found.recipes_of(call.noted.signature)
        for recipe in recipes:
            kind = _derived(found, recipe, operands)
            if kind is not None:
                call.noted.facts, call.noted.kept = recipe.facts, recipe.kept
                return kind
    return None


def _derived(found: _Found, recipe: Recipe, operands: tuple[Spec, ...]) -> Kind | None:
    """The kind of a call with these operands by a recipe, if that fits."""
    try:
        with plain(), torch.no_grad():
            if not all(fact.holds() for fact in recipe.facts):
                return None
            trace, lengths = recipe.trace(operands)
            like = replace(found.first, structure=recipe.structure)
            kind = _member(like, trace, found.stages, lengths, found.first)
            return kind if cast(Ragged, kind.program).fits() else None
    except (NotDerivable, NotBatchable):
        return None


def of_other_lengths(call: Call, traced: TraceFindings, structure: Any) -> Kind | None:
    """The kind of a traced call that differs in sizes alone from others of its cell, whose kinds run together."""
    for found in _known(call):
        kind = _of_form(found, traced, call.noted, structure)
        if kind is not None:
            return kind
    return None


def _of_form(found: _Found, traced: TraceFindings, noted: Noted, structure: Any) -> Kind | None:
    """The kind of a traced call if it has this form."""
    first, stages = found.first, found.stages
    if without_constants(first.structure) != without_constants(structure) or first.pure == traced.draws:
        return None
    try:
        lengths = stages.form.lengths_of(traced.trace)
        like = replace(first, structure=structure)
        kind = _member(like, traced.trace, stages, lengths, first)
    except (OtherForm, NotBatchable):
        return None
    found.note(noted, traced, lengths, structure)
    return kind


def join_lengths(call: Call, kind: Kind, traced: TraceFindings) -> Kind:
    """The kind of a call: `kind`, or where one call with other sizes was met one that runs together with its kind.

    That is exchanged, in the open batch too if the rows of its results stay as they are.
    """
    cell, batch = call.cell, call.batch
    if not cell.joins or not _may_differ(kind, traced.trace) or "arity" in batch.options.without:
        return kind
    known: _Lengths = cell.joints.setdefault(_KEY, _Lengths())
    new = _Waiting(kind, traced, call.noted)
    wider = [each.origin for each in known.found]  # of which sizes that were equal differ now
    for other in [*known.waiting, *wider] if len(known.found) < _MOST else ():
        made = _joined(other, new)
        if made is not None:
            found, own = made
            if other in known.waiting:
                known.waiting.remove(other)
            known.found.insert(0, found)
            cell.by_number = ""
            _exchange(cell, other.kind, found.first, batch)
            for waiting in list(known.waiting):  # of the same lengths, but with gradients, or without
                again = _of_form(found, waiting.traced, waiting.noted, waiting.kind.structure)
                if again is not None:
                    known.waiting.remove(waiting)
                    _exchange(cell, waiting.kind, again, batch)
            return own
    known.waiting = [*known.waiting[1 - _MOST :], new]
    return kind


def _may_differ(kind: Kind, trace: Trace) -> bool:
    """Tells whether calls like this may come with other sizes, and do not run with them already."""
    rest = _rest(kind)
    if kind.lone or rest.children or kind.apart:
        return False
    return any(max(spec.shape[rest.poly :], default=1) > 1 for spec in trace.operands)


def _rest(kind: Kind) -> Kind:
    return kind if kind.split is None else kind.split.rest


def _joined(other: _Waiting, new: _Waiting) -> tuple[_Found, Kind] | None:
    """The form of two calls, with the kind of the second; None if they differ in more than sizes, or run together."""
    calls = (other, new)
    if _rest(other.kind).family is _rest(new.kind).family:
        return None
    before, now = [call.traced.trace for call in calls]
    try:
        with plain():
            form = Form(before, now, _equal, _is_view)
            if not form.lengths:
                return None
            stages = stages_of(form, form.lengths_of(now))
            first = _member(other.kind, before, stages, form.lengths_of(before))
            own = _member(new.kind, now, stages, form.lengths_of(now), first)
    except (OtherForm, NotBatchable):
        return None
    found = _Found(stages, first, other)
    for call, kind in zip(calls, (first, own)):
        found.note(call.noted, call.traced, cast(Ragged, kind.program).lengths, kind.structure)
    return found, own


def _equal(one: Any, other: Any) -> bool:
    if one.requires_grad or other.requires_grad:
        raise OtherForm("they have other weights")
    if one.device.type != "cpu":
        return False  # numbers of a device are not read for it: each node has its own then
    return bool(one.shape == other.shape and torch.equal(one, other))


def _is_view(name: str) -> bool:
    return isinstance(row_of(name), Reshape)


def _member(like: Kind, trace: Trace, stages: Stages, lengths: tuple[int, ...], family: Any = None) -> Kind:
    """A kind that runs together with the others of its form. Raises NotBatchable."""
    trace = laid_trace(stages.form, trace)
    with plain():
        program = Ragged(stages, trace, lengths)
    outputs, rows = lay_out(trace.shaped_results(), trace.device, stages.wide)
    return replace(
        like,
        operands=trace.operands,
        outputs=outputs,
        rows=rows,
        program=program,
        call=trace,
        poly=True,
        apart=True,
        split=None,
        children=(),
        family=family,
        work=work_of(trace, program.operators) if family is None else _scaled(stages.form, lengths, family),
    )


def _scaled(form: Form, lengths: Sequence[int], first: Kind) -> Work:
    """The work of a member by that of the first one: both grow with the elements of all values."""
    ratio = form.elements(lengths) / form.elements(cast(Ragged, first.program).lengths)
    return first.work._replace(flops=first.work.flops * ratio, bytes=round(first.work.bytes * ratio))


def _note_laid(cell: Any, natural: Sequence[Spec], found: Sequence[Spec]) -> None:
    """Lets operands of later calls lie as a kind has them: these are not captured in C."""
    laid = {(k, len(new.shape)): new.mode for k, (old, new) in enumerate(zip(natural, found)) if new is not old}
    if laid:
        cell.laid = {**laid, **(cell.laid or {})}
        cell.keys = None


def _exchange(cell: Any, old: Kind, new: Kind, batch: Batch) -> None:
    _note_laid(cell, old.operands, new.operands)
    cell.kinds = {call: new if kind is old else kind for call, kind in cell.kinds.items()}
    if old.split is None and (old.operands, old.outputs) == (new.operands, new.outputs):
        for record in batch.records.values():
            if record.kind is old:
                record.kind = new
