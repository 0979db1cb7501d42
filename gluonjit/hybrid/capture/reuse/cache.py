"""Reused calls: a bounded cache of their captures, and capture in isolation from all other calls."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Hashable
from itertools import count
from operator import is_not
from threading import Lock
from typing import Any, NamedTuple, Union

from gluonjit.graph import Record, Rows, Value
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.state import LOCAL

MOST_RECORDINGS = 100_000
MOST_BYTES = 256_000_000
_MOST_NAMES = 20_000
_apart = count(1)


class NotReusable(Exception):
    """The reason why a call cannot be reused."""


class CaptureTemplate(NamedTuple):
    """A recording of a call: packed nodes, what they read that was there before, and what the call returned.

    lookups: entries of tables, by the table's number; leaves: the sources of arrays; copies: rows of its nodes that
    arrays with memory of their own refer to; written: what `Graph.overwrite` noted; views: the numbers of returned
    arrays that are views of others of these, those of the others, and which views they are.
    """

    code: array[int]
    lookups: tuple[tuple[int, tuple[int, ...]], ...]
    leaves: tuple[Any, ...]
    results: tuple[Any, ...]
    structure: Any
    kinds: tuple[int, ...]
    copies: tuple[int, ...]
    written: tuple[tuple[int, int, int], ...]
    views: tuple[tuple[int, int, Any], ...]
    bytes: int


class ReuseRefusal(NamedTuple):
    """The reason why calls of a key are captured each time."""

    reason: str
    bytes: int = 200


Known = Union[CaptureTemplate, ReuseRefusal]


class Names:
    """Objects numbered in order of appearance."""

    def __init__(self) -> None:
        self.things: list[Any] = []
        self._numbers: dict[Hashable, int] = {}
        self._lock = Lock()

    def number(self, key: Hashable, thing: Any) -> int:
        """Returns the number of an object, assigned when its key is new."""
        found = self._numbers.get(key)
        if found is None:
            with self._lock:
                if key not in self._numbers:
                    self.things.append(thing)
                    self._numbers[key] = len(self.things) - 1
                found = self._numbers[key]
        return found


class RecordingTables(NamedTuple):
    """The common part of a block's recordings, numbered; dropping the recordings starts new numbers."""

    kinds: Names
    origins: Names
    tables: Names
    scopes: Names


class Recordings:
    """The recordings of one block, the most recently used: at most 100,000 and 256 MB.

    `check` is the option `check_reuse`. A net may be shared by threads.
    """

    def __init__(self, check: int | None) -> None:
        self.check = check
        self.lock = Lock()
        self.clear()

    def clear(self) -> None:
        """Forgets all of them."""
        with self.lock:
            self.entries: OrderedDict[Hashable, Known] = OrderedDict()
            self.bytes = 0
            self.hits = 0
            self.parts: list[Any] = []  # of the model that they are of
            self.shared = RecordingTables(Names(), Names(), Names(), Names())

    def hold_for(self, parts: list[Any]) -> RecordingTables:
        """Drops all recordings if the model has other parts than before; returns the common part of those left."""
        if len(parts) != len(self.parts) or any(map(is_not, parts, self.parts)):
            self.clear()
            self.parts = parts
        return self.shared

    def get(self, key: Hashable, shared: RecordingTables) -> Known | None:
        """Returns the template or refusal of a key, in these numbers."""
        found = self.entries.get(key)
        if found is None or shared is not self.shared:
            return None
        try:
            self.entries.move_to_end(key)
        except KeyError:  # another thread has dropped it meanwhile
            return None
        return found

    def store(self, key: Hashable, known: Known, shared: RecordingTables) -> None:
        """Stores the template or refusal of a key, evicting others if necessary; not if all were dropped meanwhile."""
        with self.lock:
            if shared is not self.shared:
                return
            self._drop(key)
            self.entries[key] = known
            self.bytes += known.bytes
            while len(self.entries) > MOST_RECORDINGS or self.bytes > MOST_BYTES:
                self._drop(next(iter(self.entries)))
        if sum(len(names.things) for names in shared) > _MOST_NAMES:
            self.clear()

    def drop(self, key: Hashable) -> None:
        """Forgets one."""
        with self.lock:
            self._drop(key)

    def due(self) -> bool:
        """Counts a hit, and tells whether to check it."""
        self.hits += 1
        return self.check is not None and self.hits % self.check == 0

    def _drop(self, key: Hashable) -> None:
        old = self.entries.pop(key, None)
        self.bytes -= 0 if old is None else old.bytes


class Apart:
    """Captures in isolation: it shares nothing with earlier captures, so everything that a call captures is new.

    number: tells it from others; copies, written: the numbers of `graph.copies` and `graph.overwritten` before it.
    """

    reason = ""  # why the call is no function of its key
    open = True

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.graph = batch.graph
        self.number = next(_apart)
        self.copies, self.written = len(batch.graph.copies), len(batch.graph.overwritten)
        self._room = batch.room
        self._misses = batch.report.cache["misses"]
        self._before = {record: (len(record), record.calls, record.set_aside()) for record in batch.records.values()}
        LOCAL.state.recorded = self

    @property
    def traced(self) -> bool:
        """True if calls have been traced meanwhile."""
        return self.batch.report.cache["misses"] > self._misses

    @property
    def ran(self) -> bool:
        """True if the batch has run meanwhile, or another one is open."""
        return self.batch.graph is not self.graph or LOCAL.state.batch is not self.batch

    def records(self) -> list[tuple[Any, Record, int]]:
        """Signature, record and number of the first new node, of each record that has one."""
        found = [(key, record, self.first(record)) for key, record in self.batch.records.items()]
        return [(key, record, first) for key, record, first in found if len(record) > first]

    def first(self, record: Record) -> int:
        """The number of the first new node of a record."""
        return self._before.get(record, (0,))[0]

    def holds(self) -> bool:
        """True if values of new nodes have more than one reference each."""
        return any(record.held(first, len(record), 1) for _, record, first in self.records())

    def calls(self, record: Record) -> int:
        """The number of calls of a record."""
        return record.calls - self._before.get(record, (0, 0))[1]

    def undo(self) -> None:
        """Removes the new nodes. Rows of inputs stay. Values go first, so that an interrupt leaves no nodes."""
        for record in self.batch.records.values():
            first, record.calls, shares = self._before.get(record, (0, 0, None))
            record.truncate(first)
            if shares is not None:
                record.put_back(shares, False)
            else:
                record.set_aside()
        del self.graph.copies[self.copies :], self.graph.overwritten[self.written :]
        self.batch.room = self._room
        self._leave()

    def keep(self) -> None:
        """Keeps the new nodes like any others. Does nothing after `keep` or `undo`."""
        if not self.open:
            return
        if self.batch.graph is self.graph:
            for record, (_, _, shares) in self._before.items():
                record.put_back(shares, True)
        self._leave()

    def _leave(self) -> None:
        self.open = False
        LOCAL.state.recorded = None


def refuse(reason: str) -> None:
    """Notes that the call being recorded, if any, cannot be repeated without running it."""
    apart = LOCAL.state.recorded
    if apart is not None:
        apart.reason = apart.reason or reason


class Reference(NamedTuple):
    """A result that is made of rows of nodes, the numbers of which are `nodes`."""

    rows: Rows
    spec: Any
    taped: bool
    nodes: tuple[int, ...]


def renumbered(rows: Rows, number: Callable[[int], int]) -> Rows:
    """The same rows by other numbers."""
    return tuple(map(number, rows)) if isinstance(rows, tuple) else number(rows)


def made(result: Any, found: Any, graph: Any) -> Value:
    """A result: one of a node's, given as (node, which), or a reference."""
    if not isinstance(result, Reference):
        return found.value(*result)  # type: ignore[no-any-return]
    rows = renumbered(result.rows, found.row)
    used = [value for node in result.nodes for value in found.values(node)]
    return Value(rows, max([value.depth for value in used]), result.spec, graph, result.taped, tuple(used))
