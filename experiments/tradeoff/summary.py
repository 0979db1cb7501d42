"""Conclusions from the rows: the error of predictions, and the regret of the automatic choice, beside the spread."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, inf, log
from statistics import mean, median
from typing import Any

from experiments.bench.page import joined
from experiments.tradeoff.measuring import Run, Timing

Row = dict[str, Any]


def row_of(workload: str, timing: Timing) -> Row:
    """Return the row of a timing: medians of its repeats; the interval is [lowest, highest]."""
    runs, pairs = timing.runs, timing.pairs
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
        "outside_ms": 1e3 * median(run.outside for run in runs),
        "execution_ms": 1e3 * median(run.seconds - run.capture - run.analysis for run in runs),
        "predicted_ms": median(predicted) if predicted else None,
        "error": median(map(_error, runs)) if predicted else None,
        "measured_ms": 1e3 * measured,
        "interval_ms": [1e3 * min(run.seconds for run in runs), 1e3 * max(run.seconds for run in runs)],
        "times_ms": [1e3 * (one.seconds + other.seconds) / 2 for one, other in pairs],
        "spread": median(abs(one.seconds - other.seconds) / (one.seconds + other.seconds) for one, other in pairs),
        "samples_per_s": timing.batch_size / measured,
        "repeats": len(pairs),
        "choice": runs[-1].choice,
    }


def _error(run: Run) -> float:
    """Return |predicted - measured| / measured of what the library sees of a minibatch."""
    seen = 1e3 * (run.seconds - run.outside)
    return inf if run.predicted_ms is None else abs(run.predicted_ms - seen) / seen


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the errors of predictions by phase, and the regret of the automatic choice by phase and batch size."""
    phases = list(dict.fromkeys(row["phase"] for row in rows))
    sizes = dict.fromkeys(row["batch_size"] for row in rows)
    return {
        "errors": {phase: errors([row for row in rows if row["phase"] == phase]) for phase in phases},
        "regret": {
            phase: {
                str(size): regret([row for row in rows if (row["phase"], row["batch_size"]) == (phase, size)])
                for size in sizes
            }
            for phase in phases
        },
    }


def errors(rows: Sequence[Row]) -> dict[str, float] | None:
    """Return the mean error of predictions, the mean spread, the mean and the worst error beyond the spread of its row.

    None if nothing is predicted.
    """
    known = [row for row in rows if row["error"] is not None]
    if not known:
        return None
    beyond = [max(row["error"] - row["spread"], 0.0) for row in known]
    return {
        "error": mean(row["error"] for row in known),
        "spread": mean(row["spread"] for row in known),
        "beyond": mean(beyond),
        "worst": max(beyond),
    }


def regret(rows: Sequence[Row]) -> dict[str, Any] | None:
    """Return how much longer than the fastest row the automatic one takes, as a fraction, and beyond both spreads.

    The fastest has the least median. Both are compared minibatch by minibatch, which they ran one soon after the other,
    and the median counts: what disturbs the machine for a while does not. None if there is no automatic row. It has
    chosen in minibatches that are not timed. depth: the speed over cells by depth, with equal work shared, in the same
    minibatches.
    """
    automatic = next((row for row in rows if row["sharing"] == "auto"), None)
    if automatic is None:
        return None
    best = min(rows, key=lambda row: row["measured_ms"])
    depth = [row for row in rows if (row["granularity"], row["scheduler"], row["sharing"]) == ("cell", "depth", True)]
    lost = _ratio(automatic, best) - 1
    return {
        "regret": lost,
        "beyond": max(lost - automatic["spread"] - best["spread"], 0.0),
        "best": " ".join(map(str, (best["granularity"], best["scheduler"]))),
        "depth": _ratio(depth[0], automatic) if depth else None,
    }


def _ratio(one: Row, other: Row) -> float:
    return median(mine / its for mine, its in zip(one["times_ms"], other["times_ms"]))


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
                name = f"{granularity}, {row['scheduler']}, {_sharing(row)}"
                lines.append(f"{phase:<10}{size:>6}  {name:<36}{row['samples_per_s']:>10,.0f}{row['launches']:>10,.0f}")
    lines += sentences(found)
    return "\n".join(lines)


def _sharing(row: Row) -> str:
    return {True: "sharing on", False: "sharing off"}.get(row["sharing"], row["choice"] or "")


def sentences(found: dict[str, Any]) -> list[str]:
    """Return the summary, a line for each phase, and for each batch size of it."""
    lines = []
    for phase, off in found["errors"].items():
        known = "none made"
        if off is not None:
            known = (
                f"off by {off['error']:.1%} in the mean, spread of repeats {off['spread']:.1%}; beyond the spread of "
                f"each way {off['beyond']:.1%} in the mean, {off['worst']:.1%} at worst"
            )
        lines.append(f"predictions, {phase}: {known}")
    for phase, sizes in found["regret"].items():
        for size, lost in sizes.items():
            known = (
                "none" if lost is None else f"{lost['regret']:.1%} from the best, {lost['beyond']:.1%} beyond spread"
            )
            lines.append(f"automatic choice, {phase}, batch {size}: {known}")
    return lines


def markdown(rows: Sequence[Row], found: dict[str, Any]) -> str:
    """Return a line for each phase and batch size, and the errors of predictions below."""
    head = ["phase", "batch", "op: ms", "cell: ms", "automatic: ms", "chosen", "over depth", "best", "regret"]
    head += ["beyond spread", "analysis", "outside", "error", "spread"]
    lines = [joined(head), joined(["---", *["---:"] * 4, "---", "---:", "---", *["---:"] * 6])]
    for phase, sizes in found["regret"].items():
        for size, lost in sizes.items():
            each = [fastest(rows, phase, name).get(int(size)) for name in ("op", "cell", "auto")]
            cells = [phase, size, *["" if row is None else f"{row['measured_ms']:.1f}" for row in each]]
            row = each[-1]
            if row is None or lost is None:
                lines.append(joined([*cells, *[""] * 9]))
                continue
            shares = [row[name] / row["measured_ms"] for name in ("analysis_ms", "outside_ms")]
            same = errors([row for row in rows if (row["phase"], row["batch_size"]) == (phase, int(size))])
            off = ["", ""] if same is None else [f"{same[name]:.1%}" for name in ("error", "spread")]
            over = "" if lost["depth"] is None else f"{lost['depth']:.2f}x"
            cells += [row["choice"] or "", over, lost["best"], f"{lost['regret']:.1%}", f"{lost['beyond']:.1%}"]
            lines.append(joined([*cells, *[f"{share:.1%}" for share in shares], *off]))
    off = [line[0].upper() + line[1:] + "." for line in sentences({**found, "regret": {}})]
    return "\n".join([*lines, "", *off, *_crossings(rows)])


def _crossings(rows: Sequence[Row]) -> list[str]:
    """Return where the fastest ways by operators and by cells cross."""
    lines = []
    for phase in dict.fromkeys(row["phase"] for row in rows):
        one, other = (
            {size: row["samples_per_s"] for size, row in fastest(rows, phase, name).items()} for name in ("op", "cell")
        )
        at = ", ".join(f"{size:.0f}" for size, _ in crossings(one, other))
        lines += [f"Operators and cells cross, {phase}, at batch {at}."] * bool(at)
    return lines
