"""What a flush did, in numbers and as a table."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import NamedTuple

from gluonjit.analysis import Plan, lower_bound

_KEPT_PLANS = 16


class StepRow(NamedTuple):
    """One step: the kind's name, its nodes, its number of launches, and why they ran alone, if they did."""

    name: str
    nodes: int
    launches: int
    alone: str | None


@dataclass
class Report:
    """What a batch did, all its flushes added up; `steps` are those of the last one.

    calls: captured calls; nodes: distinct ones that ran; shared: calls that another call had already made;
    dropped: nodes whose results nobody could read; launches: batched launches of cells and operators;
    gathers: launches that put operands together; ms: milliseconds by part. The engine works asynchronously:
    unless the option `profile` was set, gather, compute and backward are the times to hand the work over.
    cache: hits and misses of the cache of batched graphs.
    """

    calls: int = 0
    nodes: int = 0
    dropped: int = 0
    launches: int = 0
    gathers: int = 0
    flushes: int = 0
    steps: list[StepRow] = field(default_factory=list)
    alone: dict[str, str] = field(default_factory=dict)
    unbatched: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    cache: dict[str, int] = field(default_factory=lambda: {"hits": 0, "misses": 0})
    ms: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("capture", "analysis", "gather", "compute", "backward"), 0.0)
    )
    _plans: list[Plan] = field(default_factory=list, repr=False)
    _bound: int = field(default=0, repr=False)

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

    def add_plan(self, plan: Plan, reason: str) -> None:
        """Count a plan's steps. A few plans are kept for the lower bound, so that few flushes do not pay for it."""
        self.flushes += 1
        self.reasons[reason] = self.reasons.get(reason, 0) + 1
        self.nodes += plan.nodes
        self.dropped += plan.dropped
        self.steps = []
        if len(self._plans) >= _KEPT_PLANS:
            self._bound += lower_bound(self._plans.pop())
        for step in plan.steps:
            kind = step.kind
            launches = step.count if kind.lone else 1
            self.launches += launches
            self.steps.append(StepRow(kind.name, step.count, launches, kind.lone))
            if kind.lone:
                self.alone[kind.name] = kind.lone
        self._plans.append(plan)

    def to_json(self) -> str:
        """The report as JSON."""
        known = _fields_of(self)
        known.update(shared=self.shared, lower_bound=self.lower_bound)
        return json.dumps(known)

    def __str__(self) -> str:
        head = (
            f"{self.calls} calls, {self.nodes} nodes run ({self.shared} shared, {self.dropped} dropped) in "
            f"{self.launches} launches (lower bound {self.lower_bound}), {self.flushes} flush(es)"
        )
        times = ", ".join(f"{part} {value:.1f}" for part, value in self.ms.items())
        lines = [head, f"ms: {times}", *_step_table(self.steps)]
        lines += [f"alone: {name}: {why}" for name, why in self.alone.items()]
        lines += [f"not one cell: {name}: {why}" for name, why in self.unbatched.items()]
        lines += [f"flushed {count} x: {reason}" for reason, count in self.reasons.items()]
        return "\n".join(lines)


def _fields_of(report: Report) -> dict[str, object]:
    """The fields of a report with their rows as dictionaries."""
    values: dict[str, object] = {
        name: getattr(report, name) for name in report.__dataclass_fields__ if not name.startswith("_")
    }
    values["steps"] = [row._asdict() for row in report.steps]
    return values


def _step_table(steps: list[StepRow], most: int = 40) -> list[str]:
    width = max((len(row.name) for row in steps), default=4)
    lines = [f"  {'step':<{width}}  nodes  launches"]
    lines += [f"  {row.name:<{width}}  {row.nodes:>5}  {row.launches:>8}" for row in steps[:most]]
    if len(steps) > most:
        lines.append(f"  ... and {len(steps) - most} more steps")
    return lines
