"""A bar plot of a comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot

from experiments.bench.clock import PHASES
from experiments.bench.files import save_figure
from experiments.bench.table import PAPER, PHASE_NAMES, label, rate

BASELINE_COLOUR = "#9aa5b1"
OURS_COLOUR = "#2f6fb0"
NO_SHARING_COLOUR = "#8db4dc"
PAPER_COLOUR = "#c0392b"
PAIRS = "treelstm-"  # what names of workloads begin with that have the paper's model


FOOTNOTE = (
    "* 5.96x and 6.25x imperative are what Zha et al. (2019) report for their system on their hardware, "
    "drawn here from this run's imperative."
)


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw throughput by system, a row of panels for each batch size, one a phase, and save it."""
    sizes = sorted({row["batch_size"] for row in result["rows"]})
    groups = [[row for row in result["rows"] if row["batch_size"] == size] for size in sizes]
    height = sum(1.6 + 0.45 * (len(rows) // len(PHASES) + 1) for rows in groups)
    figure, grid = pyplot.subplots(
        len(groups), len(PHASES), figsize=(11, height), layout="constrained", squeeze=False, sharey="row"
    )
    paper = result["workload"].startswith(PAIRS)
    for rows, panels in zip(groups, grid):
        for panel, phase in zip(panels, PHASES):
            of_phase = [row for row in rows if row["phase"] == phase]
            _panel(panel, of_phase, rate(of_phase, "imperative", phase), paper)
            panel.set_title(f"{PHASE_NAMES[phase]}, batch {rows[0]['batch_size']}", fontsize=10)
    figure.suptitle(_title(result), fontsize=10)
    if paper and rate(result["rows"], "imperative", PHASES[0]):
        figure.supxlabel(FOOTNOTE, fontsize=8, color=PAPER_COLOUR)
    save_figure(figure, path, 150)
    pyplot.close(figure)


def _title(result: dict[str, Any]) -> str:
    """Return the title: the measurement, and whether it may be quoted."""
    made = result["workload"].endswith(("builtin", "synthetic"))
    cores = f"{result['threads']} thread" + ("s" if result["threads"] > 1 else "")
    title = f"{result['workload']}{' (generated, synthetic corpus)' if made else ''}, {cores}"
    return title + ("\na baseline is under its floor: no claim can be made" if result["under_floor"] else "")


def _panel(panel: Any, rows: list[dict[str, Any]], slowest: float | None, paper: bool) -> None:
    """Draw one phase, with the paper's factor as a last bar where it has one of this model."""
    for place, row in enumerate(rows):
        found = row["samples_per_s"]
        spread = [[found - row["min"]], [row["max"] - found]]
        panel.barh(place, found, xerr=spread, color=_colour(row), ecolor="#555555")
        _write(panel, place, row["max"], f"{found:,.0f}" + (f"  ({found / slowest:.1f}x)" if slowest else ""))
    labels = [label(row) for row in rows]
    if slowest and paper:
        factor = PAPER["imperative", rows[0]["phase"]]
        panel.barh(len(rows), slowest * factor, fill=False, edgecolor=PAPER_COLOUR, linestyle="--")
        _write(panel, len(rows), slowest * factor, f"{factor}x")
        labels.append("the paper's factor*")
    panel.set_yticks(range(len(labels)), labels)
    panel.set_ylim(len(labels) - 0.4, -0.6)
    panel.set_xlim(0, max(row["max"] for row in rows) * 1.3)
    panel.set_xlabel("samples per second (times imperative)")
    panel.spines[["top", "right"]].set_visible(False)


def _write(panel: Any, place: int, right_of: float, text: str) -> None:
    """Write a figure next to its bar."""
    panel.annotate(text, (right_of, place), xytext=(5, 0), textcoords="offset points", va="center", fontsize=9)


def _colour(row: dict[str, Any]) -> str:
    """Tell baselines, batching with sharing, and batching without apart."""
    if row["sharing"] is None:
        return BASELINE_COLOUR
    return OURS_COLOUR if row["sharing"] else NO_SHARING_COLOUR
