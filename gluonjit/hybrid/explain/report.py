"""Reports of a batch, in numbers; `rendering` turns them into tables, pages, graphs and traces."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from gluonjit.analysis.bound import lower_bound
from gluonjit.analysis.costs.model import CostModel
from gluonjit.analysis.plan import Plan, gathered_bytes, launches, row_bytes
from gluonjit.analysis.ways import Choice, Costs
from gluonjit.graph.origins import Line
from gluonjit.hybrid.explain import rendering
from gluonjit.hybrid.explain.apart import apart
from gluonjit.hybrid.explain.counts import STEP_PARTS, Counts, KindRow
from gluonjit.hybrid.explain.provenance import Provenance

_KEPT_PLANS = 16


class StepRow(NamedTuple):
    """One step of the last flush.

    name: the kind's name.
    nodes: the number of nodes that ran together.
    launches: 1, or one per node if they run alone.
    alone: the reason why they run alone, or None.
    gathered: bytes of operands copied by gathers.
    line: the user's line that captured the first node.
    ms: milliseconds of gathering and computing.
    """

    name: str
    nodes: int
    launches: int
    alone: str | None
    gathered: int
    line: str
    ms: float


class _Counted(NamedTuple):
    """The steps of a plan: nodes and launches by name, gathers, their bytes, and what runs alone, and why."""

    ran: dict[str, tuple[int, int]]
    gathers: int
    gathered: int
    alone: dict[str, str]


_NO_ROW = KindRow(0, 0, 0)
_EACH, _NODES = "as every plan runs step by step", "as samples are no units of a schedule: read nodes, and steps"
_GONE = {"executed": _EACH, "padded": _EACH, "units": _NODES, "groups": _NODES}


@dataclass
class Report(Counts):
    """A report on a batch: its counts, the `steps` of its last flush, and the choice made for it."""

    choice: Choice | None = None  # the choice for the last flush, and its alternatives
    last: Provenance | None = field(default=None, repr=False)  # of the last flush
    model: Callable[[], CostModel] | None = field(default=None, repr=False)  # of its engine
    captured: int = field(default=0, repr=False)  # calls of the last flush
    _plans: list[Plan] = field(default_factory=list, repr=False)
    _bound: int = field(default=0, repr=False)

    @property
    def apart(self) -> dict[str, str]:
        """Names whose calls ran as several kinds in the last flush, with what keeps them apart and what to type."""
        return {} if self.last is None else apart([step.kind for step in self.last.plan.steps])

    def predicted(self, training: bool) -> Costs | None:
        """Returns the cost model's prediction of the last flush, in seconds by part, including capture.

        With `training` it includes backward. None before the first flush.
        """
        if self.last is None or self.choice is None or self.model is None:
            return None
        way = self.choice.setting
        return self.model().predict(self.last.plan, self.captured, way.scheduler, way.granularity, training)

    @property
    def lower_bound(self) -> int:
        """The fewest launches of any schedule of these nodes (computed on request)."""
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

    def add_plan(self, plan: Plan, reason: str, line: Line | None, provenance: Provenance) -> None:
        """Counts a plan's steps, and what made it run.

        The last few plans are kept to compute the lower bound only on request.
        """
        counted: _Counted | None = plan.common.counted
        if counted is None:
            counted = plan.common.counted = _counted(plan)
        self.flushes += 1
        why = reason, line
        self.reasons_at[why] = self.reasons_at.get(why, 0) + 1
        self.nodes += plan.nodes
        self.dropped += plan.dropped
        self.launches += plan.launches
        self.gathers += counted.gathers
        self.gathered += counted.gathered
        if counted.alone:
            self.alone.update(counted.alone)
        calls: dict[str, int] = {}
        for record in plan.called:
            name = record.kind.name
            calls[name] = calls.get(name, 0) + record.calls
        for name, count in plan.products.items():
            calls[name] = calls.get(name, 0) + count
        self.calls += sum(calls.values())
        kinds, ran = self.kinds, counted.ran
        for name in calls if calls.keys() >= ran.keys() else {**calls, **ran}:
            known, (nodes, launched) = kinds.get(name, _NO_ROW), ran.get(name, (0, 0))
            kinds[name] = KindRow(known[0] + calls.get(name, 0), known[1] + nodes, known[2] + launched)
        self.last = provenance.without_inputs()
        none = [0.0] * len(plan.steps)
        self._step_seconds = {"gather": none, "compute": none[:]}
        if len(self._plans) >= _KEPT_PLANS:
            self._bound += lower_bound(self._plans.pop())
        self._plans.append(self.last.plan)

    def to_dict(self) -> dict[str, Any]:
        """Returns everything as numbers, strings, lists and dictionaries."""
        names = [name for name, entry in self.__dataclass_fields__.items() if entry.repr]
        known: dict[str, Any] = {name: getattr(self, name) for name in names}
        known["reasons"] = self.reasons
        known["reuse"] = asdict(self.reuse)
        known["kinds"] = {name: row._asdict() for name, row in self.kinds.items()}
        known["steps"] = [row._asdict() for row in self.steps]
        known["choice"] = None if self.choice is None else self.choice.to_dict()
        known.update(shared=self.shared, lower_bound=self.lower_bound)
        return known

    def to_json(self) -> str:
        """Returns the report as JSON."""
        return json.dumps(self.to_dict())

    def to_chrome_trace(self, path: str | Path) -> None:
        """Writes a timeline of the host to a file for chrome://tracing or Perfetto."""
        rendering.write_trace(self, Path(path))

    def to_dot(self, path: str | Path) -> None:
        """Writes the steps of the last flush and their dependencies as a graph for Graphviz."""
        rendering.write_dot(self, Path(path))

    def __str__(self) -> str:
        return rendering.to_text(self)

    def _repr_html_(self) -> str:
        return rendering.to_html(self)


def _gone(name: str, report: Report) -> Any:
    raise AttributeError(f"report of a batch: {name!r} was removed, {_GONE[name]}")


for _name in _GONE:  # a `__getattr__` of the class would slow down everything that is there
    setattr(Report, _name, property(partial(_gone, _name)))


def _counted(plan: Plan) -> _Counted:
    """Counts a plan's steps."""
    ran: dict[str, tuple[int, int]] = {}
    alone: dict[str, str] = {}
    bytes_of = [row_bytes(arena.spec) for arena in plan.arenas]
    copied = [gather for step in plan.steps for gather in step.gathers if gather.is_copied]
    gathered = sum(gather.rows * bytes_of[gather.place.arena] for gather in copied)
    for step in plan.steps:
        kind = step.kind
        nodes, launched = ran.get(kind.name, (0, 0))
        ran[kind.name] = nodes + step.count, launched + launches(step)
        if kind.lone:
            alone[kind.name] = kind.lone
    return _Counted(ran, len(copied), gathered, alone)
