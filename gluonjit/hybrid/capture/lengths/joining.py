"""Gives calls of a cell that differ in sizes, numbers or constants alone kinds that run together."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, NamedTuple

from gluonjit.graph import Kind, Spec, Work, family_key
from gluonjit.graph.values import MODES
from gluonjit.hybrid.capture.children import exchange
from gluonjit.hybrid.capture.guards.variants import Noted
from gluonjit.hybrid.capture.lengths.deriving import JoiningEngine, Recipe, SizedCall
from gluonjit.hybrid.capture.structure import without_constants
from gluonjit.program.axes.shapes import Reshape
from gluonjit.program.axes.values import NotBatchable
from gluonjit.program.lengths.form import Form
from gluonjit.program.lengths.stages import ALONE, Stages
from gluonjit.program.sizes import NotDerivable, OtherForm
from gluonjit.program.trace import Trace
from gluonjit.rows.program import NotFusable

_KEY = "lengths"
_FEW = 3  # forms and calls without one, of a cell whose calls run together: training and inference may differ
_MOST = 8  # traces that wait for one like them, forms, and calls of a form by which others are derived


class _Waiting(NamedTuple):
    """A kind that no other is like so far, what it was made from, and how operands of that have to lie."""

    kind: Kind
    traced: Any
    noted: Noted
    fixed: Sequence[Spec | None]


@dataclass
class _Found:
    """A form, its stages, and the first kind of it, with what that was made from.

    stages: None where kinds run together anyway, for any number of rows; calls, recipes: those that were traced, and
    how they differ, by their signatures but for sizes.
    """

    engine: JoiningEngine
    form: Form
    stages: Stages | None
    first: Kind
    origin: _Waiting
    calls: dict[Any, list[SizedCall]] = field(default_factory=dict)
    recipes: dict[Any, list[Recipe]] = field(default_factory=dict)

    def note(self, noted: Noted, traced: Any, lengths: tuple[int, ...], structure: Any) -> None:
        """Notes a call that was traced; not of size 1, which frameworks may treat like one that is broadcast."""
        listed = self.calls.setdefault(noted.signature, [])
        if len(listed) < _MOST and min(lengths, default=0) > 1:
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
                    self.recipes[signature].append(Recipe(self.engine, self.form, calls))
        return self.recipes[signature]


@dataclass
class _Lengths:
    """The calls of a cell: those that wait for others like them, the forms found, and how many had no stages.

    by_family: calls of kinds for any number of rows, until they have a form.
    """

    refused: int = 0
    by_family: dict[Any, list[_Waiting] | _Found] = field(default_factory=dict)
    waiting: list[_Waiting] = field(default_factory=list)
    found: list[_Found] = field(default_factory=list)


@dataclass
class Joiner:
    """Finds kinds of calls of any length, for an engine.

    A call has its `cell`, `batch`, the `values` of its arrays, and what it has `noted` of Python's state; what was
    traced of it a `trace`, and `draws`: whether it draws random numbers, or does more than to give results.
    """

    _engine: JoiningEngine

    def runs_in_c(self, kind: Kind) -> bool:
        """True if steps of a kind have a row program."""
        with suppress(NotFusable):
            self._engine.row_program(kind)
            return True
        return False

    def _known(self, call: Any) -> list[_Found]:
        known: _Lengths | None = call.cell.joints.get(_KEY)
        if known is None or "arity" in call.batch.options.without:
            return []
        known.found = [found for found in known.found if self._engine.current(found.first)]
        return [*known.found, *[each for each in known.by_family.values() if isinstance(each, _Found)]]

    def derived(self, call: Any) -> Kind | None:
        """The kind of a call of a new size, from traced calls of other sizes: the program is not run again for it."""
        operands = tuple(value.spec for value in call.values)
        for found in self._known(call):
            with self._engine.quiet():
                recipes = found.recipes_of(call.noted.signature)
            for recipe in recipes:
                kind = self._derived(found, recipe, operands)
                if kind is not None and _lie(self._engine.fixed(call), kind.operands):
                    call.noted.facts, call.noted.kept = recipe.facts, recipe.kept
                    return kind
        return None

    def _derived(self, found: _Found, recipe: Recipe, operands: tuple[Spec, ...]) -> Kind | None:
        """The kind of a call with these operands by a recipe, if that fits."""
        try:
            with self._engine.quiet():
                if not all(fact.holds() for fact in recipe.facts):
                    return None
                trace, lengths = recipe.trace(operands)
                like = replace(found.first, structure=recipe.structure)
                if found.stages is None:
                    return self._of_rows(like, trace)
                kind = self._member(like, trace, found.stages, lengths, found.first)
                program: Any = kind.program
                return kind if program.fits() else None
        except (NotDerivable, NotBatchable):
            return None

    def of_other_lengths(self, call: Any, traced: Any, structure: Any) -> Kind | None:
        """The kind of a traced call that differs in sizes alone from others of its cell, whose kinds run together."""
        for found in self._known(call):
            kind = self._of_form(found, traced, call.noted, structure)
            if kind is not None and _lie(self._engine.fixed(call), kind.operands):
                return kind
        return None

    def _of_form(self, found: _Found, traced: Any, noted: Noted, structure: Any) -> Kind | None:
        """The kind of a traced call if it has this form."""
        first, stages = found.first, found.stages
        if (
            stages is None
            or without_constants(first.structure) != without_constants(structure)
            or first.pure == traced.draws
        ):
            return None
        try:
            lengths = stages.form.lengths_of(traced.trace)
            like = replace(first, structure=structure)
            kind = self._member(like, traced.trace, stages, lengths, first)
        except (OtherForm, NotBatchable):
            return None
        found.note(noted, traced, lengths, structure)
        return kind

    def join(self, call: Any, kind: Kind, traced: Any) -> Kind:
        """The kind of a call: `kind`, or where one with other sizes was met one that runs together with its kind.

        That is exchanged, in the open batch too if the rows of its results stay as they are.
        """
        cell, batch = call.cell, call.batch
        if kind.pure and not (kind.apart or kind.lone or kind.split) and kind.call is traced.trace:
            self._note_rows(call, kind, traced)
        if not _may_differ(kind, traced.trace, cell.operator) or "arity" in batch.options.without:
            return kind
        known: _Lengths = cell.joints.setdefault(_KEY, _Lengths())
        new = _Waiting(kind, traced, call.noted, self._engine.fixed(call))
        wider = [each.origin for each in known.found]  # of which sizes that were equal differ now
        for other in [*known.waiting, *wider] if max(len(known.found), known.refused) < _MOST else ():
            made = self._joined(known, other, new)
            if made is not None:
                found, own = made
                if other in known.waiting:
                    known.waiting.remove(other)
                known.found.insert(0, found)
                known.by_family.clear()  # their kinds may be exchanged
                cell.by_number = ""
                pairs = [(other.kind, found.first)]
                for waiting in list(known.waiting):  # of the same lengths, but with gradients, or without
                    again = self._of_form(found, waiting.traced, waiting.noted, waiting.kind.structure)
                    if again is not None and _lie(waiting.fixed, again.operands):
                        known.waiting.remove(waiting)
                        pairs.append((waiting.kind, again))
                for old, again in pairs:
                    _note_laid(cell, old.operands, again.operands)
                exchange(cell, batch, {id(old): again for old, again in pairs})
                return own
        known.waiting = [*known.waiting[1 - _MOST :], new]
        return kind

    def _joined(self, known: _Lengths, other: _Waiting, new: _Waiting) -> tuple[_Found, Kind] | None:
        """The form of two calls, with the kind of the second; None if they differ in more than sizes."""
        calls, engine = (other, new), self._engine
        if _rest(other.kind).family is _rest(new.kind).family or not engine.current(other.kind):
            return None
        before, now = [each.traced.trace for each in calls]
        try:
            with engine.quiet():
                form = Form(before, now, engine.equal, self._is_view)
                if not all(_lie(each.fixed, form.laid(each.traced.trace).operands) for each in calls):
                    return None
                if not (form.lengths or self._gains(form, other.kind)):
                    return None
                lengths = [form.lengths_of(trace) for trace in (before, now)]
                stages = Stages(form, engine, [*lengths, lengths[0]])
                if other.kind.operator and any(stage.way == ALONE for stage in stages.stages):
                    raise NotBatchable("it would run for each length all the same")
                first = self._member(other.kind, before, stages, lengths[0])
                own = self._member(new.kind, now, stages, lengths[1], first)
        except OtherForm:
            return None
        except NotBatchable:
            known.refused += 1
            return None
        found = _Found(engine, form, stages, first, other)
        for each, kind, sizes in zip(calls, (first, own), lengths):
            found.note(each.noted, each.traced, sizes, kind.structure)
        return found, own

    def _note_rows(self, call: Any, kind: Kind, traced: Any) -> None:
        """Notes a call of a kind for any number of rows, by which those with other numbers are derived."""
        if not (kind.poly or kind.children) or all(spec.rows < 2 for spec in kind.operands):
            return
        known = call.cell.joints.setdefault(_KEY, _Lengths()).by_family
        found = known.setdefault(kind.family, [])
        fresh = [_Waiting(kind, traced, call.noted, self._engine.fixed(call))]
        try:
            if isinstance(found, list):
                fresh = [*found[1 - _MOST :], *fresh]
                form = Form(fresh[0].traced.trace, traced.trace, self._engine.equal, self._is_view)
                known[kind.family] = found = (
                    _Found(self._engine, form, None, fresh[0].kind, fresh[0]) if form.lengths else fresh
                )
            for each in fresh if isinstance(found, _Found) else ():
                found.note(each.noted, each.traced, found.form.lengths_of(each.traced.trace), each.kind.structure)
        except OtherForm:
            return

    def _of_rows(self, like: Kind, trace: Trace) -> Kind:
        """The kind of another number of rows, for which the program is that of one like it. Raises NotDerivable."""
        if any(family_key(own) != family_key(spec) for own, spec in zip(like.operands, trace.operands)):
            raise NotDerivable
        outputs, rows = trace.outputs([MODES.index(output.spec.mode) for output in like.outputs])
        work = self._engine.work_of(trace, like.work.ops)
        return replace(like, operands=trace.operands, outputs=outputs, rows=rows, call=trace, work=work)

    def _gains(self, form: Form, kind: Kind) -> bool:
        """True if calls that differ in numbers or constants alone should run together, and not as steps in C.

        Constants travel with each node then, so they may not be larger than the operands.
        """
        shapes = [form.trace.shapes[position][0] for position in form.own]
        small = sum(map(prod, shapes)) <= sum([prod(spec.shape) for spec in kind.operands])
        return bool(form.numbers or shapes) and small and not self.runs_in_c(kind)

    def _is_view(self, name: str) -> bool:
        return isinstance(self._engine.row_of(name), Reshape)

    def _member(self, like: Kind, trace: Trace, stages: Stages, lengths: tuple[int, ...], family: Any = None) -> Kind:
        """A kind that runs together with the others of its form. Raises NotBatchable."""
        engine = self._engine
        with engine.quiet():
            program = engine.member(like, stages, trace, lengths)
        trace = program.trace
        outputs, rows = trace.outputs(stages.wide)
        work = engine.work_of(trace, program.operators) if family is None else _scaled(stages.form, lengths, family)
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
            work=work,
        )


def joins(cell: Any) -> bool:
    """True if calls of a cell that differ in sizes run together, with few exceptions."""
    known: _Lengths | None = cell.joints.get(_KEY)
    return known is not None and bool(known.found) and len(known.found) + len(known.waiting) <= _FEW


def without_sizes(wanted: tuple[Any, ...]) -> tuple[Any, ...]:
    """A signature but for the sizes of operands."""
    return tuple((len(item.shape), item.dtype, item.device) if item.__class__ is Spec else item for item in wanted)


def _lie(fixed: Sequence[Spec | None], specs: Sequence[Spec]) -> bool:
    """True if operands may lie so."""
    return all(spec is None or spec is other for spec, other in zip(fixed, specs))


def _may_differ(kind: Kind, trace: Trace, operator: bool) -> bool:
    """True if calls like this may come with other sizes, and do not run with them already."""
    rest = _rest(kind)
    if kind.lone or rest.children or kind.apart:
        return False
    if operator and rest.poly and any(spec.rows > 1 for spec in kind.operands):
        return False  # it runs for any number of rows, and of what else differs there are few
    return any(max(spec.shape[rest.poly :], default=1) > 1 for spec in trace.operands)


def _rest(kind: Kind) -> Kind:
    return kind if kind.split is None else kind.split.rest


def _scaled(form: Form, lengths: Sequence[int], first: Kind) -> Work:
    """The work of a member by that of the first one: both grow with the elements of all values."""
    program: Any = first.program
    ratio = form.elements(lengths) / form.elements(program.lengths)
    return first.work._replace(flops=first.work.flops * ratio, bytes=round(first.work.bytes * ratio))


def _note_laid(cell: Any, natural: Sequence[Spec], found: Sequence[Spec]) -> None:
    """Lets arrays of later calls be leaves that lie as a kind has them; C forgets by what it has found other kinds."""
    laid = {(k, len(new.shape)): new.mode for k, (old, new) in enumerate(zip(natural, found)) if new is not old}
    if laid:
        cell.laid = {**laid, **(cell.laid or {})}
        cell.keys = None
