"""Tables and text for the results of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# What these baselines reach at least on one core of a current server; below, the machine was busy.
FLOORS = {
    ("imperative", "train"): 45,
    ("imperative", "inference"): 100,
    ("handbatched", "train"): 680,
    ("handbatched", "inference"): 1700,
}

# Zha et al. 2019, batch 256: how many times faster than each baseline their system was, on their hardware.
PAPER = {
    ("imperative", "train"): 5.96,
    ("imperative", "inference"): 6.25,
    ("hybridized", "train"): 3.01,
    ("hybridized", "inference"): 2.39,
}
BASELINES = ("imperative", "hybridized", "handbatched")
PHASE_NAMES = {"train": "training", "inference": "inference"}

Row = dict[str, Any]


def label(row: Row) -> str:
    """Return the name of a row's system."""
    return f"{row['system']}, no sharing" if row["sharing"] is False else str(row["system"])


def rate(rows: Sequence[Row], system: str, phase: str) -> float | None:
    """Return the samples a second of a system, sharing where it can."""
    found = (row for row in rows if (row["system"], row["phase"]) == (system, phase) and row["sharing"] is not False)
    return next((row["samples_per_s"] for row in found), None)


def findings(
    rows: Sequence[Row],
    floors: Mapping[tuple[str, str], int] = FLOORS,
    baselines: Sequence[str] = BASELINES,
) -> dict[str, Any]:
    """Return the ratios of a run, or the reason why it has none: a baseline under its floor."""
    under = []
    for (system, phase), floor in floors.items():
        found = rate(rows, system, phase)
        if found is not None and found < floor:
            under.append(f"{system} reached {found:.0f} pairs/s in {PHASE_NAMES[phase]}, its floor is {floor}")
    return {"under_floor": under, "ratios": {} if under else ratios_of(rows, baselines)}


def ratios_of(rows: Sequence[Row], baselines: Sequence[str] = BASELINES) -> dict[str, dict[str, dict[str, float]]]:
    """Return, for each batched system and phase, how many times faster it is than each baseline."""
    ratios: dict[str, dict[str, dict[str, float]]] = {}
    for row in rows:
        found = {
            baseline: row["samples_per_s"] / slower
            for baseline in baselines
            if baseline != row["system"] and (slower := rate(rows, baseline, row["phase"]))
        }
        if row["sharing"] is not None and found:
            ratios.setdefault(label(row), {})[row["phase"]] = found
    return ratios


def table(result: dict[str, Any]) -> str:
    """Return the rows as text, with conclusions."""
    lines = rates(result["rows"], "pairs/s")
    lines += [""] + [f"not fit for claims: {reason}" for reason in result["under_floor"]]
    lines += claims(result["ratios"])
    return "\n".join(["", *lines])


def rates(rows: Sequence[Row], unit: str) -> list[str]:
    """Return the rows as lines of text, training first; `unit` heads the rates."""
    lines = [_line(("system", "phase", unit, "min - max", "x imperative", "launches", "bound", "timed"))]
    return lines + [_line(_cells(row, rows)) for row in sorted(rows, key=lambda row: row["phase"] != "train")]


def claims(ratios: Mapping[str, Mapping[str, dict[str, float]]], paper: bool = True) -> list[str]:
    """Return one sentence of ratios for each system and phase, with the paper's where they are of the same model."""
    return [_claim(system, phase, found, paper) for system, phases in ratios.items() for phase, found in phases.items()]


def _cells(row: Row, rows: Sequence[Row]) -> tuple[str, ...]:
    slowest = rate(rows, "imperative", row["phase"])
    return (
        label(row),
        PHASE_NAMES[row["phase"]],
        f"{row['samples_per_s']:,.0f}",
        f"{row['min']:,.0f} - {row['max']:,.0f}",
        f"{row['samples_per_s'] / slowest:.1f}" if slowest else "",
        _number(row["launches_per_batch"]),
        _number(row["lower_bound_per_batch"]),
        f"{row['samples_timed']:,}",
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _line(cells: Sequence[str]) -> str:
    name, phase, *numbers = cells
    widths = (9, 17, 12, 8, 7, 8)
    return f"{name:<24} {phase:<10}" + "".join(f" {cell:>{width}}" for cell, width in zip(numbers, widths))


def _claim(system: str, phase: str, found: dict[str, float], with_paper: bool) -> str:
    """Return one sentence of ratios; the paper's own are marked as such."""
    parts = []
    for baseline, ratio in found.items():
        paper = PAPER.get((baseline, phase)) if with_paper else None
        parts.append(f"{ratio:.1f}x {baseline}" + (f" (paper, its hardware: {paper}x)" if paper else ""))
    return f"{PHASE_NAMES[phase]}: {system} is {', '.join(parts)}"
