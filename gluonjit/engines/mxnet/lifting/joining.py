"""Finds calls of one cell that differ in the number of children alone, and gives them one program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from gluonjit.engines.mxnet import rules
from gluonjit.engines.mxnet.cell import Cell
from gluonjit.engines.mxnet.lifting.building import build_lifted
from gluonjit.engines.mxnet.lifting.checking import agrees
from gluonjit.engines.mxnet.lifting.forms import forms
from gluonjit.engines.mxnet.lifting.lifted import Lifted, lift
from gluonjit.engines.mxnet.lifting.reading import Unlike
from gluonjit.engines.mxnet.lifting.terms import is_like
from gluonjit.engines.mxnet.program import Built, current
from gluonjit.engines.mxnet.trace import Trace
from gluonjit.graph import Kind, Spec
from gluonjit.hybrid import Batch

_MOST_TRIES = 8
_MOST_MEMBERS = 64
Roles = tuple[tuple[int, ...], ...]


class Traced(NamedTuple):
    """A kind with what it was made from. `origins`: for each operand which one of the call it is, or comes from, and
    how many others that come from it stand before it."""

    kind: Kind
    trace: Trace
    results: tuple[int, ...]
    origins: tuple[tuple[int, int], ...]


@dataclass
class Joint:
    """Calls of one form: what was traced of them so far, and the program for any number of children once there is."""

    direct: bool
    members: list[tuple[Traced, Roles]] = field(default_factory=list)
    lifted: Lifted | None = None
    built: Built | None = None
    first: Kind | None = None
    tries: int = 0
    reason: str = ""


def join(cell: Cell, key: Any, args: Sequence[Any], specs: Sequence[Spec], new: Traced, batch: Batch) -> Kind:
    """The kind of a call: `new.kind`, or where calls with other numbers of children were met that it is like one that
    runs together with theirs. The kinds of those are exchanged, in the open batch too."""
    reasons = []
    for form in forms(args, specs):
        roles = _roles(form.children, new)
        if roles is None:
            continue
        joint = _joint(cell, (*key, form.common), "identities" not in batch.options.without)
        if joint.lifted is not None:
            if is_like(joint.lifted, new.trace, new.results, roles):
                return _member(joint, new, roles)
            reasons.append(_UNLIKE)
            continue
        if len(joint.members) < _MOST_MEMBERS:
            joint.members.append((new, roles))
        found = _lift(joint)
        if found is not None:
            kinds = {id(traced.kind): _member(joint, traced, known) for traced, known in found}
            for record in batch.records.values():
                record.kind = kinds.get(id(record.kind), record.kind)
            cell.kinds = {call: kinds.get(id(kind), kind) for call, kind in cell.kinds.items()}
            if id(new.kind) in kinds:
                return kinds[id(new.kind)]
        elif joint.reason:
            reasons.append(joint.reason)
    if reasons:
        cell.by_number = reasons[0]
    return new.kind


def _joint(cell: Cell, key: Any, direct: bool) -> Joint:
    """What is known of calls of one form, as far as parameters still are the arrays that they were traced with."""
    joint: Joint | None = cell.joints.get(key)
    if joint is None or (joint.first is not None and not current(joint.first)):
        joint = cell.joints[key] = Joint(direct)
    joint.members = [member for member in joint.members if current(member[0].kind)]
    return joint


_UNLIKE = "it does not do the same for each child, whatever their number"


def _roles(children: Sequence[tuple[int, ...]], new: Traced) -> Roles | None:
    """For each role the operand of each child; None where children do not have the same ones."""
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
    return roles if alike else None


def _lift(joint: Joint) -> list[tuple[Traced, Roles]] | None:
    """The calls so far that have one program; `joint` then has it. None where there are not two of them."""
    if len({len(roles[0]) for _, roles in joint.members}) < 2 or joint.tries >= _MOST_TRIES:
        return None
    joint.tries += 1
    (_, trace, results, _), roles = max(joint.members, key=lambda member: len(member[1][0]))
    try:
        lifted = lift(trace, results, roles)
        found = [member for member in joint.members if is_like(lifted, member[0].trace, member[0].results, member[1])]
        if len({len(known[0]) for _, known in found}) < 2:
            raise Unlike(_UNLIKE)
        built = build_lifted(lifted, trace.operands, roles, trace, joint.direct)
        if not agrees(built, [(traced.kind, known) for traced, known in found]):
            raise Unlike("run for any number of children it did not give the same numbers")
    except (Unlike, rules.NotBatchable) as refusal:
        joint.reason = str(refusal)
        return None
    built.program.parameters = [pair for traced, _ in found for pair in traced.kind.program.parameters]
    joint.lifted, joint.built, joint.members = lifted, built, []
    return found


def _member(joint: Joint, traced: Traced, roles: Roles) -> Kind:
    """A kind that runs together with the others of a joint."""
    assert joint.built is not None
    kind = replace(traced.kind, program=joint.built.program, poly=False, children=roles, family=joint.first)
    if joint.first is None:
        joint.first = kind
    return kind
