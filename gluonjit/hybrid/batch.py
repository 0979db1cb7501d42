"""The open batch: what has been captured and not yet run, and its flush."""

from __future__ import annotations

import threading
from sys import _getframe
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gluonjit.analysis import Plan, make_plan
from gluonjit.analysis.plan import LookupChunk
from gluonjit.errors import BatchClosedError
from gluonjit.graph import Graph, Mark, Value, line_of, origin_of
from gluonjit.hybrid.advice import after_flush
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.protocol import Engine, Session
from gluonjit.hybrid.provenance import Provenance
from gluonjit.hybrid.report import Report

RUNNING = threading.RLock()
"""Held while a batch is traced, run or differentiated: batched graphs are shared by threads that each capture."""


class Results(NamedTuple):
    """Where the rows of a flushed graph lie: row r is row `position[r]` of arena `arena[r]` of the session."""

    session: Session
    arena: npt.NDArray[np.int64]
    position: npt.NDArray[np.int64]


class Batch:
    """Captured calls that wait to run together. One is open per thread; `batching` opens one explicitly.

    `room` falls from 1 to 0 as nodes are captured; below 0 the batch flushes itself.
    """

    def __init__(self, engine: Engine, options: Options, explicit: bool = False) -> None:
        self.engine = engine
        self.options = options
        self.explicit = explicit
        self.report = Report()
        self.thread = threading.get_ident()
        self.task: Any = None  # the task of asyncio that opened it
        self.samples = 0  # calls of outermost blocks since the last flush
        self.sample = 0  # the number of the next one
        self.noted: dict[int, Any] = {}  # blocks whose parameters are known, by address
        self.parameters: dict[int, Any] = {}  # arrays of known parameters, by address
        self.memory: Any = None  # the engine's account of the memory that captured calls have read
        self.reset()

    def reset(self) -> None:
        """Begin an empty graph."""
        self.graph = Graph(self)
        self.records = self.graph.records
        # Arrays and values from outside, by address: each entry keeps its key's object alive.
        self.imports: dict[Any, tuple[Any, Value]] = {}
        self.tables: dict[Any, Any] = {}
        self.memos: dict[Any, dict[Any, Any]] = {}  # for each cell its calls so far
        self.created: dict[Any, Any] = {}
        self.calls: dict[Any, Any] = {}  # operator calls so far, with their values
        self.ops: dict[Any, Any] = {}  # records by what operator calls of one signature have in common
        self.room = 1.0
        self.sharing = self.options.sharing

    @property
    def empty(self) -> bool:
        """Whether nothing waits to run."""
        return not self.records

    def begin_sample(self) -> None:
        """What is captured from here on belongs to the next sample."""
        self.graph.marks.append(Mark(self.graph.rows, self.sample))
        self.samples += 1
        self.sample += 1

    def end_sample(self) -> None:
        """What is captured from here on belongs to no sample by itself, as losses do."""
        self.graph.marks.append(Mark(self.graph.rows, None))

    def discard(self, reason: str) -> None:
        """Forget what was captured; its values then raise BatchClosedError with this reason."""
        graph = self.graph
        self.reset()
        graph.owner = reason
        _release(graph)

    def flush(self, reason: str, early: bool = False) -> None:
        """Run what was captured; `early` where that is in the middle of a sample or of an explicit batch.

        On an error the batch is empty, and values of the failed graph say why.
        """
        graph = self.graph
        if not graph.records and not graph.lookups and not graph.leaves:
            return
        if self.thread != threading.get_ident():
            raise BatchClosedError(
                "a value captured in another thread was read before that thread's batch had run; "
                "read it (or call flush) in the thread that captured it"
            )
        self.reset()
        for record in graph.records.values():
            record.complete()
        report, samples = self.report, self.samples
        self.samples = 0
        line = line_of(origin_of(_getframe(1)))
        try:
            with RUNNING:
                begin = perf_counter()
                plan = make_plan(graph, self.engine.sum_kind, self.options.scheduler)
                report.took("analysis", "analysis", begin, perf_counter())
                provenance = Provenance(plan, graph.marks)
                reason = f"{reason}, {line}" if line else reason
                report.add_plan(plan, reason, graph.records.values(), provenance)
                self._run(graph, plan, samples, provenance)
        except BaseException as error:
            graph.owner = f"its batch failed: {error}"
            self.sample = 0  # the minibatch is lost
            raise
        finally:
            _release(graph)
        after_flush(report, provenance, samples, line, early)

    def _run(self, graph: Graph, plan: Plan, samples: int, provenance: Provenance) -> None:
        session = self.engine.session(plan, self.report, self.options, samples, provenance)
        begin = perf_counter()
        for chunk in plan.inputs:
            if isinstance(chunk, LookupChunk):
                session.put_lookup(chunk)
            else:
                session.put_leaves(chunk)
        self.report.took("inputs", "gather", begin, perf_counter())
        for number in range(len(plan.steps)):
            session.run(number)
        graph.owner = Results(session, plan.arena, plan.position)
        for record, nodes in plan.live:
            for node in nodes.tolist():
                for value in record.values[node]:
                    first = value.rows
                    value.result = session.result(int(plan.arena[first]), int(plan.position[first]))
                    value.graph = None
        session.finish()


def _release(graph: Graph) -> None:
    """Let go of everything but rows and numbers, which the report needs for the lower bound."""
    for record in graph.records.values():
        record.values = []
        record.memo = {}
    graph.records.clear()
    graph.leaves.clear()
    graph.lookups.clear()
    graph.single_rows.clear()


def results_of(value: Value) -> Results:
    """Where a flushed value's rows lie; raises BatchClosedError where its batch did not run."""
    owner = value.graph.owner
    if isinstance(owner, Results):
        return owner
    raise BatchClosedError(f"this value was never computed: {owner}")
