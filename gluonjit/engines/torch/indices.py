"""The indices of a plan's steps on their device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gluonjit.analysis import Plan
from gluonjit.engines.torch.arrays import device_named, sent


def owners_of(plan: Plan, steps: Sequence[int]) -> dict[int, tuple[Any, ...]]:
    """For each of these steps whose nodes have any number of children whose child each is."""
    found: dict[int, tuple[Any, ...]] = {}
    for number in steps:
        step = plan.steps[number]
        if step.arities is not None:
            found[number] = (sent(step.owners, device_named(step.kind.operands[0].device)),)
    return found


def uploaded(plan: Plan, steps: Sequence[int]) -> dict[int, list[Any]]:
    """The index tensor of each gather of these steps, None where rows follow each other. They travel as one."""
    found: dict[int, list[Any]] = {number: [None] * len(plan.steps[number].gathers) for number in steps}
    for device, wanted in plan.indices(steps).items():
        packed = sent(np.concatenate([index for _, _, index in wanted]), device_named(device))
        parts = packed.split([len(index) for _, _, index in wanted])
        for (number, position, _), part in zip(wanted, parts):
            found[number][position] = part
    return found
