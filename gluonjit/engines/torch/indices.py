"""The indices of a plan's steps on their device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gluonjit.analysis.plan import Plan
from gluonjit.engines.torch.arrays import device_named, sent
from gluonjit.hybrid.run import stepping


class Indices(stepping.Indices):
    """Index tensors by step. Owners of children travel with them."""

    def sent(self, device: str, parts: list[Any]) -> Sequence[Any]:
        found: Sequence[Any] = sent(np.concatenate(parts), device_named(device)).split([*map(len, parts)])
        return found

    def add_children(self, plan: Plan, steps: list[int], listed: dict[str, list[Any]]) -> None:
        for number in steps:
            step = plan.steps[number]
            listed.setdefault(step.kind.operands[0].device, []).append((number, -1, step.owners))
