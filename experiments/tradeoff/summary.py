"""Conclusions from the rows: the error of predictions, and the regret of the automatic choice."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from statistics import mean, median
from typing import Any

from experiments.tradeoff.measuring import Timing

Row = dict[str, Any]


def row_of(workload: str, timing: Timing) -> Row:
    """Return the row of a timing: medians of its repeats; the interval is [lowest, highest]."""
    runs = timing.runs
    measured = median(run.seconds for run in runs)
    predicted = [run.predicted_ms for run in runs if run.predicted_ms is not None]
    return {
        "workload": workload,
        **timing.configuration._asdict(),
        "batch_size": timing.batch_size,
        "phase": timing.phase,
        "nodes": median(run.nodes for run in runs),
        "launches": median(run.launches for run in runs),
        "capture_ms": 1e3 * median(run.capture for run in runs),
        "analysis_ms": 1e3 * median(run.analysis for run in runs),
        "execution_ms": 1e3 * median(run.seconds - run.capture - run.analysis for run in runs),
        "predicted_ms": median(predicted) if predicted else None,
        "measured_ms": 1e3 * measured,
        "interval_ms": [1e3 * min(run.seconds for run in runs), 1e3 * max(run.seconds for run in runs)],
        "times_ms": [1e3 * run.seconds for run in runs],
        "samples_per_s": timing.batch_size / measured,
        "repeats": len(runs),
        "choice": runs[-1].choice,
    }


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the mean error of predictions by phase, and the regret of the automatic choice by batch size."""
    phases = dict.fromkeys(row["phase"] for row in rows)
    sizes = dict.fromkeys(row["batch_size"] for row in rows)
    return {
        "mape": {phase: mape([row for row in rows if row["phase"] == phase]) for phase in phases},
        "regret": {str(size): regret([row for row in rows if row["batch_size"] == size]) for size in sizes},
    }


def mape(rows: Sequence[Row]) -> float | None:
    """Return the mean of |predicted - measured| / measured; None if nothing is predicted."""
    off = [
        abs(row["predicted_ms"] - row["measured_ms"]) / row["measured_ms"]
        for row in rows
        if row["predicted_ms"] is not None
    ]
    return mean(off) if off else None


def regret(rows: Sequence[Row]) -> float | None:
    """Return how much longer than the fastest row the automatic one takes to train, as a fraction.

    The fastest has the least median. Both are compared minibatch by minibatch, which they ran one soon after the other,
    and the median counts: what disturbs the machine for a while does not. None if there is no automatic row. It has
    chosen in minibatches that are not timed.
    """
    training = [row for row in rows if row["phase"] == "training"]
    automatic = [row for row in training if row["sharing"] == "auto"]
    if not automatic:
        return None
    best = min(training, key=lambda row: row["measured_ms"])
    pairs = zip(automatic[0]["times_ms"], best["times_ms"])
    return median(mine / its for mine, its in pairs) - 1


def fastest(rows: Sequence[Row], phase: str, granularity: str) -> dict[int, Row]:
    """Return the fastest row of a granularity at each batch size."""
    found: dict[int, Row] = {}
    for row in rows:
        if (row["phase"], row["granularity"]) == (phase, granularity):
            best = found.get(row["batch_size"])
            if best is None or row["measured_ms"] < best["measured_ms"]:
                found[row["batch_size"]] = row
    return dict(sorted(found.items()))


def crossings(first: dict[int, float], second: dict[int, float]) -> list[tuple[float, float]]:
    """Return where two curves cross, as (batch size, height); between points both are straight in logarithms."""
    sizes = sorted(set(first) & set(second))
    found = []
    for left, right in zip(sizes, sizes[1:]):
        before, after = log(first[left] / second[left]), log(first[right] / second[right])
        if before * after < 0:
            part = before / (before - after)
            at = log(left) + part * log(right / left)
            height = log(first[left]) + part * log(first[right] / first[left])
            found.append((exp(at), exp(height)))
    return found


def table(rows: Sequence[Row], found: dict[str, Any]) -> str:
    """Return the fastest way of each granularity at each batch size, and the summary, as text."""
    lines = [f"{'phase':<10}{'batch':>6}  {'fastest of each granularity':<36}{'samples/s':>10}{'launches':>10}"]
    for phase in dict.fromkeys(row["phase"] for row in rows):
        for granularity in dict.fromkeys(row["granularity"] for row in rows):
            for size, row in fastest(rows, phase, granularity).items():
                sharing = {True: "sharing on", False: "sharing off"}.get(row["sharing"], row["choice"] or "")
                name = f"{granularity}, {row['scheduler']}, {sharing}"
                lines.append(f"{phase:<10}{size:>6}  {name:<36}{row['samples_per_s']:>10,.0f}{row['launches']:>10,.0f}")
    for phase, off in found["mape"].items():
        lines.append(f"predictions, {phase}: " + ("none made" if off is None else f"off by {off:.1%} in the mean"))
    for size, lost in found["regret"].items():
        lines.append(f"automatic choice at batch {size}: " + ("none" if lost is None else f"{lost:.1%} from the best"))
    return "\n".join(lines)
