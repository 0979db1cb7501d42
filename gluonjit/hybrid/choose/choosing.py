"""Chooses, flush by flush, how a region of a program is captured and scheduled; see `gluonjit.analysis.choice`.

A region is a hybridized block, or a line with `batching()`. Training and inference, and flushes of different sizes, are
studied separately. A study restarts when captured graphs no longer resemble those it chose for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from time import perf_counter
from typing import Any

from gluonjit.analysis.choice import Allowed, Seen, Study, counts_of, samples_that_pay
from gluonjit.analysis.costs.model import CostModel
from gluonjit.analysis.plan import Plan
from gluonjit.analysis.planner import Planner
from gluonjit.analysis.ways import Capture, Choice, Setting
from gluonjit.graph import Record
from gluonjit.graph.modes import is_recorded
from gluonjit.hybrid.choose.pacing import may_try
from gluonjit.hybrid.options import AUTO, BATCHED, EAGER, Options

_MOST_REGIONS = 256
_GRANULARITIES = ("cell", "op")


class Chooser:
    """The choices of one region, and their data."""

    _pays: int | None = None
    _origin = ""

    def __init__(self, options: Options) -> None:
        self._allowed = Allowed(
            _GRANULARITIES if options.granularity in (AUTO, BATCHED, EAGER) else (options.granularity,),
            (True, False) if options.sharing == AUTO else (bool(options.sharing),),
            options.SCHEDULERS if options.scheduler == AUTO else (options.scheduler,),
        )
        self._pinned = self._allowed.pinned
        self._waits = options.flush_at
        self._latency = options.max_latency
        self.named = not options.leave_the_way_open  # no stretch is timed then
        self._first = self._allowed.first
        self._studies: dict[tuple[bool, int], Study] = {}
        self._last: dict[bool, Study] = {}  # of training, and of inference
        self.told: Callable[[], None] | None = None  # is called when a way is chosen
        self.choice = Choice(self._allowed.first, False, False, False, (), {})

    def setting(self, training: bool) -> Setting:
        """Returns how the next batch is captured: as was best for the last one of its phase."""
        last = None if self._pinned else self._last.get(training)
        if last is None:
            return self._first
        if last.chosen is not None:
            return last.chosen
        capture = last.capture(may_try())
        return Setting(*capture, last.scheduler(capture))

    def explores(self, captured: Setting) -> bool:
        """True if this capture is a trial of another way than the best known one."""
        return any(study.explores(captured) for study in self._last.values())

    def give_up(self, training: bool) -> None:
        """Ends the current trial of a way to capture: it is far off."""
        study = self._last.get(training)
        if study is not None:
            study.give_up()

    def saved_state(self) -> list[dict[str, Any]]:
        """The studies for a later process: those with a choice, the last of each phase at the end."""
        studies = sorted(self._studies.items(), key=lambda item: item[1] is self._last.get(item[0][0]))
        return [
            {"training": training, "size": size, **known}
            for (training, size), study in studies
            if (known := study.saved_state()) is not None
        ]

    def restore(self, state: list[dict[str, Any]], origin: str) -> None:
        """Starts from the state of an earlier process; see `Study.restore`."""
        for known in state:
            study = Study(self._allowed)
            study.restore(known)
            training = bool(known["training"])
            self._studies[training, int(known["size"])] = self._last[training] = study
            self._origin = origin

    @property
    def flush_at(self) -> int | None:
        """The number of samples at which a batch runs itself, if there is one."""
        return self._pays if self._waits == AUTO else self._waits  # type: ignore[return-value]

    def plan(
        self,
        planner: Planner,
        records: Sequence[Record],
        captured: Setting,
        samples: int,
        model: Callable[[], CostModel],
    ) -> Plan:
        """Returns the plan of a flush, by the best known scheduler."""
        capture = captured.capture
        training = any(is_recorded(record.mode) for record in records)
        key = (training, samples.bit_length())
        study = self._studies.get(key)
        if study is None:
            study = self._studies[key] = Study(self._allowed)
        self._last[training] = study
        study.count(capture)
        open_ = study.chosen is None and not self._pinned and may_try()
        profiled = open_ and study.profiles(capture)
        compared = open_ and study.wants(capture)
        plans: dict[str, Plan] = {}
        if profiled:
            study.profiled.add(capture)
        elif compared:
            plans = self._compare(study, planner, capture, Seen(counts_of(records), samples, training, model()))
        setting = captured
        if not self._pinned and captured != study.chosen:
            setting = Setting(*capture, study.scheduler(capture))
        scheduler = setting.scheduler
        plan = plans[scheduler] if scheduler in plans else planner.plan(scheduler)
        if self._waits == AUTO and samples:
            self._pays = self._samples_that_pay(plan, Seen(counts_of(records), samples, training, model()), setting)
        if study.drifted(capture, plan.nodes, max(samples, 1)):
            del self._studies[key]
        shown = study.shown
        if shown is None or compared or profiled or shown.setting != setting:
            ranked = tuple(sorted(study.estimates.values(), key=lambda each: each.per_sample))
            origin = "" if ranked else self._origin  # which no study of this process has followed
            ruled_out = dict(study.ruled_out)
            shown = Choice(setting, study.chosen is not None, compared, profiled, ranked, ruled_out, origin)
            study.shown = None if compared or profiled else shown
        self.choice = shown
        return plan

    def _compare(self, study: Study, planner: Planner, capture: Capture, seen: Seen) -> dict[str, Plan]:
        """Compares the schedulers on this graph, and returns their plans."""

        def plan_by(scheduler: str) -> Plan:
            if scheduler not in plans:
                begin = perf_counter()
                plans[scheduler] = planner.plan(scheduler)
                took[scheduler] = perf_counter() - begin
            return plans[scheduler]

        plans: dict[str, Plan] = {}
        took: dict[str, float] = {}
        study.compare(capture, plan_by, seen)
        for scheduler, seconds in took.items():
            study.made(Setting(*capture, scheduler), seconds)
        if study.chosen is not None and self.told is not None:
            self.told()
        return plans

    def _samples_that_pay(self, plan: Plan, seen: Seen, setting: Setting) -> int:
        """The number of samples to wait for in the next flush, given the fixed time of this one."""
        model = seen.model
        total = model.predict(plan, seen.calls, setting.scheduler, setting.granularity, seen.training).total
        fixed = min(model.fixed(plan, setting.scheduler), total)
        return samples_that_pay(fixed, (total - fixed) / seen.samples, latency=self._latency)


_choosers: OrderedDict[Hashable, tuple[Options, Chooser]] = OrderedDict()
_lock = Lock()


def chooser_of(options: Options, region: Hashable = None) -> Chooser:
    """Returns the chooser of a region; without one, of these very options, which belong to a block."""
    key = id(options) if region is None else (region, options)
    with _lock:
        known = _choosers.get(key)
        if known is None:
            known = _choosers[key] = options, Chooser(options)  # the options are kept, so that their address is
            while len(_choosers) > _MOST_REGIONS:
                _choosers.popitem(last=False)
        _choosers.move_to_end(key)
        return known[1]


def clear_choices() -> None:
    """Drops all choices; studies start anew."""
    with _lock:
        _choosers.clear()
