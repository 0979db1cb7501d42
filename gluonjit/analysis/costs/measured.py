"""What a calibration has measured, and the coefficients that follow from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from gluonjit.analysis.costs import features
from gluonjit.analysis.costs.coefficients import Analysis, Coefficients
from gluonjit.analysis.costs.features import Amounts
from gluonjit.analysis.costs.fit import fit_named
from gluonjit.analysis.costs.model import CostModel, Observed, ObservedBackward

Progress = Callable[[float], None]
_ANALYSIS = ("flush", "node", "step")


class Fitted(NamedTuple):
    """One part: its coefficients by name, how many different amounts were measured, and the mean relative error."""

    seconds: dict[str, float]
    points: int
    error: float


class Measured(CostModel):
    """A model that only takes down what it is shown.

    `wait` is what a wait for the engine takes by itself: profiled parts are that much too long. The same program runs
    several times, and counts with the median of its times.
    """

    def __init__(self, wait: float) -> None:
        super().__init__()
        self.wait = wait
        self._seen: dict[str, dict[tuple[tuple[str, float], ...], list[float]]] = defaultdict(dict)

    def add(self, part: str, amounts: Amounts, seconds: float) -> None:
        """So much work of this part took so long."""
        if any(amounts.values()):
            self._seen[part].setdefault(tuple(amounts.items()), []).append(max(seconds, 1e-7))

    def observe(self, seen: Observed) -> None:
        """Take down a profiled flush."""
        plan = seen.plan
        if seen.capture:
            self.add("capture", features.capture(plan, seen.calls), seen.capture)
        analysis = dict(zip(_ANALYSIS, features.analysis(plan)))
        self.add(f"analysis {seen.scheduler}", analysis, seen.analysis)
        self.add("inputs", features.inputs(plan), seen.inputs - self.wait)
        self.add("results", features.results(plan), seen.results - self.wait)
        for step, gather, compute in zip(plan.steps, seen.gather, seen.compute):
            self.add("gather", features.gather(plan, step), gather - self.wait)
            self.add("compute", features.compute(step), compute - self.wait)

    def observe_backward(self, seen: ObservedBackward) -> None:
        """Take down a profiled backward."""
        if seen.rest:
            self.add("backward", features.backward_rest(seen.plan), seen.rest - self.wait)
        for number, seconds in seen.steps:
            self.add("backward of steps", features.backward(seen.plan, seen.plan.steps[number]), seconds - self.wait)

    def fitted(self) -> dict[str, Fitted]:
        """The coefficients of each part that there are measurements of."""
        return {part: _fitted(seen) for part, seen in sorted(self._seen.items())}

    def calibrated(self, base: Coefficients) -> Coefficients:
        """Coefficients from what was measured; those that were not stay as in `base`."""
        found: dict[str, float] = {"wait": self.wait}
        analysis: dict[str, Analysis] = {}
        for part, row in self.fitted().items():
            word, _, scheduler = part.partition(" ")
            if word == "analysis":
                a, b, c = (row.seconds.get(name, 0.0) for name in _ANALYSIS)
                analysis[scheduler] = (a, b, c)
            else:
                found.update(row.seconds)
        return base.with_changes(found, analysis)


def _fitted(seen: Mapping[tuple[tuple[str, float], ...], list[float]]) -> Fitted:
    rows = [dict(amounts) for amounts in seen]
    seconds = [float(np.median(times)) for times in seen.values()]
    found = fit_named(rows, seconds)
    errors = [
        abs(sum(found.get(name, 0.0) * amount for name, amount in row.items()) - took) / took
        for row, took in zip(rows, seconds)
    ]
    return Fitted(found, len(rows), float(np.mean(errors)))
