"""The flush of a batch: plans and runs what was captured, and informs the report and the cost model."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from gluonjit.analysis.costs.model import CostModel, Observed
from gluonjit.analysis.plan import Plan
from gluonjit.analysis.planner import Planner
from gluonjit.analysis.simulate.trace_file import save_graph
from gluonjit.analysis.ways import Choice, Setting
from gluonjit.graph.graph import Graph
from gluonjit.graph.modes import is_recorded
from gluonjit.graph.origins import Line
from gluonjit.graph.recorder import give_results
from gluonjit.hybrid.choose.choosing import chooser_of
from gluonjit.hybrid.choose.costs import cost_model
from gluonjit.hybrid.choose.pacing import note_flush, note_trial
from gluonjit.hybrid.explain.advice import after_flush
from gluonjit.hybrid.explain.counts import STEP_PARTS
from gluonjit.hybrid.explain.minibatch import MINIBATCH
from gluonjit.hybrid.explain.provenance import Provenance
from gluonjit.hybrid.explain.report import Report
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.batch import RUNNING, Batch, release
from gluonjit.hybrid.run.failures import check, of_library
from gluonjit.hybrid.run.protocol import Adapter
from gluonjit.hybrid.run.state import Results, State


class _Held(NamedTuple):
    """Contents of a batch when its flush began.

    captured: in which way; samples: how many, and their numbers; carried: those that use what ran before.
    """

    captured: Setting
    samples: int
    numbers: range
    carried: set[int]


class FlushingBatch(Batch):
    """A batch that runs: its region's chooser says how the graph is captured and scheduled."""

    engine: Adapter
    report: Report

    def __init__(self, engine: Any, options: Options, explicit: bool = False, region: Hashable = None) -> None:
        self.chooser = chooser_of(options, region)
        self.misses = 0  # of the cache, up to the last flush that the cost model has learned from
        super().__init__(engine, options, Report(), explicit)

    def choose(self, begins: bool = False) -> None:
        """Takes the setting of the open way: whether it is training is known when the batch begins."""
        chooser = self.chooser
        setting = self.setting = chooser.setting(is_recorded(self.engine.current_mode()))
        self.sharing, self.fine = setting.sharing, setting.granularity == "op"
        if begins and chooser.explores(setting):
            note_trial(chooser)

    @property
    def flush_at(self) -> int | None:
        """The number of samples at which the region runs itself; it may learn that number."""
        return self.chooser.flush_at

    def save_trace(self, path: str | Path) -> None:
        """Writes the captured calls that have not run, for `python -m gluonjit simulate` (see docs/traces.md).

        It is JSON in gzip, whatever its name. Nothing runs. Raises TraceError if nothing is pending.
        """
        save_graph(self.graph, path, self.setting.granularity, self.sharing)

    def _flush(self, graph: Graph, capture: float, reason: str, middle: str, line: Line | None) -> None:
        report, times, planner = self.report, {"capture": capture}, None
        held = None
        begin = perf_counter()
        try:
            held = self._start_over(graph, middle == "map")
            with RUNNING:
                planner = Planner(graph, self.engine.sum_kind, held.captured.sharing, self.options.beam_width)
                plan = self._plan(graph, planner, held)
                provenance = Provenance(plan, graph.marks, list(graph.records.values()), held.numbers)
                report.add_plan(plan, reason, line, provenance)
                report.captured = graph.calls
                times["analysis"] = self._took("analysis", "analysis", begin)
                options = self._run_options()
                with self.engine.running():
                    history = self._run(graph, plan, held.samples, provenance, options, times)
            check(graph, self.engine)
        except BaseException as error:
            graph.owner = f"its batch failed: {error}"
            self.sample = 0  # the minibatch is lost
            if held is None:  # an interrupt came while the new graph was made
                self.reset()
                self.samples = 0
            MINIBATCH.ran(self, bool(held and held.carried), None)
            MINIBATCH.end()
            said = of_library(error)
            if said is not error:
                raise said from error
            raise
        finally:
            begin = perf_counter()
            release(graph, () if planner is None else planner.made)
            times["capture"] += self._took("release", "capture", begin)  # it is as much as was captured
        MINIBATCH.ran(self, bool(held.carried), history)
        begin = perf_counter()
        try:
            self._advise(plan, provenance, held, reason, middle, line)
        finally:
            times["analysis"] += self._took("advice", "analysis", begin)
            if options.profile:
                self._observe(plan, self.chooser.choice, times)

    def _start_over(self, graph: Graph, goes_on: bool) -> _Held:
        """Begins an empty graph; this one is complete."""
        captured, samples, carried, imports = self.setting, self.samples, self.carried, self.imports
        self.reset()
        if goes_on:
            self.earlier = imports
        self.graph.marks += [(0, sample) for _, sample in graph.marks[-1:] if sample is not None]  # which goes on
        for record in graph.records.values():
            record.complete()
        self.samples = 0
        if carried:
            self.carried = set()
        return _Held(captured, samples, range(self.sample - samples, self.sample), carried)

    def _plan(self, graph: Graph, planner: Planner, held: _Held) -> Plan:
        """Plans what was captured, and tells the report and the stretch how the plan was chosen."""
        report = self.report
        if report.model is None:
            report.model = partial(_model_of, self.engine)  # no method, which would be a circle with the report
        records = list(graph.records.values())
        plan = self.chooser.plan(planner, records, held.captured, held.samples, report.model)
        plan.copied = graph.copies
        for row, count, writer in graph.overwritten:
            if plan.arena[row] >= 0:  # others nobody reads
                plan.rewritten.append((int(plan.arena[row]), int(plan.position[row]), count, writer))
        report.choice = choice = self.chooser.choice
        note_flush(choice.setting, self.chooser.named, choice.compared or choice.profiled)
        return plan

    def _run_options(self) -> Options:
        """Returns the options of a run, which is also profiled if its costs are to be learned."""
        options = self.options
        profile = (options.profile or self.chooser.choice.profiled) and not _called_back()
        return options if profile == options.profile else replace(options, profile=profile)

    def _advise(
        self, plan: Plan, provenance: Provenance, held: _Held, reason: str, middle: str, line: Line | None
    ) -> None:
        """Warns of possible improvements to the user's program."""
        carried = held.carried
        apart = len(held.numbers) - sum([n in held.numbers for n in carried]) if self.sample else int(not carried)
        early = MINIBATCH.came_early(plan, held.samples, apart, "" if middle == "map" else middle, line, self.caller)
        granularity = held.captured.granularity
        if self.options.granularity == granularity or granularity != "op":  # else operators are the library's own idea
            after_flush(self.report, provenance, held.samples, reason, line, early)

    def _observe(self, plan: Plan, choice: Choice, times: dict[str, float]) -> None:
        """Lets the cost model learn from a profiled flush; a time of 0 was not measured."""
        report = self.report
        if report.cache["misses"] > self.misses:  # what was traced in it does not come again
            times["capture"] = 0.0
        if choice.compared:  # with other schedules than the one that ran
            times["analysis"] = 0.0
        self.misses = report.cache["misses"]
        gather, compute = map(report.step_seconds, STEP_PARTS)
        observed = Observed(
            plan,
            report.captured,
            choice.setting.scheduler,
            choice.setting.granularity,
            times["capture"],
            times["analysis"],
            times["inputs"],
            gather,
            compute,
            times["results"],
        )
        _model_of(self.engine).observe(observed)

    def _run(
        self,
        graph: Graph,
        plan: Plan,
        samples: int,
        provenance: Provenance,
        options: Options,
        times: dict[str, float],
    ) -> Any:
        """Runs a plan; returns the tape that can differentiate its results, or None."""
        begin = perf_counter()
        self.engine.check("batching()", options)
        session = self.engine.session(plan, self.report, options, samples, provenance)
        session.fill()
        times["inputs"] = self._took("inputs", "gather", begin)
        number = 0
        while number < len(plan.steps):
            number = session.run_from(number)
        begin = perf_counter()
        graph.owner = Results(session, plan.arena, plan.position)
        arena, position = plan.arena.data, plan.position.data
        for _, record, nodes in plan.live:
            give_results(record, nodes.tolist(), arena, position, session.chunk_at, session.results)
        session.wait()
        session.finish()
        times["results"] = self._took("results", "gather", begin)
        return session.tape

    def _took(self, name: str, part: str, begin: float) -> float:
        """Notes the time from then to now; returns the seconds."""
        end = perf_counter()
        self.report.took(name, part, begin, end)
        return end - begin


def _called_back() -> bool:
    """True if a framework's own thread runs this: waiting there for the framework would never end."""
    return isinstance(threading.current_thread(), threading._DummyThread)


def _model_of(engine: Adapter) -> CostModel:
    return cost_model(engine.name, engine.versions)


State.opens = FlushingBatch  # capture opens batches, and needs nothing of what a flush takes
