"""The flush of a batch: plans and runs what was captured, and informs the report."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from gluonjit.analysis.plan import Plan
from gluonjit.analysis.planner import Planner
from gluonjit.analysis.simulate.trace_file import save_graph
from gluonjit.graph.graph import Graph
from gluonjit.graph.origins import Line
from gluonjit.graph.recorder import give_results
from gluonjit.hybrid.choose.pacing import note_flush
from gluonjit.hybrid.choose.waiting import learn, waits_for
from gluonjit.hybrid.explain.advice import after_flush
from gluonjit.hybrid.explain.minibatch import MINIBATCH
from gluonjit.hybrid.explain.provenance import Provenance
from gluonjit.hybrid.explain.report import Report
from gluonjit.hybrid.options import AUTO, Options
from gluonjit.hybrid.run.batch import RUNNING, Batch, release
from gluonjit.hybrid.run.failures import of_library
from gluonjit.hybrid.run.protocol import Adapter
from gluonjit.hybrid.run.state import Results, State


class _Held(NamedTuple):
    """Contents of a batch when its flush began.

    samples: how many, and their numbers; carried: those that use what ran before.
    """

    samples: int
    numbers: range
    carried: set[int]


class FlushingBatch(Batch):
    """A batch that runs."""

    engine: Adapter
    report: Report

    def __init__(self, engine: Any, options: Options, explicit: bool = False, region: Hashable = None) -> None:
        self.region = region
        super().__init__(engine, options, Report(), explicit)

    @property
    def flush_at(self) -> int | None:
        """The number of samples at which the region runs itself; it may learn that number."""
        return waits_for(self.options, self.region)

    def save_trace(self, path: str | Path) -> None:
        """Writes the captured calls that have not run, for `python -m gluonjit simulate` (see docs/traces.md).

        It is JSON in gzip, whatever its name. Nothing runs. Raises TraceError if nothing is pending.
        """
        save_graph(self.graph, path, self.setting.granularity, self.sharing)

    def _flush(self, graph: Graph, capture: float, reason: str, middle: str, line: Line | None) -> None:
        report, planner, held = self.report, None, None
        begin = since = perf_counter()
        try:
            held = self._start_over(graph, middle == "map")
            with RUNNING:
                planner = Planner(graph, self.engine.sum_kind, self.sharing, self.options.beam_width)
                plan = self._plan(graph, planner)
                provenance = Provenance(plan, graph.marks, list(graph.records.values()), held.numbers)
                report.add_plan(plan, reason, line, provenance)
                self._took("analysis", "analysis", begin)
                options = self._run_options()
                with self.engine.running():
                    history = self._run(graph, plan, held.samples, provenance, options)
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
            self._took("release", "capture", begin)  # it is as much as was captured
        if self.options.flush_at == AUTO and held.samples and not _called_back():
            self.engine.wait()
            learn(self.options, self.region, plan.launches, held.samples, capture + perf_counter() - since)
        MINIBATCH.ran(self, bool(held.carried), history)
        begin = perf_counter()
        self._advise(plan, provenance, held, reason, middle, line)
        self._took("advice", "analysis", begin)

    def _start_over(self, graph: Graph, goes_on: bool) -> _Held:
        """Begins an empty graph; this one is complete."""
        samples, carried, imports = self.samples, self.carried, self.imports
        self.reset()
        if goes_on:
            self.earlier = imports
        self.graph.marks += [(0, sample) for _, sample in graph.marks[-1:] if sample is not None]  # which goes on
        for record in graph.records.values():
            record.complete()
        self.samples = 0
        if carried:
            self.carried = set()
        return _Held(samples, range(self.sample - samples, self.sample), carried)

    def _plan(self, graph: Graph, planner: Planner) -> Plan:
        """Plans what was captured, and tells the report and the stretch in which way."""
        self.report.setting = setting = self.setting
        plan = planner.plan(setting.scheduler)
        plan.copied = graph.copies
        for row, count, writer in graph.overwritten:
            if plan.arena[row] >= 0:  # others nobody reads
                plan.rewritten.append((int(plan.arena[row]), int(plan.position[row]), count, writer))
        note_flush(setting, not self.options.leave_the_way_open)
        return plan

    def _run_options(self) -> Options:
        """Returns the options of a run."""
        options = self.options
        return replace(options, profile=False) if options.profile and _called_back() else options

    def _advise(
        self, plan: Plan, provenance: Provenance, held: _Held, reason: str, middle: str, line: Line | None
    ) -> None:
        """Warns of possible improvements to the user's program."""
        carried = held.carried
        apart = len(held.numbers) - sum([n in held.numbers for n in carried]) if self.sample else int(not carried)
        early = MINIBATCH.came_early(plan, held.samples, apart, "" if middle == "map" else middle, line, self.caller)
        after_flush(self.report, provenance, held.samples, reason, line, early)

    def _run(
        self,
        graph: Graph,
        plan: Plan,
        samples: int,
        provenance: Provenance,
        options: Options,
    ) -> Any:
        """Runs a plan; returns the tape that can differentiate its results, or None."""
        begin = perf_counter()
        self.engine.check("batching()", options)
        session = self.engine.session(plan, self.report, options, samples, provenance)
        session.fill()
        self._took("inputs", "gather", begin)
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
        self._took("results", "gather", begin)
        return session.tape

    def _took(self, name: str, part: str, begin: float) -> None:
        """Notes the time from then to now."""
        self.report.took(name, part, begin, perf_counter())


def _called_back() -> bool:
    """True if a framework's own thread runs this: waiting there for the framework would never end."""
    return isinstance(threading.current_thread(), threading._DummyThread)


State.opens = FlushingBatch  # capture opens batches, and needs nothing of what a flush takes
