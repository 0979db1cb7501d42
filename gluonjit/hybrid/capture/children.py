"""Finds calls of one cell that differ only in the number of children, and gives them one program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, NamedTuple

from gluonjit.graph.kinds import Kind, family_key
from gluonjit.graph.values import Spec
from gluonjit.hybrid.run.batch import Batch
from gluonjit.program.axes.values import NotBatchable
from gluonjit.program.children.reading import Operators, read
from gluonjit.program.children.table import ForChildren, Read, Roles, ValueTable
from gluonjit.program.trace import Trace

Looks = tuple[Any, ...]
_MOST_OPERANDS = 5  # of one row each, of which any may be those of the only child


class CallForm(NamedTuple):
    """One way to read a call: the part common to calls with more or fewer children, and each child's operands.

    With `of_rows` there is one entry for all children, whose operands have a row for each of them.
    """

    common: Looks
    children: tuple[tuple[int, ...], ...]
    of_rows: bool = False


class _Argument(NamedTuple):
    """The form of an argument, and the operands in it, in order."""

    looks: Looks
    operands: tuple[int, ...]
    items: tuple[_Argument, ...] = ()


def forms(args: Sequence[Any], specs: Sequence[Spec], is_array: Callable[[Any], bool]) -> Iterator[CallForm]:
    """Returns the ways to read a call: its lists are the children, or its last arguments are."""
    numbers = iter(range(len(specs)))
    found = [_look(arg, specs, numbers, is_array) for arg in args]
    yield from _in_lists(found)
    for first in range(len(found)):
        last = found[first:]
        if last[0].operands and _alike(last):
            common = ("last", *[argument.looks for argument in found[:first]], last[0].looks)
            yield CallForm(common, tuple([argument.operands for argument in last]))


def forms_of_rows(specs: Sequence[Spec]) -> Iterator[CallForm]:
    """More ways to read a call: some operands have a row for each child. A single row may be one child's, or none's."""
    rows = [position for position, spec in enumerate(specs) if spec.mode == "rows"]
    counts = {specs[position].rows for position in rows}
    several = counts - {1}
    if len(several) > 1 or not rows:
        return
    if several:
        (count,) = several
        yield _of_rows(specs, tuple([position for position in rows if specs[position].rows == count]))
    elif len(rows) <= _MOST_OPERANDS:
        for size in range(len(rows), 0, -1):
            for chosen in combinations(rows, size):
                yield _of_rows(specs, chosen)


def _of_rows(specs: Sequence[Spec], chosen: tuple[int, ...]) -> CallForm:
    common = [family_key(spec) if position in chosen else spec for position, spec in enumerate(specs)]
    return CallForm(("rows", chosen, *common), (chosen,), True)


def _in_lists(found: Sequence[_Argument]) -> Iterator[CallForm]:
    """Every list of equal items is a list with one for each child; all are equally long."""
    lists = [argument for argument in found if argument.operands and _alike(argument.items)]
    if not lists or len({len(argument.items) for argument in lists}) > 1:
        return
    listed = {id(argument) for argument in lists}
    common = [
        ("any number", argument.looks[0], argument.items[0].looks) if id(argument) in listed else argument.looks
        for argument in found
    ]
    items = zip(*[argument.items for argument in lists])
    yield CallForm(("lists", *common), tuple([sum([item.operands for item in child], ()) for child in items]))


def _look(arg: Any, specs: Sequence[Spec], numbers: Iterator[int], is_array: Callable[[Any], bool]) -> _Argument:
    if is_array(arg):
        number = next(numbers)
        return _Argument(("array", specs[number]), (number,))
    is_list = isinstance(arg, (list, tuple))
    if is_list or isinstance(arg, (dict, slice)):
        names: tuple[Any, ...] = tuple(arg) if isinstance(arg, dict) else ()
        parts = (arg.start, arg.stop, arg.step) if isinstance(arg, slice) else arg.values() if names else arg
        items = tuple([_look(item, specs, numbers, is_array) for item in parts])
        operands = tuple([operand for item in items for operand in item.operands])
        return _Argument((type(arg), names, *[item.looks for item in items]), operands, items if is_list else ())
    return _Argument(("constant", type(arg), arg), ())


def _alike(items: Sequence[_Argument]) -> bool:
    return bool(items) and all(item.looks == items[0].looks for item in items)


_MOST_TRIES = 8
_MOST_MEMBERS = 64
_TOLD = "told"  # among joints: why kinds are by number, by that of the kind
_UNLIKE = "it does not treat every child alike for any number of children"


class TracedKind(NamedTuple):
    """A kind with what it was made from. `origins`: for each operand which one of the call it is, or comes from, and
    how many others that come from it stand before it."""

    kind: Kind
    trace: Trace
    origins: tuple[tuple[int, int], ...]


class Maker(NamedTuple):
    """The engine's part of joining."""

    operators: Operators
    is_array: Callable[[Any], bool]  # whether an argument is an operand
    build: Callable[[ForChildren], Any]  # the batched program; raises NotBatchable
    current: Callable[[Kind], bool] = lambda kind: True  # whether a call of its signature would still give a kind
    adopt: Callable[[Any, Sequence[Kind]], None] = lambda built, kinds: None  # the data of the kinds' programs


class Member(NamedTuple):
    """A call with a number of children, and what it was read as, or why it could not be."""

    traced: TracedKind
    roles: Roles
    children: int
    read: list[Any]


@dataclass
class Joint:
    """Calls of one form: those so far, and the program for any number of children once it exists."""

    members: list[Member] = field(default_factory=list)
    table: ValueTable = field(default_factory=ValueTable)
    base: Read | None = None
    program: Any = None
    first: Kind | None = None
    tries: int = 0

    def read(self, maker: Maker, member: Member) -> Read | str:
        """Reads a call; returns the reason where that is not possible."""
        if not member.read:
            try:
                member.read.append(read(self.table, maker.operators, member.traced.trace, member.roles))
            except NotBatchable as unlike:
                member.read.append(str(unlike))
        return member.read[0]  # type: ignore[no-any-return]

    def alike(self, base: Read, member: Member) -> bool:
        """True if a call that was read is what others are, with this number of children."""
        return bool(member.read[0] == (base if member.children > 1 else self.table.of_one_child(base)))

    def kind(self, member: Member) -> Kind:
        """A kind that runs together with the others."""
        kind = replace(
            member.traced.kind, program=self.program, poly=False, children=member.roles.roles, family=self.first
        )
        self.first = self.first or kind
        return kind


def join(
    maker: Maker,
    cell: Any,
    key: Any,
    args: Sequence[Any],
    specs: Sequence[Spec],
    new: TracedKind,
    batch: Batch,
) -> Kind:
    """The kind of a call: `new.kind`, or where calls with other numbers of children were met that it is like one that
    runs together with theirs. The kinds of those are exchanged, in the open batch too."""
    reasons: list[str] = []
    told: dict[int, str] = cell.joints.get(_TOLD, {})
    for form in [*forms(args, specs, maker.is_array), *forms_of_rows(specs)]:
        roles = _roles(form, new)
        if roles is None:
            continue
        joint = _joint(maker, cell, (*key, form.common))
        member = Member(new, roles, roles.count(new.trace.operands), [])
        if joint.base is not None:
            if isinstance(joint.read(maker, member), Read) and joint.alike(joint.base, member):
                return joint.kind(member)
            reason = _UNLIKE
        else:
            if len(joint.members) < _MOST_MEMBERS:
                joint.members.append(member)
            reason = _together(maker, joint)
            if joint.base is not None:
                kinds = {id(one.traced.kind): joint.kind(one) for one in joint.members}
                if [one for one in joint.members if told.pop(one.traced.kind.number, "")] and not told:
                    cell.by_number = ""
                    batch.report.by_number.pop(cell.name, None)
                joint.members.clear()
                exchange(cell, batch, kinds)
                if id(new.kind) in kinds:
                    return kinds[id(new.kind)]
        # A kind for any number of rows is one as it is, whatever was in the way of reading its rows as children.
        if reason and not (form.of_rows and new.kind.poly):
            reasons.append(reason)
    if reasons:
        cell.by_number = told[new.kind.number] = reasons[0]
        cell.joints[_TOLD] = told
    return new.kind


def exchange(cell: Any, batch: Batch, kinds: Mapping[int, Kind]) -> None:
    """Exchanges kinds, by their addresses, of later calls; in the open batch where operands and results stay alike."""
    cell.kinds = {call: _exchanged(kind, kinds) for call, kind in cell.kinds.items()}
    for record in batch.records.values():
        old, new = record.kind, _exchanged(record.kind, kinds)
        if old.split is None and (old.operands, old.outputs) == (new.operands, new.outputs):
            record.kind = new


def _exchanged(kind: Kind, kinds: Mapping[int, Kind]) -> Kind:
    """Returns the replacement of a kind; or else a split kind stays, with another rest."""
    if kind.split is not None and id(kind) not in kinds:
        kind.rest_by(kinds.get(id(kind.split.rest), kind.split.rest))
    return kinds.get(id(kind), kind)


def _joint(maker: Maker, cell: Any, key: Any) -> Joint:
    """Finds the data on calls of one form, as long as parameters are the arrays they were traced with."""
    joint: Joint | None = cell.joints.get(key)
    if joint is None or (joint.first is not None and not maker.current(joint.first)):
        joint = cell.joints[key] = Joint()
    joint.members = [member for member in joint.members if maker.current(member.traced.kind)]
    return joint


def _roles(form: CallForm, new: TracedKind) -> Roles | None:
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


def _groups(maker: Maker, joint: Joint) -> Iterator[tuple[Read, list[Member]]]:
    """Calls that were read as one program, those of most children first."""
    members = [one for one in joint.members if isinstance(joint.read(maker, one), Read)]
    bases = sorted([one for one in members if one.children > 1], key=lambda one: -one.children)
    for base in dict.fromkeys([one.read[0] for one in bases]):
        alike = [one for one in members if joint.alike(base, one)]
        if len({one.children for one in alike}) > 1:
            yield base, alike


def _together(maker: Maker, joint: Joint) -> str:
    """Makes the program of calls so far that are alike, if there are any. Says what is in the way."""
    if len({member.children for member in joint.members}) < 2 or joint.tries >= _MOST_TRIES:
        return ""
    reason = next((str(one.read[0]) for one in joint.members if isinstance(joint.read(maker, one), str)), _UNLIKE)
    for base, alike in _groups(maker, joint):
        joint.tries += 1
        traced, roles, *_ = max(alike, key=lambda one: one.children)
        try:
            if any([spec.rows != 1 for spec in roles.specs(traced.trace.operands)]):
                raise NotBatchable("an operand has several rows")
            of = joint.table.program(base, traced.trace, roles)
            built = maker.build(of)
        except NotBatchable as refusal:
            return str(refusal)
        built.program.children = of
        maker.adopt(built, [one.traced.kind for one in alike])
        joint.base, joint.program, joint.members = base, built.program, alike
        return ""
    return reason
