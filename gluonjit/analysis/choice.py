"""The choice of how to capture and to schedule, by the cost model's prediction of every way, analysis time included.

A way to capture (granularity, sharing) is tried in a minibatch captured that way, which computes its results in any
case; its schedulers are compared on that same graph. A way that cannot pay, even with one launch per kind, is not
tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from gluonjit.analysis.bound import lower_bound
from gluonjit.analysis.costs.model import CostModel
from gluonjit.analysis.plan import Part, Plan, Step
from gluonjit.analysis.table import GONE
from gluonjit.analysis.ways import Capture, Choice, Estimate, Setting
from gluonjit.graph.recorder import Record

PlanBy = Callable[[str], Plan]
"""Makes a plan of what was captured, by a scheduler."""
DEFAULT_SCHEDULER = "depth"
_SAME = 0.02  # a way has to be better by this fraction: the model is not more exact
_FLUSHES, _SAMPLES = 3, 24  # a way is tried in this many flushes, of this many samples in all
_DRIFT = 1.5  # a study begins anew where nodes a sample have changed by this factor
_MEMORY = 64  # samples, after which a running mean has forgotten half
_FAR = 1.3  # a way that seems worse by this factor is not captured to see more exactly
_LOSES = 2.0  # nor is a schedule that seems worse by this one made again


@dataclass(frozen=True)
class Allowed:
    """The ways that the user's options leave open, the first named one first."""

    granularities: Sequence[str]
    sharings: Sequence[bool]
    schedulers: Sequence[str]

    @cached_property
    def first(self) -> Setting:
        """The initial setting, before anything is known."""
        scheduler = DEFAULT_SCHEDULER if DEFAULT_SCHEDULER in self.schedulers else self.schedulers[0]
        return Setting(self.granularities[0], self.sharings[0], scheduler)

    @property
    def captures(self) -> list[Capture]:
        """All ways to capture."""
        return [Capture(granularity, sharing) for granularity in self.granularities for sharing in self.sharings]

    @property
    def pinned(self) -> bool:
        """True if the options leave no choice."""
        return len(self.granularities) == len(self.sharings) == len(self.schedulers) == 1


@dataclass(frozen=True)
class Seen:
    """The data about a captured graph that a choice needs, and the model that prices it.

    `counts` are calls and nodes of each record.
    """

    counts: Mapping[Record, tuple[int, int]]
    samples: int
    training: bool
    model: CostModel

    @cached_property
    def calls(self) -> int:
        """All captured calls."""
        return sum(calls for calls, _ in self.counts.values())

    @cached_property
    def once(self) -> float:
        """Seconds to run each kind in one launch that gathers nothing: no schedule takes less."""
        return sum(self.work(record, nodes) for record, (_, nodes) in self.counts.items())

    def work(self, record: Record, nodes: int) -> float:
        """Seconds of so many nodes of one kind in one launch that gathers nothing."""
        return self.model.work(_once(record, nodes), self.training)


@dataclass
class Study:
    """The flushes of one size and phase: their measurements, and the choice."""

    allowed: Allowed
    flushes: Counter[Capture] = field(default_factory=Counter)
    profiled: set[Capture] = field(default_factory=set)
    estimates: dict[Setting, Estimate] = field(default_factory=dict)
    ruled_out: dict[str, str] = field(default_factory=dict)  # ways that cannot pay, and why
    chosen: Setting | None = None
    shown: Choice | None = None  # for flushes in which nothing is looked at, until something is learned
    _todo: list[Capture] | None = None
    _usual: float = 0.0  # nodes a sample when it was chosen
    _mean: float = 0.0  # and since

    def capture(self, others: bool = True) -> Capture:
        """The way to capture the next flush; the best known one unless it may try `others`."""
        if self.chosen is not None:
            return self.chosen.capture
        if self._todo and others:
            return self._todo[0]
        return self._best.setting.capture if self.estimates else self.allowed.first.capture

    def scheduler(self, capture: Capture) -> str:
        """The best known scheduler for graphs captured this way."""
        if self.chosen is not None and self.chosen.capture == capture:
            return self.chosen.scheduler
        found = self._of(capture)
        return _best(found).setting.scheduler if found else self.allowed.first.scheduler

    def saved_state(self) -> dict[str, Any] | None:
        """Returns the state for a later process, as plain values; None before a way is chosen."""
        return None if self.chosen is None else {"setting": list(self.chosen), "nodes_a_sample": self._mean}

    def restore(self, state: dict[str, Any]) -> None:
        """Starts from the state of an earlier process. Raises KeyError, TypeError or ValueError for anything else."""
        setting = Setting(*state["setting"])
        if setting.scheduler in GONE:
            setting = setting._replace(scheduler="bound")
        if setting.capture not in self.allowed.captures or setting.scheduler not in self.allowed.schedulers:
            raise ValueError(f"no such way to run: {setting}")
        nodes = float(state["nodes_a_sample"])
        if not 0 <= nodes < float("inf"):
            raise ValueError(f"no number of nodes: {nodes}")
        self.chosen, self._usual, self._mean = setting, nodes, nodes

    def explores(self, captured: Setting) -> bool:
        """True if this capture is a trial of another way than the best known one."""
        return bool(self._todo) and self._todo[:1] == [captured.capture]  # type: ignore[index]

    def give_up(self) -> None:
        """Ends the current trial: its minibatches took far longer than the best known way."""
        if self._todo:
            self.shown = None
            self.ruled_out[str(self._todo.pop(0))] = "its minibatches took more than twice as long"
            self._choose()

    def _of(self, capture: Capture) -> list[Estimate]:
        """Returns the estimates of flushes captured this way, by scheduler."""
        return [estimate for setting, estimate in self.estimates.items() if setting.capture == capture]

    @property
    def _best(self) -> Estimate:
        """The cheapest of all tried ways."""
        return _best(list(self.estimates.values()))

    def count(self, capture: Capture) -> None:
        """Counts a flush captured this way."""
        self.flushes[capture] += 1

    def drifted(self, capture: Capture, nodes: int, samples: int) -> bool:
        """Counts a flush, and tells whether captured graphs no longer resemble those of the choice."""
        if self.chosen is None or self.chosen.capture != capture:
            return False
        self._mean += samples / (samples + _MEMORY) * (nodes / samples - self._mean)
        return max(self._mean, self._usual) > _DRIFT * min(self._mean, self._usual)

    def profiles(self, capture: Capture) -> bool:
        """True if this flush is to be profiled: the second, as everything is new in the first."""
        return self.chosen is None and self.flushes[capture] >= 2 and capture not in self.profiled

    def wants(self, capture: Capture) -> bool:
        """True if schedulers are to be compared on such a graph: once the model has measured its steps."""
        return self.chosen is None and self.flushes[capture] > 2 and not self._seen_enough(capture)

    def _seen_enough(self, capture: Capture) -> bool:
        """True if enough different minibatches were seen, or this way is far from the best in any case."""
        known = self._of(capture)
        many = any(estimate.flushes >= _FLUSHES and estimate.samples >= _SAMPLES for estimate in known)
        return many or self._far_off(known)

    def _far_off(self, known: Sequence[Estimate]) -> bool:
        """True if even the cheapest of these costs far more than the best of all."""
        return bool(known) and min(estimate.per_sample for estimate in known) > _FAR * self._best.per_sample

    def compare(self, capture: Capture, plan_by: PlanBy, seen: Seen) -> None:
        """Compares the schedulers on a graph; after enough graphs rule out ways that cannot pay, or choose."""
        self.shown = None
        first, spare, least = self.allowed.first.scheduler, 1.0, 1
        for scheduler in sorted(self.allowed.schedulers, key=lambda name: name != first):
            plan = self._add(Setting(*capture, scheduler), plan_by, seen, spare, least)
            if plan is not None:
                spare, least = _spare(plan), lower_bound(plan)
                if not spare:
                    break
        if not self._seen_enough(capture):
            return
        if self._todo is None:
            others = [other for other in self.allowed.captures if other != capture]
            self._todo = [other for other in others if not self._cannot_pay(other, seen)]
        gone = capture.granularity if self._far_off(self._of(capture)) else None
        self._todo = [other for other in self._todo if other != capture and other.granularity != gone]
        self._choose()

    def _choose(self) -> None:
        """Keeps the best way if no trial is left."""
        if self._todo:
            return
        best = self._best
        self.chosen = best.setting
        for scheduler in self.allowed.schedulers:
            other = Setting(*best.setting.capture, scheduler)
            if other not in self.estimates:
                self.ruled_out.setdefault(str(other), "another one already reaches the lower bound of launches")
        self._usual = self._mean = best.nodes / best.samples

    def _add(self, setting: Setting, plan_by: PlanBy, seen: Seen, spare: float, least: int) -> Plan | None:
        """Adds the estimate of a schedule of this graph, and returns it, unless its analysis alone cannot pay.

        spare: the part of its launches that the one before could do without; least: the fewest there can be.
        """
        others = self._of(setting.capture)
        if str(setting) in self.ruled_out:
            return None
        if setting in self.estimates and self.estimates[setting].per_sample > _LOSES * _best(others).per_sample:
            return None
        if others and setting not in self.estimates:
            one = others[-1]
            nodes, steps = one.nodes // one.flushes, one.launches // one.flushes
            costs = seen.model.analysis(setting.scheduler, nodes, least)
            costs -= seen.model.analysis(one.setting.scheduler, nodes, steps)
            saves = _avoidable(one, seen, spare) - one.costs.analysis / one.flushes
            if costs >= saves:
                self.ruled_out[str(setting)] = "its analysis costs more than any schedule saves"
                return None
        plan = plan_by(setting.scheduler)
        found = _estimate(setting, plan, seen)
        known = self.estimates.get(setting)
        self.estimates[setting] = found if known is None else known.plus(found)
        return plan

    def made(self, setting: Setting, seconds: float) -> None:
        """Counts the time to make a schedule, which the model may not know: an expensive scheduler is ruled out."""
        first = self.allowed.first.scheduler
        best = [estimate for estimate in self._of(setting.capture) if estimate.setting.scheduler == first]
        if setting not in self.estimates or not best or setting.scheduler == first:
            return
        if seconds > best[0].costs.total / best[0].flushes:
            del self.estimates[setting]
            self.ruled_out[str(setting)] = f"its analysis took {seconds * 1e3:.1f} ms, more than a minibatch by {first}"

    def _cannot_pay(self, other: Capture, seen: Seen) -> bool:
        """True if a way to capture costs more than it could ever save."""
        best = self._best
        costs = _at_least(other, best.setting.capture, seen)
        saves = _avoidable(best, seen)
        if costs <= saves:
            return False
        self.ruled_out[str(other)] = f"costs {costs * 1000.0:.1f} ms more, and saves at most {saves * 1000.0:.1f} ms"
        return True


def _estimate(setting: Setting, plan: Plan, seen: Seen) -> Estimate:
    costs = seen.model.predict(plan, seen.calls, setting.scheduler, setting.granularity, seen.training)
    return Estimate(setting, 1, max(seen.samples, 1), plan.nodes, plan.launches, costs)


def _spare(plan: Plan) -> float:
    """The part of its launches, but for one of each kind, that some schedule could do without; see `lower_bound`."""
    kinds = len({(step.kind.family, step.mode) for step in plan.steps})
    return max(plan.launches - lower_bound(plan), 0) / max(plan.launches - kinds, 1)


def _at_least(other: Capture, now: Capture, seen: Seen) -> float:
    """The least extra seconds of another way to capture over the present one, before its savings."""
    if other.granularity == "op" != now.granularity:
        operators = sum(calls * record.kind.work.ops for record, (calls, _) in seen.counts.items())
        return operators * seen.model.capture("op") - seen.calls * seen.model.capture(now.granularity)
    if now.sharing and not other.sharing:
        more = [(record, calls, nodes) for record, (calls, nodes) in seen.counts.items() if calls > nodes]
        return sum(seen.work(record, calls) - seen.work(record, nodes) for record, calls, nodes in more)
    return 0.0


def _avoidable(estimate: Estimate, seen: Seen, spare: float = 1.0) -> float:
    """The most seconds per flush that another order could save: this part of the launches, and all gathers."""
    costs = estimate.costs
    launched = max((costs.compute + costs.backward) / estimate.flushes - seen.once, 0.0)
    return spare * launched + (costs.gather + costs.analysis) / estimate.flushes


def _best(estimates: Sequence[Estimate]) -> Estimate:
    """The cheapest; an earlier one is kept if a later one is hardly better, and no schedule with fewer launches."""
    best = estimates[0]
    for estimate in estimates[1:]:
        fewer = estimate.launches * best.flushes < best.launches * estimate.flushes
        same = estimate.setting.capture == best.setting.capture
        if estimate.per_sample < best.per_sample * (1 if fewer and same else 1 - _SAME):
            best = estimate
    return best


def _once(record: Record, count: int) -> Step:
    """Returns a step of `count` nodes of one kind in one launch, with contiguous operands."""
    return Step(record.kind, record.mode, (Part(record, np.zeros(count, dtype=np.int64)),), count, (), ())


def counts_of(records: Sequence[Record]) -> dict[Record, tuple[int, int]]:
    """Calls and nodes of each record."""
    return {record: (max(record.calls, len(record)), len(record)) for record in records}


def samples_that_pay(fixed: float, marginal: float, loss: float = 0.05, latency: float | None = None) -> int:
    """Returns the number of samples to wait for if a flush of n takes `fixed + marginal * n` seconds.

    From the n on at which a sample costs no more than `loss` above what it costs in an endless batch, waiting for more
    no longer pays: fixed / n <= loss * marginal. Fewer where the flush would take longer than `latency` seconds.
    """
    if marginal <= 0:
        most = 1 << 20
    else:
        most = int(fixed / (loss * marginal)) + 1
    if latency is not None and fixed >= latency:
        most = 1
    elif latency is not None and marginal > 0:
        most = min(most, int((latency - fixed) / marginal))
    return max(1, min(most, 1 << 20))
