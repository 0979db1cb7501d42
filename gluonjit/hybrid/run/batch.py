"""The open batch as capture sees it: calls captured and not yet run. `flush` defines how it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from gluonjit.analysis.ways import Setting
from gluonjit.compiled import FAST
from gluonjit.errors import BatchClosedError, OptionError
from gluonjit.graph.frames import user_line
from gluonjit.graph.graph import Graph
from gluonjit.graph.origins import line_of
from gluonjit.graph.recorder import BatchRoom, Record, Value
from gluonjit.hybrid.choose.pacing import FLUSH, NO_CHOICE
from gluonjit.hybrid.explain.counts import Counts
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.engine import Engine

FULL = "the open batch is full (max_nodes, max_bytes)"
"""The reason for running a batch that holds more than it should."""

RUNNING = threading.RLock()
"""Held while a batch is traced, run or differentiated: batched graphs are shared by threads that each capture."""


class _Flushed(threading.local):
    """Seconds that this thread has spent in flushes."""

    seconds = 0.0


_FLUSHED = _Flushed()


def _outside_flushes() -> float:
    """A clock that stands still while this thread flushes."""
    return perf_counter() - _FLUSHED.seconds


class HostNumbers:
    """The host's numbers as a table of themselves, each an array of this many axes. `key` finds it in any batch."""

    weight, taped = None, False

    def __init__(self, *key: Any) -> None:
        self.key = None, *key
        self.dtype, self.device, self.axes = key


class Batch(BatchRoom):
    """Captured calls that wait to run together. One is open per thread; `batching` opens one explicitly.

    `room` falls from 1 to 0 as nodes are captured; below 0 the batch flushes itself.

    * `choose(begins)`: decides how to capture what comes next; `begins` where a sample does.
    * `_flush(graph, capture, reason, middle, line)`: runs a graph that was captured in so many seconds.
    """

    choose: Callable[..., None]
    _flush: Callable[..., None]
    __slots__ = (
        "__dict__",
        "__weakref__",
        "imports",
    )
    setting: Setting
    sharing: bool
    fine: bool

    def __init__(self, engine: Engine, options: Options, report: Counts, explicit: bool) -> None:
        self.engine = engine
        self.options = options
        self.explicit = explicit
        self.asking: Any = None  # the cell of the outermost call
        self.report = report
        self.thread = threading.get_ident()
        self.task: Any = None  # the task of asyncio that opened it
        self.samples = 0  # calls of outermost blocks since the last flush
        self.sample = 0  # the number of the next one
        self.failed = -1  # where a call was refused, or a sample has raised, the rows there were before; else -1
        self.carried: set[int] = set()  # samples, since the last flush, that use what ran before it
        self.noted: dict[int, Any] = {}  # blocks whose parameters are known, by address
        self.parameters: dict[int, Any] = {}  # arrays of known parameters, by address
        self.taken: dict[Any, Any] = {}  # arrays that are parts of weights, among `parameters` while a graph is open
        self.reason = ""  # why it ran last
        self.caller = ""  # the function of the framework's for which values are being computed, if one is
        self.foreign: dict[type, str] = {}  # classes of arguments that are no part of a node, and why
        self.changes = 0  # of attributes of models, as far as engines notice them
        self.outlined: dict[tuple[int, int], Any] = {}  # cells made from source, by method and model
        self.placed: dict[int, Any] = {}  # methods that have the code with cells now, by the address of the model
        self.parts = 0  # of these, the changes by which a model got other parts, or trains or not
        self.own: Any = engine.account()
        self.reset()

    def reset(self) -> None:
        """Begins an empty graph."""
        self.forget_parts()
        self.graph = Graph(self, _outside_flushes)
        self.records = self.graph.records
        self.begun = 0  # the rows there were when samples began to be numbered
        # Arrays and values from outside, by address: each entry keeps its key's object alive.
        self.imports: dict[Any, tuple[Any, Value]] = {}
        self.earlier: dict[Any, tuple[Any, Value]] = {}  # those of samples that go on after a flush
        self.tables: dict[Any, Any] = {}
        self.repeats: Any = None
        self.signatures: Any = (
            None if FAST is None else FAST.SignatureTable()
        )  # the records, as compiled code finds them
        self.created: dict[Any, Any] = {}
        self.operands: dict[Any, dict[Any, Any]] = {}
        self.looks: dict[Any, Any] = {}  # what the models look like that were called, by address
        self.reused: dict[Any, Any] = {}  # what recordings of calls need to know of this graph
        self.room = 1.0
        self.choose()

    def forget_parts(self) -> None:
        """Forgets parts of weights: what the program takes from now on may have other numbers, or another history."""
        for array in self.taken.values():
            self.parameters.pop(id(array), None)
        self.taken.clear()

    @property
    def empty(self) -> bool:
        """True if nothing waits to run."""
        return not self.records

    def host_table(self, dtype: str, device: str, axes: int = 0) -> HostNumbers:
        """Returns the table of the host's numbers of this dtype."""
        key = dtype, device, axes
        found = self.tables.get(key)
        if found is None:
            found = self.tables[key] = HostNumbers(*key)
        return found

    def begin_sample(self) -> None:
        """Begins the next sample: what is captured from here on belongs to it."""
        graph = self.graph
        if not self.records:
            self.choose(begins=True)
        if not graph.begun:
            graph.begin()
        graph.marks.append((graph.rows, self.sample))
        self.samples += 1
        self.sample += 1

    def number_anew(self) -> None:
        """Numbers samples anew after a failure: the next one begins a minibatch if earlier results cannot be read.

        What the failed sample has captured itself does not count: its error holds that. An outermost call asks for
        this before it captures anything, which may hold what is there.
        """
        rows, self.failed = self.failed, -1
        for record in self.records.values():
            if record.held(record.until(self.begun - 1), record.until(rows - 1)):
                return
        self.sample, self.begun = 0, self.graph.rows

    def end_sample(self) -> None:
        """Ends the sample: captures from here on, such as losses, belong to none."""
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
        """Runs a batch that holds as many samples as it may."""
        if self.options.flush_at is None:
            return
        flush_at = self.flush_at
        if flush_at is not None and self.samples >= flush_at:
            self.flush(f"{self.samples} samples, as flush_at={self.options.flush_at!r} says")

    def discard(self, reason: str) -> None:
        """Forgets what was captured; its values then raise BatchClosedError with this reason."""
        graph = self.graph
        self.take_out()
        self.reset()
        graph.owner = reason
        release(graph)

    def take_out(self) -> None:
        """Gives methods back the code that they were written with."""
        while self.placed:
            self.placed.popitem()[1].swap_out()

    def flush(self, reason: str = "batch.flush()", middle: str = "", **removed: Any) -> None:
        """Runs what was captured; in the `middle` of a "sample" or, for a value, of a "scope" of `batching`.

        "map" says that all samples wait for it, of which none has come early.

        After an error the batch is empty, and values of the failed graph say why.
        """
        for name, value in removed.items():
            why = "was removed, as each flush waits until it has run: leave it out" if name == "wait" else "is unknown"
            raise OptionError(f"batch.flush(): {name}={value!r} {why}")
        graph = self.graph
        if not graph.records and not graph.lookups and not graph.leaves:
            return
        if self.thread != threading.get_ident():
            raise BatchClosedError(
                "a value captured in another thread was read before that thread's batch had run; "
                "read it (or call flush) in the thread that captured it"
            )
        self.reason = reason
        if self.placed and middle not in ("sample", "map"):
            self.take_out()
        entered = perf_counter()
        capture = _outside_flushes() - graph.begun if graph.begun else 0.0
        self.report.took("capture", "capture", entered - capture, entered)
        line = line_of(user_line())
        with FLUSH:
            try:
                self._flush(graph, capture, reason, middle, line)
            finally:
                _FLUSHED.seconds += perf_counter() - entered

    # Told by `flush`

    @property
    def flush_at(self) -> int | None:
        """The number of samples at which it runs itself, if there is one."""
        raise NotImplementedError


def release(graph: Graph, planned: Sequence[Record] = ()) -> None:
    """Lets go of everything but rows and numbers, which the report needs for the lower bound."""
    for record in (*graph.records.values(), *planned):
        record.release()
    graph.records.clear()
    graph.leaves.clear()
    graph.lookups.clear()
    graph.single_rows.clear()
    graph.checks.clear()
