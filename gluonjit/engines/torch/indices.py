"""The indices of a plan's steps on their device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gluonjit.analysis.plan import Plan
from gluonjit.engines.torch.arrays import device_named, sent
from gluonjit.engines.torch.program import program_of

_OWNERS = -1  # in place of a gather's number


class Indices(NamedTuple):
    """Index tensors by step.

    gathers: that of each gather, None if rows follow each other; besides: whose child each is, for steps whose nodes
    have any number of children.
    """

    gathers: dict[int, list[Any]]
    besides: dict[int, tuple[Any, ...]]

    def upload(self, plan: Plan, steps: Sequence[int]) -> None:
        """Adds those of these steps. They travel as one."""
        listed = plan.indices(steps)
        for number in steps:
            step = plan.steps[number]
            self.gathers[number] = [None] * len(step.gathers)
            if program_of(step.kind).by_length:
                self.besides[number] = ([(program_of(part.record.kind), len(part.nodes)) for part in step.parts],)
            if step.arities is not None:
                listed.setdefault(step.kind.operands[0].device, []).append((number, _OWNERS, step.owners))
        for device, wanted in listed.items():
            packed = sent(np.concatenate([index for _, _, index in wanted]), device_named(device))
            parts = packed.split([len(index) for _, _, index in wanted])
            for (number, position, _), part in zip(wanted, parts):
                if position == _OWNERS:
                    self.besides[number] = (part,)
                else:
                    self.gathers[number][position] = part
