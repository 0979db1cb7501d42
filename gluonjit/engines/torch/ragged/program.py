"""Runs the nodes of a step whose operands have any length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from gluonjit.engines.torch.arrays import device_named, sent
from gluonjit.engines.torch.program import Program
from gluonjit.engines.torch.ragged.building import LengthStage, Source, Stages, weights_of
from gluonjit.engines.torch.trace import Trace

Members = Sequence[tuple["Ragged", int]]
"""The nodes of a step: programs of members, each with how many nodes follow one another that it is for."""


class Ragged(Program):
    """The program of a member: of nodes of one length, and of any other member's in the same step.

    stages: those of the form that all members have; lengths: this one's sizes, in the form's order.
    """

    by_length = True

    def __init__(self, stages: Stages, trace: Trace, results: Sequence[int], lengths: Sequence[int]) -> None:
        super().__init__(trace, results, stages.rows + len(stages.stages))
        self.stages = stages
        self.lengths = tuple(lengths)
        self.parts = [
            stages.program(stage, trace, self.lengths) for stage in stages.stages if isinstance(stage, LengthStage)
        ]
        self.consts = weights_of(stages, trace)
        own = dict(trace.consts)
        self.own = [_packed(own[source.position].unsqueeze(0), source) for source in stages.own]
        self.wide = stages.wide

    def fits(self) -> bool:
        """Tells whether its stages of one length give results of the shapes that its trace says."""
        return all([program.fits for _, program in self.parts])

    def __call__(
        self, operands: Sequence[Any], consts: Sequence[Any], count: int, besides: Sequence[Any] = ()
    ) -> list[Any]:
        """The results of `count` nodes, which `besides` says the members of."""
        members: Members = besides[0] if besides else [(self, count)]
        stages = self.stages
        found: dict[int, Any] = dict(enumerate([*operands, *consts]))
        for number, source in enumerate(stages.own):
            if source.packed is not None:
                found[source.packed.val.slot] = _joined([_times(each.own[number], n) for each, n in members])
        for length, slot in stages.owners.items():
            found[slot] = _owners(length, members, self.trace.device)
        for length, slot in stages.sizes.items():
            found[slot] = [member.lengths[length] for member, n in members for _ in range(n)]
        lists: dict[int, list[Any]] = {}
        for source in stages.taken:
            _take(source, operands[source.position], members, found, lists)
        for stage in stages.stages:
            if isinstance(stage, LengthStage):
                _run_alone(stage, members, found, lists, consts)
            else:
                found.update(zip(stage.outputs, stage.run(count, *[found[slot] for slot in stage.inputs])))
        return [
            found[final] if isinstance(final, int) else _whole(final, axes, members, found, lists)
            for final, axes in zip(stages.finals, stages.wide)
        ]


def _take(source: Source, rows: Any, members: Members, found: dict[int, Any], lists: dict[int, list[Any]]) -> None:
    """Lets an operand lie as the stages take it."""
    specs = [member.trace.operands[source.position] for member, _ in members]
    parts = rows.split([n * spec.rows for spec, (_, n) in zip(specs, members)])
    pieces = [part.reshape(n, *spec.shape) for part, spec, (_, n) in zip(parts, specs, members)]
    if source.packed is None:
        lists[source.position] = pieces
    else:
        found[source.packed.val.slot] = _joined([_packed(piece, source) for piece in pieces])


def _whole(source: Source, axes: int, members: Members, found: dict[int, Any], lists: dict[int, list[Any]]) -> Any:
    """The rows of a result, node by node, where this many axes are counted as rows."""
    return _joined([piece.reshape(-1, *piece.shape[axes + 1 :]) for piece in _pieces(source, members, found, lists)])


def _run_alone(
    stage: LengthStage, members: Members, found: dict[int, Any], lists: dict[int, list[Any]], consts: Sequence[Any]
) -> None:
    """Runs a stage for the nodes of each member, and puts its results together."""
    given = [_pieces(source, members, found, lists) for source in stage.sources]
    alike: dict[Any, list[int]] = {}
    for number, (member, _) in enumerate(members):
        alike.setdefault(member.parts[stage.number][0], []).append(number)
    made: list[list[Any]] = [[None] * len(members) for _ in stage.results]
    for numbers in alike.values():
        counts = [members[number][1] for number in numbers]
        program = members[numbers[0]][0].parts[stage.number][1]
        values = [_joined([pieces[number] for number in numbers]) for pieces in given]
        for listed, result in zip(made, program.run(sum(counts), values, consts)):
            for number, piece in zip(numbers, (result,) if len(counts) == 1 else result.split(counts)):
                listed[number] = piece
    for source, whole in zip(stage.results, made):
        if source.packed is None:
            lists[source.position] = whole
        else:
            found[source.packed.val.slot] = _joined([_packed(result, source) for result in whole])


def _pieces(source: Source, members: Members, found: dict[int, Any], lists: dict[int, list[Any]]) -> Sequence[Any]:
    """A value, (nodes, *shape) for each member."""
    packed = source.packed
    if packed is None:
        return lists[source.position]
    whole = found[packed.val.slot]
    if len(members) == 1:
        pieces = (whole,)
    else:
        pieces = whole.split([count * _rows(source, member) for member, count in members])
    if packed.axis is None:
        return [piece.reshape(n, *packed.val.shape) for piece, (_, n) in zip(pieces, members)]
    rest = packed.val.shape[1:]
    shaped = [piece.reshape(n, _rows(source, each), *rest) for piece, (each, n) in zip(pieces, members)]
    return shaped if not packed.axis else [piece.movedim(1, packed.axis + 1) for piece in shaped]


def _rows(source: Source, member: Ragged) -> int:
    """The number of rows that a value has for a node of a member, as it lies."""
    packed = source.packed
    assert packed is not None and packed.val.lead is not None
    return member.lengths[packed.length] if packed.length is not None else packed.val.lead


def _packed(whole: Any, source: Source) -> Any:
    """(nodes, *shape) with the packed axis in front, node by node."""
    packed = source.packed
    if packed is None or packed.axis is None:
        return whole
    moved = whole.movedim(packed.axis + 1, 1) if packed.axis else whole
    return moved.reshape(-1, *packed.val.shape[1:])


def _times(rows: Any, count: int) -> Any:
    return rows if count == 1 else rows.repeat(count, *[1] * (rows.dim() - 1))


def _joined(pieces: Sequence[Any]) -> Any:
    return pieces[0] if len(pieces) == 1 else torch.cat(list(pieces))


def _owners(length: int, members: Members, device: str) -> Any:
    """The node of each row of a length."""
    rows = [member.lengths[length] for member, count in members for _ in range(count)]
    return sent(np.repeat(np.arange(len(rows)), rows), device_named(device))
