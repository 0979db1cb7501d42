"""The time of a flush, predicted from its plan and corrected by measurements."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from gluonjit.analysis.costs import features
from gluonjit.analysis.costs.coefficients import Coefficients
from gluonjit.analysis.costs.curves import Curve
from gluonjit.analysis.costs.features import Amounts
from gluonjit.analysis.plan import Plan, Step
from gluonjit.analysis.table import TABLE
from gluonjit.analysis.ways import Costs
from gluonjit.graph.modes import is_recorded

_MOST_WORKLOADS = 64


class Observed(NamedTuple):
    """The times of a profiled flush, in seconds; `gather` and `compute` by step. A capture of 0 was not measured."""

    plan: Plan
    calls: int
    scheduler: str
    granularity: str
    capture: float
    analysis: float
    inputs: float
    gather: Sequence[float]
    compute: Sequence[float]
    results: float


class ObservedBackward(NamedTuple):
    """The times of a backward through a profiled flush: (step, seconds) of each step, and the rest."""

    plan: Plan
    steps: Sequence[tuple[int, float]]
    rest: float


class CostModel:
    """Coefficients of the machine, and curves of what was measured while it ran.

    Curves of steps belong to families of kinds and go with them; those of whole parts belong to workloads, told by
    the names of what they run, the latest 64.
    """

    def __init__(self, coefficients: Coefficients | None = None) -> None:
        self.coefficients = coefficients or Coefficients()
        self._families: WeakKeyDictionary[Any, dict[str, Curve]] = WeakKeyDictionary()
        self._workloads: OrderedDict[Any, dict[str, Curve]] = OrderedDict()
        self._lock = Lock()

    def predict(self, plan: Plan, calls: int, scheduler: str, granularity: str, training: bool) -> Costs:
        """Seconds of capturing `calls` calls, of the flush of their plan, and with `training` of its backward."""
        with self._lock:
            parts = self._like(workload(plan))
            whole = self._whole(plan, calls, scheduler, granularity)
            found = {name: _corrected(parts.get(key), seconds) for name, (key, seconds) in whole.items()}
            gather = sum(self._step(step, "gather", features.gather(plan, step)) for step in plan.steps)
            compute = sum(self._step(step, _phase(step), features.compute(step)) for step in plan.steps)
            backward = 0.0
            if training:
                backward = _corrected(parts.get("backward"), self._priced(features.backward_rest(plan)))
                learned = [step for step in plan.steps if is_recorded(step.mode)]
                backward += sum(self._step(step, "backward", features.backward(plan, step)) for step in learned)
            return Costs(gather=gather, compute=compute, backward=backward, **found)

    def capture(self, granularity: str) -> float:
        """Seconds that the capture of a call takes at least."""
        return self.coefficients.call_op if granularity == "op" else self.coefficients.call_cell

    def analysis(self, scheduler: str, nodes: float, steps: float) -> float:
        """Seconds to schedule this many nodes into this many steps, and to lay them out."""
        known = self.coefficients.analysis.get(scheduler)  # None of one that is newer than the calibration
        fixed, node, step = known or TABLE[scheduler]
        return fixed + node * nodes + step * steps

    def work(self, step: Step, training: bool) -> float:
        """Seconds of one step that gathers nothing, and with `training` of its backward."""
        with self._lock:
            seconds = self._step(step, _phase(step), features.compute(step))
            if training and is_recorded(step.mode):
                seconds += self._step(step, "backward", features.backward_alone(step))
            return seconds

    def fixed(self, plan: Plan, scheduler: str) -> float:
        """The seconds of a flush, without backward, that do not depend on the number of samples."""
        known = self.coefficients
        amounts = [pair for step in plan.steps for pair in features.compute(step).items()]
        launches = sum(self._priced({name: count}) for name, count in amounts if not name.endswith(("flop", "byte")))
        each = [gather for step in plan.steps for gather in step.gathers]
        gathers = sum(known.gather if gather.is_copied else known.slice for gather in each)
        rest = known.session + known.session_step * len(plan.steps) + known.flush
        return launches + gathers + rest + self.analysis(scheduler, 0, len(plan.steps))

    def observe(self, seen: Observed) -> None:
        """Learns from a profiled flush."""
        plan = seen.plan
        with self._lock:
            curves = self._curves(workload(plan))
            whole = self._whole(plan, seen.calls, seen.scheduler, seen.granularity)
            for name, (key, expected) in whole.items():
                seconds = float(getattr(seen, name))
                if seconds > 0:
                    curves.setdefault(key, Curve()).add(expected, seconds, expected)
            for step, gather, compute in zip(plan.steps, seen.gather, seen.compute):
                if not features.in_c(step):
                    self._add(step, "gather", features.gather(plan, step), gather)
                self._add(step, _phase(step), features.compute(step), compute)

    def observe_backward(self, seen: ObservedBackward) -> None:
        """Learns from a profiled backward."""
        plan = seen.plan
        with self._lock:
            expected = self._priced(features.backward_rest(plan))
            if seen.rest > 0:
                curves = self._curves(workload(plan))
                curves.setdefault("backward", Curve()).add(expected, seen.rest, expected)
            for number, seconds in seen.steps:
                step = plan.steps[number]
                self._add(step, "backward", features.backward(plan, step), seconds)

    def forget(self) -> None:
        """Forgets all curves; the coefficients stay."""
        with self._lock:
            self._families.clear()
            self._workloads.clear()

    @property
    def curves(self) -> int:
        """The number of curves."""
        return sum(map(len, [*self._families.values(), *self._workloads.values()]))

    def _whole(self, plan: Plan, calls: int, scheduler: str, granularity: str) -> dict[str, tuple[str, float]]:
        """Returns the name of the curve of each part of a flush, and the prediction of the coefficients."""
        _, nodes, steps = features.analysis(plan)
        captured = "capture op" if granularity == "op" else "capture"
        return {
            "capture": (captured, self._priced(features.capture(plan, calls))),
            "analysis": (f"analysis {scheduler}", self.analysis(scheduler, nodes, steps)),
            "inputs": ("inputs", self._priced(features.inputs(plan))),
            "results": ("results", self._priced(features.results(plan))),
        }

    def _priced(self, amounts: Amounts) -> float:
        return sum(amount * float(getattr(self.coefficients, name)) for name, amount in amounts.items())

    def _step(self, step: Step, phase: str, amounts: Amounts) -> float:
        expected = self._priced(amounts)
        curves = self._families.get(step.kind.family)
        curve = None if curves is None else curves.get(phase)
        return expected if curve is None else curve.at(_size(phase, step, expected), expected)

    def _add(self, step: Step, phase: str, amounts: Amounts, seconds: float) -> None:
        expected = self._priced(amounts)
        curves = self._families.setdefault(step.kind.family, {})
        curves.setdefault(phase, Curve()).add(_size(phase, step, expected), max(seconds, 1e-6), expected)

    def _like(self, key: frozenset[str]) -> dict[str, Curve]:
        """Returns the curves of a workload, or of the one that shares most names with it, at least half of all."""
        near = max(self._workloads, key=lambda known: len(known & key) / max(len(known | key), 1), default=key)
        return self._workloads.get(near, {}) if 2 * len(near & key) >= len(near | key) else {}

    def _curves(self, key: Any) -> dict[str, Curve]:
        curves = self._workloads.setdefault(key, {})
        self._workloads.move_to_end(key)
        if len(self._workloads) > _MOST_WORKLOADS:
            self._workloads.popitem(last=False)
        return curves


def workload(plan: Plan) -> frozenset[str]:
    """Names the kinds of a plan, independent of the samples: without sums, whose names count terms."""
    return frozenset(step.kind.name for step in plan.steps if not step.kind.sum_of)


def _phase(step: Step) -> str:
    return "recorded" if is_recorded(step.mode) else "compute"


def _size(phase: str, step: Step, expected: float) -> float:
    """Returns the size that a curve is drawn against: rows; for gathers the seconds that they should take."""
    return expected * 1e6 if phase == "gather" else features.totals(step).rows


def _corrected(curve: Curve | None, expected: float) -> float:
    return expected if curve is None else curve.at(expected, expected)
