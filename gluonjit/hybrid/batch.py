"""The open batch: what has been captured and not yet run, and its flush."""

from __future__ import annotations

import threading
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gluonjit.analysis import Gather, Plan, Step, make_plan
from gluonjit.analysis.plan import LookupChunk
from gluonjit.errors import BatchClosedError
from gluonjit.graph import Graph, Value
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.protocol import Engine
from gluonjit.hybrid.report import Report


class Results(NamedTuple):
    """Where the rows of a flushed graph lie: row r is row `position[r]` of `chunks[chunk[r]]`."""

    chunks: list[Any]
    chunk: npt.NDArray[np.int64]
    position: npt.NDArray[np.int64]


class Tape:
    """The history of one flush: its open ends, and which of them backward has been through."""

    def __init__(self, report: Report, samples: int, ends: int, profile: bool) -> None:
        self.report = report
        self.samples = samples
        self.ends = ends
        self.profile = profile
        self.backwards = 0
        self.done: set[tuple[int, int]] = set()


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
        self.flushing = False
        self.samples = 0  # calls of outermost blocks
        self.noted: dict[int, Any] = {}  # blocks whose parameters are known, by address
        self.parameters: dict[int, Any] = {}  # arrays of known parameters, by address
        self.reset()

    def reset(self) -> None:
        """Begin an empty graph."""
        self.graph = Graph(self)
        self.records = self.graph.records
        # Arrays and values from outside, by address: each entry keeps its key's object alive.
        self.imports: dict[int, tuple[Any, Value]] = {}
        self.tables: dict[Any, Any] = {}
        self.created: dict[Any, Any] = {}
        self.room = 1.0
        self.sharing = self.options.sharing

    @property
    def empty(self) -> bool:
        """Whether nothing waits to run."""
        return not self.records

    def discard(self, reason: str) -> None:
        """Forget what was captured; its values then raise BatchClosedError with this reason."""
        graph = self.graph
        self.reset()
        graph.owner = reason
        graph.records.clear()
        graph.leaves.clear()

    def flush(self, reason: str) -> None:
        """Run what was captured. On an error the batch is empty, and values of the failed graph say why."""
        graph = self.graph
        if not graph.records and not graph.lookups:
            return
        if self.thread != threading.get_ident():
            raise BatchClosedError(
                "a value captured in another thread was read before that thread's batch had run; "
                "read it (or call flush) in the thread that captured it"
            )
        self.reset()
        report = self.report
        report.flushes += 1
        report.reasons.append(reason)
        report.calls += graph.calls
        try:
            begin = perf_counter()
            plan = make_plan(graph, self.engine.sum_kind)
            report.ms["analysis"] += (perf_counter() - begin) * 1e3
            report.add_plan(plan)
            self._run(graph, plan)
        except BaseException as error:
            graph.owner = f"its batch failed: {error}"
            raise
        finally:
            graph.records.clear()
            graph.leaves.clear()

    def _run(self, graph: Graph, plan: Plan) -> None:
        mode = max([step.mode for step in plan.steps], default=0)
        chunks = [self._input(chunk, mode) for chunk in plan.inputs]
        indices = self._indices(plan)
        pools: dict[Any, Any] = {}
        for number, step in enumerate(plan.steps):
            chunks.extend(self._step(step, chunks, pools, indices[number]))
        results = Results(chunks, plan.chunk, plan.position)
        tape = Tape(self.report, self.samples, plan.ends, self.options.profile)
        self.samples = 0
        for record, nodes in plan.live:
            for node in nodes.tolist():
                for value in record.values[node]:
                    first = value.rows
                    value.result = (chunks[plan.chunk[first]], int(plan.position[first]), tape)
                    value.graph = None
        graph.owner = results

    def _input(self, chunk: Any, mode: int) -> Any:
        if isinstance(chunk, LookupChunk):
            return self.engine.lookup_chunk(chunk.table, chunk.spec, chunk.indices, mode)
        return self.engine.leaf_chunk(chunk.leaves, mode)

    def _indices(self, plan: Plan) -> list[list[Any]]:
        """The engine's index array of each gather of each step, None where all rows are taken in order."""
        found: list[list[Any]] = [[None] * len(step.gathers) for step in plan.steps]
        by_device: dict[Any, list[tuple[int, int, npt.NDArray[np.int64]]]] = {}
        for number, step in enumerate(plan.steps):
            for position, gather in enumerate(step.gathers):
                if gather.index is not None:
                    device = step.kind.operands[step.kind.groups[position][0]].device
                    by_device.setdefault(device, []).append((number, position, gather.index))
        for device, wanted in by_device.items():
            arrays = self.engine.upload([index for _, _, index in wanted], device)
            for (number, position, _), array in zip(wanted, arrays):
                found[number][position] = array
        return found

    def _step(self, step: Step, chunks: list[Any], pools: dict[Any, Any], indices: list[Any]) -> list[Any]:
        engine, ms, profile = self.engine, self.report.ms, self.options.profile
        begin = perf_counter()
        operands = [
            self._operand(gather, index, step.mode, chunks, pools)
            for gather, index in zip(step.gathers, indices)
        ]
        if profile:
            engine.wait()
        middle = perf_counter()
        results = engine.run_step(step.kind, operands, step.count, step.mode)
        if profile:
            engine.wait()
        ms["gather"] += (middle - begin) * 1e3
        ms["compute"] += (perf_counter() - middle) * 1e3
        return results

    def _operand(
        self, gather: Gather, index: Any, mode: int, chunks: list[Any], pools: dict[Any, Any]
    ) -> Any:
        """The rows of an operand. Chunks that several gathers read together are concatenated once."""
        sources = gather.sources
        if len(sources) == 1:
            pool = chunks[sources[0]]
        else:
            key = (sources, mode >= 2)
            pool = pools.get(key)
            if pool is None:
                pool = pools[key] = self.engine.concat([chunks[number] for number in sources], mode)
        if index is None:
            return pool
        self.report.gathers += 1
        return self.engine.take(pool, index, mode)


def results_of(value: Value) -> Results:
    """Where a flushed value's rows lie; raises BatchClosedError where its batch did not run."""
    owner = value.graph.owner
    if isinstance(owner, Results):
        return owner
    raise BatchClosedError(f"this value was never computed: {owner}")
