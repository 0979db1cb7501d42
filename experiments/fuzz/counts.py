"""Counts of what ran in batches: operators and nodes, taken from the plans of all flushes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from gluonjit import Report


@dataclass
class Counts:
    """nodes: those that ran; nodes_batched: those whose launch had others; operators: nodes of each operator."""

    nodes: int = 0
    nodes_batched: int = 0
    operators: Counter[str] = field(default_factory=Counter)

    def add(self, plan: Any, known: frozenset[str]) -> None:
        """Count the steps of a plan."""
        for step in plan.steps:
            self.nodes += step.count
            if step.count > 1 and not step.kind.lone:
                self.nodes_batched += step.count
            name = step.kind.name.split(" ")[0]  # "add_n of 8" is an add_n
            if name in known:
                self.operators[name] += step.count


@contextmanager
def counting(counts: Counts, known: frozenset[str]) -> Iterator[None]:
    """Count the nodes of flushes in this region; `known` are the names of operators."""
    original = Report.add_plan

    def add_plan(self: Report, plan: Any, *rest: Any, **more: Any) -> None:
        original(self, plan, *rest, **more)
        counts.add(plan, known)

    Report.add_plan = add_plan  # type: ignore[method-assign]
    try:
        yield
    finally:
        Report.add_plan = original  # type: ignore[method-assign]
