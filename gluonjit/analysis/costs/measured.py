"""Measurements of a calibration, and the coefficients that follow from them."""

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
_IN_C = ", in C"


class Fitted(NamedTuple):
    """One part: its coefficients by name, how many different amounts were measured, and the mean relative error."""

    seconds: dict[str, float]
    points: int
    error: float


class Measured(CostModel):
    """A model that only records measurements, so that it hardly slows a flush down.

    The same program runs several times, and counts with the median of its times.
    """

    def __init__(self) -> None:
        super().__init__()
        self._observed: list[Observed] = []
        self._backward: list[ObservedBackward] = []
        self._seen: dict[str, dict[tuple[tuple[str, float], ...], list[float]]] = defaultdict(dict)

    def observe(self, seen: Observed) -> None:
        """Records a profiled flush."""
        self._observed.append(seen)

    def observe_backward(self, seen: ObservedBackward) -> None:
        """Records a profiled backward."""
        self._backward.append(seen)

    def settle(self) -> None:
        """Processes the recorded measurements. Not while anything is timed: it takes a while."""
        for flush in self._observed:
            self._read(flush)
        for backward in self._backward:
            self._read_backward(backward)
        self._observed.clear()
        self._backward.clear()

    def _note(self, part: str, amounts: Amounts, seconds: float) -> None:
        if any(amounts.values()):
            self._seen[part].setdefault(tuple(amounts.items()), []).append(seconds)

    def _read(self, seen: Observed) -> None:
        plan = seen.plan
        if seen.capture:
            self._note("capture", features.capture(plan, seen.calls), seen.capture)
        analysis = dict(zip(_ANALYSIS, features.analysis(plan)))
        self._note(f"analysis {seen.scheduler}", analysis, seen.analysis)
        self._note("inputs", features.inputs(plan), seen.inputs)
        self._note("results", features.results(plan), seen.results)
        for step, gather, compute in zip(plan.steps, seen.gather, seen.compute):
            self._note("gather", features.gather(plan, step), gather)
            self._note(f"compute{_IN_C * features.in_c(step)}", features.compute(step), compute)

    def _read_backward(self, seen: ObservedBackward) -> None:
        if seen.rest:
            self._note("backward", features.backward_rest(seen.plan), seen.rest)
        for number, seconds in seen.steps:
            step = seen.plan.steps[number]
            self._note(f"backward of steps{_IN_C * features.in_c(step)}", features.backward(seen.plan, step), seconds)

    def fitted(self) -> dict[str, Fitted]:
        """The coefficients of each measured part."""
        self.settle()
        return {part: _fitted(seen) for part, seen in sorted(self._seen.items())}

    def calibrated(self, base: Coefficients) -> Coefficients:
        """Coefficients from the measurements; unmeasured ones are those of `base`."""
        fitted = self.fitted()
        found: dict[str, float] = {}
        analysis: dict[str, Analysis] = {}
        for part, row in fitted.items():
            word, _, scheduler = part.partition(" ")
            if word == "analysis":
                a, b, c = (row.seconds.get(name, 0.0) for name in _ANALYSIS)
                analysis[scheduler] = (a, b, c)
            else:
                found.update(row.seconds)
        return base.with_changes(found, analysis)


def _fitted(seen: Mapping[tuple[tuple[str, float], ...], list[float]]) -> Fitted:
    rows = [dict(amounts) for amounts in seen]
    seconds = [max(float(np.median(times)), 1e-6) for times in seen.values()]
    found = fit_named(rows, seconds)
    errors = [
        abs(sum(found.get(name, 0.0) * amount for name, amount in row.items()) - took) / took
        for row, took in zip(rows, seconds)
    ]
    return Fitted(found, len(rows), float(np.mean(errors)))
