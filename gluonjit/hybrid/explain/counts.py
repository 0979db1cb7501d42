"""Counts and times of a batch, which capture and engines keep; `report` makes a report of them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_KEPT_EVENTS = 20_000
PARTS = ("capture", "analysis", "gather", "compute", "backward")
STEP_PARTS = ("gather", "compute")


class KindRow(NamedTuple):
    """All calls of one name: captured, run (the rest was shared, folded or dropped), and in how many launches."""

    calls: int
    nodes: int
    launches: int


@dataclass
class Reuse:
    """Calls of blocks with the option `reuse`.

    hits: captured again without running; misses: captured, and kept; checked: hits that ran all the same, to compare;
    refused: calls that were captured as ever because of what they do, by the reason.
    """

    hits: int = 0
    misses: int = 0
    checked: int = 0
    refused: dict[str, int] = field(default_factory=dict)


@dataclass
class Executed:
    """The runners of the plans of flushes, by name, and how often another ran them than was asked for, and why.

    recordings: static plans and steps that were made or enlarged; replays: how often one that was there ran; captures:
    CUDA graphs of them.
    """

    ran: dict[str, int] = field(default_factory=dict)
    declined: dict[str, int] = field(default_factory=dict)
    recordings: int = 0
    replays: int = 0
    captures: int = 0

    def count(self, name: str) -> None:
        """A plan was run by this."""
        self.ran[name] = self.ran.get(name, 0) + 1

    def decline(self, reason: str) -> None:
        """Something else ran than was asked for."""
        self.declined[reason] = self.declined.get(reason, 0) + 1


class Event(NamedTuple):
    """Some work of the host, in seconds of `time.perf_counter`."""

    name: str
    part: str
    begin: float
    end: float


@dataclass
class Counts:
    """Counts of a batch, all its flushes added up.

    calls: captured calls; nodes: distinct ones that ran; shared: calls that another call had already made;
    dropped: nodes whose results nobody could read; launches: batched launches of cells and operators;
    units: what was scheduled: nodes, or with granularity "graph" samples; groups: how many of them were told apart;
    fused: launches that ran in C as a whole; row_ms: milliseconds inside of these, forward and backward; those of a
    flush with `wait=False` count when somebody has waited for them;
    gathers: launches that put operands together; gathered: bytes that those have copied; padded: nodes that ran
    beside for the size of a static plan alone; executed: what ran the plans;
    ms: milliseconds by part, of which capture is from the first call to the flush, with what the program
    does between its calls, and to forget.
    The engine works asynchronously: unless the option `profile` was set, gather, compute and backward are the times
    to hand the work over. kinds: calls, nodes and launches by name; alone: what cannot be batched, and why;
    unbatched: calls that are not one node, and why; outlined: lines of methods that were made cells, and how many
    operators each has, or why they were not; by_number: cells that run apart for each number of children, and
    why; unfused: kinds whose steps do not run in C as a whole, and why; reasons: how often what made the batch run;
    cache: hits and misses of the cache of batched graphs; retraced: calls found in it that were traced again, to
    compare; reads: values that programs read in the middle of samples: "answered" from what was there, such as inputs
    of whole numbers, or "flushed", because they waited to be computed; reuse: what became of calls that may be reused.
    """

    calls: int = 0
    nodes: int = 0
    dropped: int = 0
    launches: int = 0
    units: int = 0
    groups: int = 0
    fused: int = 0
    row_ms: float = 0.0
    gathers: int = 0
    gathered: int = 0
    padded: int = 0
    flushes: int = 0
    alone: dict[str, str] = field(default_factory=dict)
    unbatched: dict[str, str] = field(default_factory=dict)
    by_number: dict[str, str] = field(default_factory=dict)
    outlined: dict[str, str] = field(default_factory=dict)
    unfused: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, KindRow] = field(default_factory=dict)
    cache: dict[str, int] = field(default_factory=lambda: {"hits": 0, "misses": 0})
    reads: dict[str, int] = field(default_factory=lambda: {"answered": 0, "flushed": 0})
    reuse: Reuse = field(default_factory=Reuse)
    retraced: int = 0
    executed: Executed = field(default_factory=Executed)
    ms: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    ways: list[str] = field(default_factory=list)  # what eager and batched calls took, where both are timed
    missed: str = field(default="", repr=False)  # the last name that missed the cache
    anew: str = field(default="", repr=False)  # its class, where that was the first call of an object
    fine: set[str] = field(default_factory=set, repr=False)  # of `unbatched`: as meant, or nobody could mend it
    _step_seconds: dict[str, list[float]] = field(default_factory=dict, repr=False)  # of the last flush, by part
    # Plain tuples: the collector of garbage stops looking at those.
    _events: deque[tuple[str | int, str, float, float]] = field(
        default_factory=lambda: deque(maxlen=_KEPT_EVENTS), repr=False
    )

    @property
    def shared(self) -> int:
        """Calls that cost nothing because an equal call was there already."""
        return self.calls - self.nodes - self.dropped

    def miss(self, cell: Any, owner: Any) -> None:
        """Note that a call of a cell, of its `owner` if that is not None, is of a signature never seen before."""
        self.missed = cell.name
        self.anew = "" if cell.met or owner is None else type(owner).__name__
        cell.met = True

    def took(self, name: str, part: str, begin: float, end: float, step: int | None = None) -> None:
        """Note that something took this long, in seconds of `time.perf_counter`."""
        self.ms[part] += (end - begin) * 1e3
        if step is not None:
            self._step_seconds[part][step] += end - begin
        self._events.append((name, part, begin, end))

    def note(self, name: str | int, part: str, begin: float, end: float) -> None:
        """Show something in the timeline that is a part of what is counted elsewhere: a number is that of a sample."""
        self._events.append((name, part, begin, end))

    @property
    def timeline(self) -> list[Event]:
        """The notes taken, the latest 20,000."""
        return [
            Event(f"sample {name}" if isinstance(name, int) else name, part, begin, end)
            for name, part, begin, end in self._events
        ]

    def step_seconds(self, part: str) -> list[float]:
        """Seconds of "gather" or "compute" in each step of the last flush."""
        return self._step_seconds.get(part, [])
