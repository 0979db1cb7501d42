"""Sessions in which something else than the program itself runs the program of each step."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from gluonjit.analysis import Plan
from gluonjit.engines.torch.fused_steps import FusedSteps
from gluonjit.engines.torch.session import Session
from gluonjit.hybrid import Options, Report

Runs = Callable[..., Any]
"""Called as a program is, with the same results."""


class StepwiseSession(Session):
    """Runs each step by what `running` gives for it; none runs in C."""

    running: Callable[[Plan, Report, int], Runs]

    def _prepare(self, options: Options, samples: int) -> None:
        super()._prepare(options, samples)
        if self.tape is not None:
            # Not a method of this: the history of what can be read must not hold what holds that.
            self.tape.runs = partial(type(self).running, self.plan, self.report)

    def _fusing(self, options: Options) -> FusedSteps:
        return FusedSteps(self.plan, self.arrays, ("fused",), self.report.unfused)

    def _runs(self, number: int) -> Runs:
        return type(self).running(self.plan, self.report, number)
