"""Arrays of numbers that the steps of a flush need on their devices: rows to gather, and whose each child is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gluonjit.analysis.plan import Plan
from gluonjit.hybrid.check.runner import NodeRunner


class Indices:
    """Arrays of numbers that steps need on their devices, which travel as one.

    gathers: by step the index of each gather, None if rows follow each other; besides: what else its program is given,
    which tells nodes of different lengths apart, or whose each child is.
    """

    def __init__(self, runner: NodeRunner) -> None:
        self.runner = runner
        self.gathers: dict[int, list[Any]] = {}
        self.besides: dict[int, Sequence[Any]] = {}

    def upload(self, plan: Plan, steps: Sequence[int]) -> None:
        """Adds those of these steps."""
        listed = plan.indices(steps)
        for number in steps:
            step = plan.steps[number]
            self.gathers[number] = [None] * len(step.gathers)
            if step.kind.program.stages is not None:
                self.besides[number] = ([(part.record.kind.program, len(part.nodes)) for part in step.parts],)
        self.add_children(plan, [number for number in steps if plan.steps[number].arities is not None], listed)
        for device, wanted in listed.items():
            array, begin = self.runner.index(np.concatenate([index for _, _, index in wanted]), device), 0
            for number, position, index in wanted:
                part = self.runner.slice_rows(array, begin, begin + len(index))
                begin += len(index)
                if position < 0:
                    self.besides[number] = (part,)
                else:
                    self.gathers[number][position] = part

    def add_children(self, plan: Plan, steps: list[int], listed: dict[str, list[Any]]) -> None:
        """Adds whose each child is in these steps, to what is to be sent, with -1 for a gather."""
        for number in steps:
            step = plan.steps[number]
            listed.setdefault(step.kind.operands[0].device, []).append((number, -1, step.owners))
