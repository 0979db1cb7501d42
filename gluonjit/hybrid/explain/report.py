"""Reports of a batch, in numbers; `rendering` makes tables, pages, graphs and traces of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from operator import add
from pathlib import Path
from typing import Any, NamedTuple

from gluonjit.analysis.bound import lower_bound
from gluonjit.analysis.costs.model import CostModel, Costs
from gluonjit.analysis.measures import gathered_bytes, launches, row_bytes
from gluonjit.analysis.plan import Plan
from gluonjit.graph import Record
from gluonjit.hybrid.choose.choice import Choice
from gluonjit.hybrid.explain import rendering
from gluonjit.hybrid.explain.provenance import Provenance

_KEPT_PLANS = 16
_KEPT_EVENTS = 20_000
PARTS = ("capture", "analysis", "gather", "compute", "backward")
STEP_PARTS = ("gather", "compute")


class StepRow(NamedTuple):
    """One step of the last flush.

    name: the kind's; nodes: how many ran together; launches: one, or one a node where they run alone; alone: why
    they do; gathered: bytes of operands that were copied together; line: the user's line of the first node; ms:
    milliseconds of gathering and computing.
    """

    name: str
    nodes: int
    launches: int
    alone: str | None
    gathered: int
    line: str
    ms: float


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
class Report:
    """A report on a batch, all its flushes added up; `steps` are those of the last one.

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
    choice: Choice | None = None  # what was chosen for the last flush, and between what
    ways: list[str] = field(default_factory=list)  # what eager and batched calls took, where both are timed
    missed: str = field(default="", repr=False)  # the last name that missed the cache
    anew: str = field(default="", repr=False)  # its class, where that was the first call of an object
    fine: set[str] = field(default_factory=set, repr=False)  # of `unbatched`: as meant, or nobody could mend it
    last: Provenance | None = field(default=None, repr=False)  # of the last flush
    model: Callable[[], CostModel] | None = field(default=None, repr=False)  # of its engine
    # Plain tuples: the collector of garbage stops looking at those.
    _events: deque[tuple[str | int, str, float, float]] = field(
        default_factory=lambda: deque(maxlen=_KEPT_EVENTS), repr=False
    )
    _last_calls: int = field(default=0, repr=False)
    _step_seconds: dict[str, list[float]] = field(default_factory=dict, repr=False)  # of the last flush, by part
    _plans: list[Plan] = field(default_factory=list, repr=False)
    _bound: int = field(default=0, repr=False)

    def predicted(self, training: bool) -> Costs | None:
        """Predicts the last flush by the cost model, capture included, and where `training` its backward too.

        In seconds, part by part; None before the first flush.
        """
        if self.last is None or self.choice is None or self.model is None:
            return None
        way = self.choice.setting
        return self.model().predict(self.last.plan, self._last_calls, way.scheduler, way.granularity, training)

    @property
    def shared(self) -> int:
        """Calls that cost nothing because an equal call was there already."""
        return self.calls - self.nodes - self.dropped

    @property
    def lower_bound(self) -> int:
        """The fewest launches any schedule of these nodes could need (computed when asked for)."""
        while self._plans:
            self._bound += lower_bound(self._plans.pop())
        return self._bound

    @property
    def steps(self) -> list[StepRow]:
        """The steps of the last flush, in order."""
        if self.last is None:
            return []
        plan, rows = self.last.plan, []
        parts = [self.step_seconds(part) for part in STEP_PARTS]
        for number, step in enumerate(plan.steps):
            ms = sum(seconds[number] for seconds in parts) * 1e3
            line = str(self.last.line(number) or "")
            row = StepRow(
                step.kind.name, step.count, launches(step), step.kind.lone, gathered_bytes(plan, step), line, ms
            )
            rows.append(row)
        return rows

    def add_plan(self, plan: Plan, reason: str, records: Iterable[Record], provenance: Provenance) -> None:
        """Count a plan's steps. A few plans are kept for the lower bound, so that few flushes do not pay for it."""
        self.flushes += 1
        self.reasons[reason] = self.reasons.get(reason, 0) + 1
        self.nodes += plan.nodes
        self.dropped += plan.dropped
        self.units += plan.units
        self.groups += plan.groups
        self._last_calls = 0
        rows: dict[str, list[int]] = {}
        for record in records:
            self._last_calls += record.calls
            rows.setdefault(record.kind.name, [0, 0, 0])[0] += record.calls
        self.calls += self._last_calls
        bytes_of = [row_bytes(arena.spec) for arena in plan.arenas]
        for step in plan.steps:
            kind, count = step.kind, launches(step)
            self.launches += count
            row = rows[kind.name] if kind.name in rows else rows.setdefault(kind.name, [0, 0, 0])
            row[1] += step.count
            row[2] += count
            for gather in step.gathers:
                if gather.copied:
                    self.gathered += gather.rows * bytes_of[gather.place.arena]
            if kind.lone:
                self.alone[kind.name] = kind.lone
        for name, row in rows.items():
            known = self.kinds.get(name)
            self.kinds[name] = KindRow(*row) if known is None else KindRow(*map(add, known, row))
        self.last = provenance.without_inputs()
        self._step_seconds = {part: [0.0] * len(plan.steps) for part in STEP_PARTS}
        if len(self._plans) >= _KEPT_PLANS:
            self._bound += lower_bound(self._plans.pop())
        self._plans.append(self.last.plan)

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

    def to_dict(self) -> dict[str, Any]:
        """Everything as numbers, strings, lists and dictionaries."""
        names = [name for name, entry in self.__dataclass_fields__.items() if entry.repr]
        known: dict[str, Any] = {name: getattr(self, name) for name in names}
        known["reuse"] = asdict(self.reuse)
        known["executed"] = asdict(self.executed)
        known["kinds"] = {name: row._asdict() for name, row in self.kinds.items()}
        known["steps"] = [row._asdict() for row in self.steps]
        known["choice"] = None if self.choice is None else self.choice.to_dict()
        known.update(shared=self.shared, lower_bound=self.lower_bound)
        return known

    def to_json(self) -> str:
        """The report as JSON."""
        return rendering.to_json(self)

    def to_chrome_trace(self, path: str | Path) -> None:
        """Write what the host did, and when, to a file that chrome://tracing and Perfetto show."""
        rendering.write_trace(self, Path(path))

    def to_dot(self, path: str | Path) -> None:
        """Write the steps of the last flush, and which uses whose results, as a graph for Graphviz."""
        rendering.write_dot(self, Path(path))

    def __str__(self) -> str:
        return rendering.to_text(self)

    def _repr_html_(self) -> str:
        return rendering.to_html(self)
