"""Finds calls of one cell that differ only in the number of children, and gives them one program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from gluonjit.graph.kinds import Kind
from gluonjit.graph.values import Spec
from gluonjit.hybrid.capture.variadic.forms import VariadicForm, forms, forms_of_rows
from gluonjit.hybrid.capture.variadic.program import Variadic, make_variadic
from gluonjit.hybrid.capture.variadic.reading import Dialect, Unlike
from gluonjit.hybrid.capture.variadic.roles import Roles
from gluonjit.hybrid.capture.variadic.terms import is_like
from gluonjit.hybrid.run.batch import Batch
from gluonjit.program.trace import Trace

_MOST_TRIES = 8
_MOST_MEMBERS = 64


class TracedKind(NamedTuple):
    """A kind with what it was made from. `origins`: for each operand which one of the call it is, or comes from, and
    how many others that come from it stand before it."""

    kind: Kind
    trace: Trace
    origins: tuple[tuple[int, int], ...]


class VariadicCell(Protocol):
    """The part of a cell common to calls with any number of children."""

    kinds: dict[Any, Kind]
    joints: dict[Any, Any]
    by_number: str


class Maker(NamedTuple):
    """The engine's part of joining."""

    dialect: Dialect
    refused: type[Exception]  # what `build` raises if there is no program
    of_rows: bool  # whether operands with a row for each child are read so
    is_array: Callable[[Any], bool]  # whether an argument is an operand
    build: Callable[[Variadic, Roles, Trace], Any]  # the batched program; from one of the traces that it is made from
    current: Callable[[Kind], bool] = lambda kind: True  # whether a call of its signature would still give a kind
    adopt: Callable[[Any, Sequence[Kind]], None] = lambda built, kinds: None  # the data of the kinds' programs


@dataclass
class Joint:
    """Calls of one form: their traces so far, and the program for any number of children once it exists."""

    members: list[tuple[TracedKind, Roles]] = field(default_factory=list)
    variadic: Variadic | None = None
    built: Any = None
    first: Kind | None = None
    tries: int = 0
    reason: str = ""


def join(
    maker: Maker,
    cell: VariadicCell,
    key: Any,
    args: Sequence[Any],
    specs: Sequence[Spec],
    new: TracedKind,
    batch: Batch,
) -> Kind:
    """The kind of a call: `new.kind`, or where calls with other numbers of children were met that it is like one that
    runs together with theirs. The kinds of those are exchanged, in the open batch too."""
    reasons: list[tuple[str, VariadicForm]] = []
    ways = [*forms(args, specs, maker.is_array), *(forms_of_rows(specs) if maker.of_rows else ())]
    for form in ways:
        roles = _roles(form, new)
        if roles is None:
            continue
        joint = _joint(maker, cell, (*key, form.common))
        if joint.variadic is not None:
            if is_like(joint.variadic, new.trace, roles, maker.dialect):
                return _member(maker, joint, new, roles)
            reasons.append((_UNLIKE, form))
            continue
        if len(joint.members) < _MOST_MEMBERS:
            joint.members.append((new, roles))
        found = _make_variadic(maker, joint)
        if found is not None:
            kinds = {id(traced.kind): _member(maker, joint, traced, known) for traced, known in found}
            for record in batch.records.values():
                record.kind = _exchanged(record.kind, kinds)
            cell.kinds = {call: _exchanged(kind, kinds) for call, kind in cell.kinds.items()}
            if id(new.kind) in kinds:
                return kinds[id(new.kind)]
        elif joint.reason:
            reasons.append((joint.reason, form))
    # A kind for any number of rows is one as it is, whatever was in the way of reading its rows as children.
    told = [reason for reason, form in reasons if not (form.of_rows and new.kind.poly)]
    if told:
        cell.by_number = told[0]
    return new.kind


def _exchanged(kind: Kind, kinds: Mapping[int, Kind]) -> Kind:
    """Returns the replacement of a kind; a split kind stays, with another rest."""
    if kind.split is None:
        return kinds.get(id(kind), kind)
    kind.rest_by(kinds.get(id(kind.split.rest), kind.split.rest))
    return kind


def _joint(maker: Maker, cell: VariadicCell, key: Any) -> Joint:
    """Finds the data on calls of one form, as long as parameters are the arrays they were traced with."""
    joint: Joint | None = cell.joints.get(key)
    if joint is None or (joint.first is not None and not maker.current(joint.first)):
        joint = cell.joints[key] = Joint()
    joint.members = [member for member in joint.members if maker.current(member[0].kind)]
    return joint


_UNLIKE = "it does not treat every child alike for any number of children"


def _roles(form: VariadicForm, new: TracedKind) -> Roles | None:
    """Returns the operand of each child for each role; None if children do not have the same roles."""
    children = form.children
    if form.of_rows:
        positions = [position for position, (operand, _) in enumerate(new.origins) if operand in children[0]]
        return Roles(tuple([(position,) for position in positions]), True) if positions else None
    owner = {operand: (child, place) for child, listed in enumerate(children) for place, operand in enumerate(listed)}
    found: dict[tuple[int, int], dict[int, int]] = {}
    for position, (operand, part) in enumerate(new.origins):
        if operand in owner:
            child, place = owner[operand]
            found.setdefault((place, part), {})[child] = position
    if not found or any(len(of) != len(children) for of in found.values()):
        return None
    specs = new.trace.operands
    roles = tuple([tuple([of[child] for child in range(len(children))]) for of in found.values()])
    alike = all(specs[position] is specs[role[0]] for role in roles for position in role)
    return Roles(roles) if alike else None


def _make_variadic(maker: Maker, joint: Joint) -> list[tuple[TracedKind, Roles]] | None:
    """Returns the calls so far that share one program, which `joint` then has. None if there are fewer than two."""
    if len({_children(member) for member in joint.members}) < 2 or joint.tries >= _MOST_TRIES:
        return None
    joint.tries += 1
    refusals: tuple[type[Exception], ...] = (Unlike, maker.refused)
    (_, trace, _), roles = max(joint.members, key=_children)
    try:
        variadic = make_variadic(trace, roles, maker.dialect)
        found = [
            (traced, known) for traced, known in joint.members if is_like(variadic, traced.trace, known, maker.dialect)
        ]
        if len({_children(member) for member in found}) < 2:
            raise Unlike(_UNLIKE)
        built = maker.build(variadic, roles, trace)
    except refusals as refusal:
        joint.reason = str(refusal)
        return None
    maker.adopt(built, [traced.kind for traced, _ in found])
    joint.variadic, joint.built, joint.members = variadic, built, []
    return found


def _children(member: tuple[TracedKind, Roles]) -> int:
    traced, roles = member
    return roles.count(traced.trace.operands)


def _member(maker: Maker, joint: Joint, traced: TracedKind, roles: Roles) -> Kind:
    """Returns a kind that runs together with the others of a joint."""
    program = joint.built.program
    kind = replace(traced.kind, program=program, poly=False, children=roles.roles, family=joint.first)
    if joint.first is None:
        joint.first = kind
    return kind
