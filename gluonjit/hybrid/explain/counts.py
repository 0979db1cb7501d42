"""Counts and times of a batch, kept by capture and engines; `report` makes a report of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, NamedTuple

from gluonjit.graph.origins import Line

_KEPT_EVENTS = 20_000
PARTS = ("capture", "analysis", "gather", "compute", "backward")
STEP_PARTS = ("gather", "compute")


class KindRow(NamedTuple):
    """The calls of one name: captured, run (the others were shared, folded or dropped), and their launches."""

    calls: int
    nodes: int
    launches: int


@dataclass
class Reuse:
    """Calls of blocks with the option `reuse`.

    hits: calls captured from a recording, without running the block.
    misses: calls captured and recorded.
    checked: hits that ran anyway, to compare.
    refused: calls captured without reuse, by the reason.
    """

    hits: int = 0
    misses: int = 0
    checked: int = 0
    refused: dict[str, int] = field(default_factory=dict)


class TimelineEvent(NamedTuple):
    """Work of the host, in seconds of `time.perf_counter`."""

    name: str
    part: str
    begin: float
    end: float


@dataclass
class Counts:
    """Counts of a batch, summed over its flushes.

    calls: captured calls.
    nodes: distinct calls that ran.
    shared: calls equal to an earlier one.
    dropped: nodes whose results nobody could read.
    launches: batched launches of cells and operators.
    fused: launches that ran in C as a whole.
    row_ms: milliseconds inside of these, forward and backward.
    gathers: launches that gather operands.
    gathered: bytes copied by gathers.
    flushes: flushes of the batch.
    ms: milliseconds by part. Capture is the time from the first call to the flush, including the program's own work
        between calls, and the release of the graph. The engine works asynchronously: without the option `profile`,
        gather, compute and backward are the times to hand over the work.
    kinds: calls, nodes and launches by name.
    alone: operators that cannot be batched, with the reason.
    unbatched: calls that are not one node, with the reason.
    outlined: lines of methods made into cells, with their numbers of operators, or the reason why not.
    by_number: cells that run separately for each number of children, with the reason.
    unfused: kinds whose steps do not run in C as a whole, with the reason.
    checked: programs that were compared with their operators run for one sample, forward and backward.
    distrusted: kinds that differed, and so run one by one, with the difference.
    unchecked: kinds that could not be compared, with the reason.
    cache: hits and misses of the cache of batched graphs.
    retraced: cache hits that were traced again, to compare.
    reads: values read in the middle of samples: "answered" from known values, such as integer inputs, or "flushed",
        because they were pending.
    reuse: calls that may be reused.
    ways: times of eager and batched calls, if both are timed.
    """

    calls: int = 0
    nodes: int = 0
    dropped: int = 0
    launches: int = 0
    fused: int = 0
    row_ms: float = 0.0
    gathers: int = 0
    gathered: int = 0
    flushes: int = 0
    checked: int = 0
    distrusted: dict[str, str] = field(default_factory=dict)
    unchecked: dict[str, str] = field(default_factory=dict)
    alone: dict[str, str] = field(default_factory=dict)
    unbatched: dict[str, str] = field(default_factory=dict)
    by_number: dict[str, str] = field(default_factory=dict)
    outlined: dict[str, str] = field(default_factory=dict)
    unfused: dict[str, str] = field(default_factory=dict)
    reasons_at: dict[tuple[str, Line | None], int] = field(default_factory=dict, repr=False)  # with the user's line
    kinds: dict[str, KindRow] = field(default_factory=dict)
    cache: dict[str, int] = field(default_factory=lambda: {"hits": 0, "misses": 0})
    reads: dict[str, int] = field(default_factory=lambda: {"answered": 0, "flushed": 0})
    reuse: Reuse = field(default_factory=Reuse)
    retraced: int = 0
    ms: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    ways: list[str] = field(default_factory=list)  # times of eager and batched calls, if both are timed
    missed: str = field(default="", repr=False)  # the last name that missed the cache
    anew: str = field(default="", repr=False)  # its class, if that was the first call of an object
    fine: set[str] = field(default_factory=set, repr=False)  # of `unbatched`: intended, or not the user's to change
    _step_seconds: dict[str, list[float]] = field(default_factory=dict, repr=False)  # of the last flush, by part
    # Plain tuples: the garbage collector untracks those.
    _events: deque[tuple[str | int, str, float, float]] = field(
        default_factory=lambda: deque(maxlen=_KEPT_EVENTS), repr=False
    )

    @property
    def reasons(self) -> dict[str, int]:
        """The reasons why the batch ran, and how often."""
        found: dict[str, int] = {}
        for (reason, line), count in self.reasons_at.items():
            text = f"{reason}, {line}" if line else reason
            found[text] = found.get(text, 0) + count
        return found

    @property
    def shared(self) -> int:
        """Calls that cost nothing because an equal call existed."""
        return self.calls - self.nodes - self.dropped

    def miss(self, cell: Any, owner: Any) -> None:
        """Counts a call of a cell, of its `owner` if not None, with a new signature."""
        self.missed = cell.name
        self.anew = "" if cell.met or owner is None else type(owner).__name__
        cell.met = True

    def took(self, name: str, part: str, begin: float, end: float, step: int | None = None) -> None:
        """Records the time of something, in seconds of `time.perf_counter`."""
        self.ms[part] += (end - begin) * 1e3
        if step is not None:
            self._step_seconds[part][step] += end - begin
        self._events.append((name, part, begin, end))

    def took_each(
        self, names: Sequence[str], part: str, begin: float, ends: Sequence[float], steps: Sequence[int]
    ) -> None:
        """Records the times of steps that ran one after the other, each until its end."""
        self.ms[part] += (ends[-1] - begin) * 1e3
        seconds, begins = self._step_seconds[part], [begin, *ends[:-1]]
        for step, since, end in zip(steps, begins, ends):
            seconds[step] += end - since
        self._events.extend(zip(names, repeat(part), begins, ends))

    def note(self, name: str | int, part: str, begin: float, end: float) -> None:
        """Adds an entry to the timeline that is counted elsewhere; a number is that of a sample."""
        self._events.append((name, part, begin, end))

    @property
    def timeline(self) -> list[TimelineEvent]:
        """The latest 20,000 entries."""
        return [
            TimelineEvent(f"sample {name}" if isinstance(name, int) else name, part, begin, end)
            for name, part, begin, end in self._events
        ]

    def step_seconds(self, part: str) -> list[float]:
        """Seconds of "gather" or "compute" in each step of the last flush."""
        return self._step_seconds.get(part, [])
