"""Savings of a layout by PQ trees: gathers, their bytes, and their share of a minibatch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from time import process_time
from typing import Any

import numpy as np

import gluonjit
from experiments.schedulers.aligning import Aligned
from experiments.schedulers.columns import Rows, rows_of
from experiments.schedulers.measuring import Run, inference, wait

WAY: dict[str, Any] = {"granularity": "cell", "sharing": True, "scheduler": "bound"}
REPEATS = 20
"""Of the gathers of a plan, of which the fastest counts."""


@dataclass(frozen=True)
class Row:
    """A minibatch: nodes, launches, milliseconds of processor time; gathers, their bytes and ms, of ours and by trees.

    ours: gathers of the library, which puts operands of equal shape together; single: each operand by itself.
    """

    name: str
    nodes: int
    launches: int
    ms: float
    ours: tuple[int, int, float]
    single: tuple[int, int, float]
    trees: tuple[int, int, float]

    @property
    def most(self) -> float:
        """Share of the minibatch that would be gained, if to find this layout took no time."""
        return max(self.ours[2] - self.trees[2], 0.0) / self.ms


def measured(name: str, runs: Sequence[Run], engine: str) -> Row:
    """Measure the plan of the first minibatch, and the time of the others."""
    times = []
    for run in (runs[0], *runs):  # calls are known from the second on
        begin = process_time()
        with inference(engine), gluonjit.batching(**WAY) as batch:
            losses = run()
        wait(engine)
        times.append(process_time() - begin)
        del losses  # until here they could be read, so that all of them ran
        if len(times) == 2:
            report = batch.report
    assert report.last is not None
    plan = report.last.plan
    rows = rows_of(plan)
    ours = [(each.place.arena, each.index) for step in plan.steps for each in step.gathers if each.is_copied]
    layouts = ours, rows.copied(), rows.copied(Aligned(rows).orders)
    turns = [[_seconds(rows, copied) for copied in layouts] for _ in range(REPEATS)]
    found = [(len(of), rows.bytes(of), min(seconds) * 1e3) for of, seconds in zip(layouts, zip(*turns))]
    return Row(name, report.nodes, report.launches, median(times[2:]) * 1e3, *found)


def _seconds(rows: Rows, copied: Sequence[tuple[int, np.ndarray]]) -> float:
    """Time numpy's gathers of these rows."""
    arenas = [np.ones((count, max(size // 4, 1)), dtype=np.float32) for count, size in rows.arenas]
    begin = process_time()
    for arena, index in copied:
        arenas[arena].take(index, axis=0)
    return process_time() - begin
