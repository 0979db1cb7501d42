"""Runs the nodes of a step whose operands have any length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from gluonjit.engines.torch.arrays import sent
from gluonjit.engines.torch.program import Program
from gluonjit.engines.torch.ragged.running import StageRun
from gluonjit.engines.torch.ragged.stages import LengthStage, Source
from gluonjit.program.trace import Trace

Members = Sequence[tuple["Ragged", int]]
"""The nodes of a step: programs of members, each with how many nodes follow one another that it is for."""


class Ragged(Program):
    """The program of a member: of nodes of one length, and of any other member's in the same step.

    stages: those of the form that all members have; lengths: this one's sizes, in the form's order.
    """

    by_length = True

    def __init__(self, stages: Any, trace: Trace, lengths: Sequence[int]) -> None:
        super().__init__(trace, stages.rows + len(stages.stages))
        self.stages = stages
        self.checks = stages.checks
        self.lengths = tuple(lengths)
        self._keys: dict[int, Any] = {}
        self.consts = stages.weights_of(trace)
        own = dict(trace.constants())
        self.own = [_packed(own[source.position].unsqueeze(0), source) for source in stages.own]
        self.wide = stages.wide

    def key(self, stage: LengthStage) -> Any:
        """A key of the programs of a stage, equal for members that share one."""
        found = self._keys.get(stage.number)
        if found is None:
            found = self._keys[stage.number] = self.stages.key(stage, self.trace, self.lengths)
        return found

    def part(self, stage: LengthStage) -> Any:
        """The program of a stage for nodes of this member's lengths."""
        return self.stages.program(stage, self.trace, self.key(stage))

    def fits(self) -> bool:
        """Tells whether its stages of one length give results of the shapes that its trace says.

        Where nodes of many lengths run at once, all shapes follow from the lengths.
        """
        stages = self.stages
        return all(
            [
                self.part(stage).fits
                for stage in stages.stages
                if isinstance(stage, LengthStage) and stage.number not in stages.pads
            ]
        )

    def __call__(
        self, operands: Sequence[Any], consts: Sequence[Any], count: int, besides: Sequence[Any] = ()
    ) -> list[Any]:
        """The results of `count` nodes, which `besides` says the members of."""
        members: Members = besides[0] if besides else [(self, count)]
        stages = self.stages
        found: dict[int, Any] = dict(enumerate([*operands, *consts]))
        run = StageRun(stages, members, found, self.trace.device)
        for number, source in enumerate(stages.own):
            if source.packed is not None:
                found[source.packed.val.slot] = _joined([_times(each.own[number], n) for each, n in members])
            else:
                run.lists[source.position] = [each.own[number][0] for each, n in members for _ in range(n)]
        for length, slot in stages.owners.items():
            found[slot] = sent(np.repeat(np.arange(count), run.sizes(length)), run.device)
        for length, slot in stages.sizes.items():
            found[slot] = run.sizes(length)
        for source in stages.taken:
            run.take(source, operands[source.position])
        for stage in stages.stages:
            if isinstance(stage, LengthStage):
                run.run(stage, consts)
            else:
                found.update(zip(stage.outputs, stage.run(count, *[found[slot] for slot in stage.inputs])))
        return [
            found[final] if isinstance(final, int) else run.whole(final, axes)
            for final, axes in zip(stages.finals, stages.wide)
        ]


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
