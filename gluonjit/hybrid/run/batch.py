"""The open batch: what has been captured and not yet run, and its flush."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gluonjit.analysis import Plan, Planner
from gluonjit.analysis.choice import Setting
from gluonjit.analysis.costs import CostModel, Observed
from gluonjit.analysis.plan import LookupChunk
from gluonjit.analysis.splitting import Sharing
from gluonjit.analysis.traces import save_graph
from gluonjit.compiled import FAST
from gluonjit.errors import BatchClosedError
from gluonjit.graph import Graph, Line, Record, Value, line_of, user_line
from gluonjit.graph.modes import is_recorded
from gluonjit.graph.recorder import BatchRoom
from gluonjit.hybrid.choose.choice import Choice
from gluonjit.hybrid.choose.choosing import chooser_of
from gluonjit.hybrid.choose.costs import cost_model
from gluonjit.hybrid.choose.pacing import FLUSH, NO_CHOICE, Flushed, compares, note_flush, note_look
from gluonjit.hybrid.explain.advice import after_flush
from gluonjit.hybrid.explain.minibatch import MINIBATCH
from gluonjit.hybrid.explain.provenance import Provenance
from gluonjit.hybrid.explain.report import STEP_PARTS, Report
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.protocol import Adapter, Session

FULL = "the open batch is full (max_nodes, max_bytes)"
"""The reason for running a batch that holds more than it should."""

MOST_AHEAD = 2
"""Flushes of a batch that may be under way at once: one runs, and the next one is ready."""

RUNNING = threading.RLock()
"""Held while a batch is traced, run or differentiated: batched graphs are shared by threads that each capture."""


class _Flushed(threading.local):
    """Seconds that this thread has spent in flushes."""

    seconds = 0.0


_FLUSHED = _Flushed()


def _outside_flushes() -> float:
    """A clock that stands still while this thread flushes."""
    return perf_counter() - _FLUSHED.seconds


class _Held(NamedTuple):
    """Contents of a batch when its flush began.

    captured: in which way; samples: how many, and their numbers; carried: those that use what ran before.
    """

    captured: Setting
    samples: int
    numbers: range
    carried: set[int]


_NO_RECORDS: list[Record] = []


class Results(NamedTuple):
    """The places of a flushed graph's rows: row r is row `position[r]` of arena `arena[r]` of the session."""

    session: Session
    arena: npt.NDArray[np.int64]
    position: npt.NDArray[np.int64]


class Batch(BatchRoom):
    """Captured calls that wait to run together. One is open per thread; `batching` opens one explicitly.

    `room` falls from 1 to 0 as nodes are captured; below 0 the batch flushes itself.
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "engine",
        "foreign",
        "graph",
        "imports",
        "noted",
        "parameters",
        "records",
        "signatures",
        "tables",
    )

    def __init__(self, engine: Adapter, options: Options, explicit: bool = False, region: Hashable = None) -> None:
        self.engine = engine
        self.options = options
        self.chooser = chooser_of(options, region)
        self.explicit = explicit
        self.report = Report()
        self.thread = threading.get_ident()
        self.task: Any = None  # the task of asyncio that opened it
        self.samples = 0  # calls of outermost blocks since the last flush
        self.sample = 0  # the number of the next one
        self.failed = -1  # where a call was refused, or a sample has raised, the rows there were before; else -1
        self.carried: set[int] = set()  # samples, since the last flush, that use what ran before it
        self.noted: dict[int, Any] = {}  # blocks whose parameters are known, by address
        self.parameters: dict[int, Any] = {}  # arrays of known parameters, by address
        self.misses = 0  # of the cache, up to the last flush that the cost model has learned from
        self.traced = 0  # of the cache's misses, up to the last flush
        self.reason = ""  # why it ran last
        self.caller = ""  # the function of the framework's for which values are being computed, if one is
        self.foreign: dict[type, str] = {}  # classes of arguments that are no part of a node, and why
        self.changes = 0  # of attributes of models, as far as engines notice them
        self.outlined: dict[tuple[int, int], Any] = {}  # cells made from source, by method and model
        self.placed: dict[int, Any] = {}  # methods that have the code with cells now, by the address of the model
        self.parts = 0  # of these, the changes by which a model got other parts, or trains or not
        self.ahead: list[Session] = []  # flushed without waiting, the oldest first
        self.own: Any = engine.account()
        self.reset()

    def reset(self) -> None:
        """Begin an empty graph."""
        self.graph = Graph(self, _outside_flushes)
        self.records = self.graph.records
        self.begun = 0  # the rows there were when samples began to be numbered
        # Arrays and values from outside, by address: each entry keeps its key's object alive.
        self.imports: dict[Any, tuple[Any, Value]] = {}
        self.tables: dict[Any, Any] = {}
        self.signatures: Any = None if FAST is None else FAST.Signatures()  # the records, as C finds them
        self.created: dict[Any, Any] = {}
        self.looks: dict[Any, Any] = {}  # what the models look like that were called, by address
        self.reused: dict[Any, Any] = {}  # what recordings of calls need to know of this graph
        self.room = 1.0
        self._choose()

    def _choose(self) -> None:
        """Decide how to capture what comes next: whether it is training shows when it begins."""
        self.setting = self.chooser.setting(is_recorded(self.engine.current_mode()))
        self.sharing, self.fine = self.setting.sharing, self.setting.granularity == "op"

    @property
    def empty(self) -> bool:
        """Tells whether nothing waits to run."""
        return not self.records

    def begin_sample(self) -> None:
        """Begins the next sample: what is captured from here on belongs to it."""
        if self.failed >= 0:
            self._number_anew()
        graph = self.graph
        if not self.records:
            self._choose()
            note_look(self.chooser if self.chooser.explores(self.setting) else None)
        if self.setting.granularity == "graph":  # samples that share a node do not run as one
            for record in self.records.values():
                record.set_aside()
        if not graph.begun:
            graph.begin()
        graph.marks.append((graph.rows, self.sample))
        self.samples += 1
        self.sample += 1

    def _number_anew(self) -> None:
        """After a failure: the next sample is the first of another minibatch if nobody can read what came before.

        What the failed sample has captured itself does not count: its error holds that.
        """
        rows, self.failed = self.failed, -1
        for record in self.records.values():
            if record.held(record.until(self.begun - 1), record.until(rows - 1)):
                return
        self.sample, self.begun = 0, self.graph.rows

    def end_sample(self) -> None:
        """Ends the sample: what is captured from here on belongs to none by itself, as losses do."""
        graph = self.graph
        graph.marks.append((graph.rows, None))
        self._flush_at()

    def end_call(self, cell: Any, begin: float) -> None:
        """Ends a call outside of all samples, begun then, that is one node: the call of a model is a sample."""
        self.report.note(cell.name, "capture", begin, perf_counter())
        if cell.paces is not NO_CHOICE:
            self.samples += 1
            self.sample += 1
            self._flush_at()

    def _flush_at(self) -> None:
        """Run a batch that holds as many samples as it may."""
        flush_at = self.chooser.flush_at
        if flush_at is not None and self.samples >= flush_at:
            self.flush(f"{self.samples} samples, as flush_at={self.options.flush_at!r} says")

    def save_trace(self, path: str | Path) -> None:
        """Write what is captured and has not run, to be read by `python -m gluonjit simulate` (see docs/traces.md).

        A name that ends in .gz is compressed. Nothing runs. Raises TraceError where nothing waits to run.
        """
        save_graph(self.graph, path, self.setting.granularity, self.sharing)

    def discard(self, reason: str) -> None:
        """Forget what was captured; its values then raise BatchClosedError with this reason."""
        graph = self.graph
        self.take_out()
        self.reset()
        graph.owner = reason
        _release(graph)

    def take_out(self) -> None:
        """Give methods back the code that they were written with."""
        while self.placed:
            self.placed.popitem()[1].take()

    def flush(self, reason: str = "batch.flush()", middle: str = "", wait: bool = True) -> None:
        """Run what was captured; in the `middle` of a "sample" or, for a value, of a "scope" of `batching`.

        Without `wait` steps in C run while the program goes on, where nothing is recorded and none but these are left;
        whoever reads a value waits for them. On an error the batch is empty, and values of the failed graph say why.
        """
        if not wait:
            self.join(MOST_AHEAD - 1)
        self._flush_open(reason, middle, wait)
        if wait:
            self.join()

    def join(self, left: int = 0) -> None:
        """Wait for what was flushed without waiting, all but so many flushes."""
        while len(self.ahead) > left:
            self.ahead.pop(0).join()

    def _flush_open(self, reason: str, middle: str, wait: bool) -> None:
        graph = self.graph
        if not graph.records and not graph.lookups and not graph.leaves:
            return
        if self.thread != threading.get_ident():
            raise BatchClosedError(
                "a value captured in another thread was read before that thread's batch had run; "
                "read it (or call flush) in the thread that captured it"
            )
        self.reason = reason
        if middle != "sample":
            self.take_out()
        entered = perf_counter()
        capture = _outside_flushes() - graph.begun if graph.begun else 0.0
        self.report.took("capture", "capture", entered - capture, entered)
        line = line_of(user_line())
        with FLUSH:
            try:
                self._flush(graph, capture, reason, middle, line, wait)
            finally:
                _FLUSHED.seconds += perf_counter() - entered

    def _flush(self, graph: Graph, capture: float, reason: str, middle: str, line: Line | None, wait: bool) -> None:
        held = self._start_over(graph)
        report, times, planned = self.report, {"capture": capture}, _NO_RECORDS
        try:
            with RUNNING:
                begin = perf_counter()
                planner = Planner(graph, self.engine.sum_kind, _shared(held.captured))
                planned = planner.records
                plan = self._plan(graph, planner, held)
                provenance = Provenance(plan, graph.marks)
                report.add_plan(plan, f"{reason}, {line}" if line else reason, planned, provenance)
                times["analysis"] = self._took("analysis", "analysis", begin)
                options = self._run_options()
                with self.engine.running():
                    history = self._run(graph, plan, held.samples, provenance, options, times, wait)
        except BaseException as error:
            graph.owner = f"its batch failed: {error}"
            self.sample = 0  # the minibatch is lost
            MINIBATCH.ran(self, bool(held.carried), None)
            MINIBATCH.end()
            raise
        finally:
            begin = perf_counter()
            calls = graph.calls
            _release(graph, planned)
            times["capture"] += self._took("release", "capture", begin)  # it is as much as was captured
        MINIBATCH.ran(self, bool(held.carried), history)
        begin = perf_counter()
        try:
            self._advise(plan, provenance, held, reason, middle, line)
        finally:
            times["analysis"] += self._took("advice", "analysis", begin)
            if options.profile:
                self._observe(plan, calls, self.chooser.choice, times)

    def _start_over(self, graph: Graph) -> _Held:
        """Begin an empty graph; what this one holds is complete."""
        captured, samples, carried = self.setting, self.samples, self.carried
        self.reset()
        for record in graph.records.values():
            record.complete()
        self.samples = 0
        if carried:
            self.carried = set()
        return _Held(captured, samples, range(self.sample - samples, self.sample), carried)

    def _plan(self, graph: Graph, planner: Planner, held: _Held) -> Plan:
        """The plan of what was captured; the report and the stretch are told how it was chosen."""
        report = self.report
        if report.model is None:
            report.model = partial(_model_of, self.engine)  # no method, which would be a circle with the report
        records = list(graph.records.values())
        plan = self.chooser.plan(planner, records, held.captured, held.samples, report.model)
        for row in graph.overwritten:
            if plan.arena[row] >= 0:  # others nobody reads
                plan.overwritten.append((int(plan.arena[row]), int(plan.position[row])))
        report.choice = choice = self.chooser.choice
        way = f"{choice.setting.granularity}/{choice.setting.scheduler}"
        misses = report.cache["misses"]
        looked = choice.looked or choice.profiled
        note_flush(Flushed(looked, misses > self.traced, way, self.chooser.named))
        self.traced = misses
        return plan

    def _run_options(self) -> Options:
        """The options of a run, which is profiled too where its costs are to be learned."""
        options = self.options
        profile = (options.profile or self.chooser.choice.profiled) and not _called_back()
        return options if profile == options.profile else replace(options, profile=profile)

    def _advise(
        self, plan: Plan, provenance: Provenance, held: _Held, reason: str, middle: str, line: Line | None
    ) -> None:
        """Warn of what could be better in the user's program."""
        carried = held.carried
        apart = len(held.numbers) - sum([n in held.numbers for n in carried]) if self.sample else int(not carried)
        early = MINIBATCH.came_early(plan, held.samples, apart, middle, line, self.caller)
        granularity = held.captured.granularity
        if self.options.granularity == granularity or granularity != "op":  # else operators are the library's own idea
            after_flush(self.report, provenance, held.samples, reason, line, early)

    def _observe(self, plan: Plan, calls: int, choice: Choice, times: dict[str, float]) -> None:
        """Let the cost model learn from a profiled flush; a time of 0 was not measured."""
        report = self.report
        if report.cache["misses"] > self.misses:  # what was traced in it does not come again
            times["capture"] = 0.0
        if choice.looked:  # at other schedules than the one that ran
            times["analysis"] = 0.0
        self.misses = report.cache["misses"]
        gather, compute = map(report.step_seconds, STEP_PARTS)
        observed = Observed(
            plan,
            calls,
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
        wait: bool,
    ) -> Any:
        """Run a plan; what its results can be differentiated by, or None."""
        begin = perf_counter()
        self.engine.check("batching()", options)
        session = self.engine.session(plan, self.report, options, samples, provenance)
        for chunk in plan.inputs:
            if isinstance(chunk, LookupChunk):
                session.put_lookup(chunk)
            else:
                session.put_leaves(chunk)
        session.wait()
        times["inputs"] = self._took("inputs", "gather", begin)
        number = 0
        wait = wait or compares()
        while number < len(plan.steps) and (wait or not session.start(number)):
            number = session.run_from(number)
        if session.ahead is not None:
            self.ahead.append(session)
        begin = perf_counter()
        graph.owner = Results(session, plan.arena, plan.position)
        for record, nodes in plan.live:
            for node in nodes.tolist():
                for value in record.values(node):
                    first = value.rows
                    value.result = session.result(int(plan.arena[first]), int(plan.position[first]))
                    value.graph = None
        session.wait()
        session.finish()
        times["results"] = self._took("results", "gather", begin)
        return session.tape

    def _took(self, name: str, part: str, begin: float) -> float:
        """Note that something has taken from then to now; returns the seconds."""
        end = perf_counter()
        self.report.took(name, part, begin, end)
        return end - begin


def _shared(captured: Setting) -> Sharing:
    """Tells how far products that are cut out of calls are shared; samples that run as one share none."""
    if not captured.sharing:
        return "none"
    return "sample" if captured.granularity == "graph" else "batch"


def _called_back() -> bool:
    """Tells whether a framework's own thread runs this: what waits there for the framework waits for itself."""
    return isinstance(threading.current_thread(), threading._DummyThread)


def _model_of(engine: Adapter) -> CostModel:
    return cost_model(engine.name, engine.versions)


def _release(graph: Graph, planned: Sequence[Record] = ()) -> None:
    """Let go of everything but rows and numbers, which the report needs for the lower bound."""
    for record in (*graph.records.values(), *planned):
        record.release()
    graph.records.clear()
    graph.leaves.clear()
    graph.lookups.clear()
    graph.single_rows.clear()


def results_of(value: Value) -> Results:
    """Finds where a flushed value's rows lie; raises BatchClosedError where its batch did not run."""
    owner = value.graph.owner
    if isinstance(owner, Results):
        return owner
    raise BatchClosedError(f"this value was never computed: {owner}")


def rows_of(value: Value) -> Any:
    """Finds the rows of a flushed value by their places: of a reference, which is no node's own result."""
    results = results_of(value)
    rows = value.row_list()
    return results.session.rows(int(results.arena[rows[0]]), results.position[rows].tolist())
