"""A bar plot of a comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot

from experiments.treelstm.clock import PHASES
from experiments.treelstm.table import PAPER, PHASE_NAMES, label, rate

BASELINE_COLOUR = "#9aa5b1"
OURS_COLOUR = "#2f6fb0"
NO_SHARING_COLOUR = "#8db4dc"
PAPER_COLOUR = "#c0392b"


FOOTNOTE = (
    "* 5.96x and 6.25x imperative are what Zha et al. (2019) report for their system on their hardware, "
    "drawn here from this run's imperative."
)


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw throughput by system, one panel a phase, and save it."""
    rows = result["rows"]
    bars = len(rows) // len(PHASES) + 1
    figure, panels = pyplot.subplots(1, len(PHASES), figsize=(11, 1.6 + 0.45 * bars), layout="constrained")
    for panel, phase in zip(panels, PHASES):
        _panel(panel, [row for row in rows if row["phase"] == phase], phase)
    panels[1].set_yticklabels([])
    figure.suptitle(_title(result), fontsize=10)
    if rate(rows, "imperative", PHASES[0]):
        figure.supxlabel(FOOTNOTE, fontsize=8, color=PAPER_COLOUR)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _title(result: dict[str, Any]) -> str:
    """Say what was measured, and whether it may be quoted."""
    row = result["rows"][0]
    data = result["workload"].split("-", 1)[1]
    synthetic = " (generated, synthetic corpus)" if data == "builtin" else ""
    cores = f"{result['threads']} thread" + ("s" if result["threads"] > 1 else "")
    title = f"Child-sum Tree-LSTM, {data}{synthetic}, batch {row['batch_size']}, {cores}"
    return title + ("\na baseline is under its floor: no claim can be made" if result["under_floor"] else "")


def _panel(panel: Any, rows: list[dict[str, Any]], phase: str) -> None:
    """Draw one phase, with the paper's factor as a last bar."""
    slowest = rate(rows, "imperative", phase)
    for place, row in enumerate(rows):
        found = row["samples_per_s"]
        spread = [[found - row["min"]], [row["max"] - found]]
        panel.barh(place, found, xerr=spread, color=_colour(row), ecolor="#555555")
        _write(panel, place, row["max"], f"{found:,.0f}" + (f"  ({found / slowest:.1f}x)" if slowest else ""))
    labels = [label(row) for row in rows]
    if slowest:
        factor = PAPER["imperative", phase]
        panel.barh(len(rows), slowest * factor, fill=False, edgecolor=PAPER_COLOUR, linestyle="--")
        _write(panel, len(rows), slowest * factor, f"{factor}x")
        labels.append("the paper's factor*")
    panel.set_yticks(range(len(labels)), labels)
    panel.invert_yaxis()
    panel.set_xlim(0, max(row["max"] for row in rows) * 1.3)
    panel.set_xlabel("sentence pairs a second (times imperative)")
    panel.set_title(PHASE_NAMES[phase], fontsize=10)
    panel.spines[["top", "right"]].set_visible(False)


def _write(panel: Any, place: int, right_of: float, text: str) -> None:
    """Write a figure beside its bar."""
    panel.annotate(text, (right_of, place), xytext=(5, 0), textcoords="offset points", va="center", fontsize=9)


def _colour(row: dict[str, Any]) -> str:
    """Tell baselines, batching with sharing, and batching without apart."""
    if row["sharing"] is None:
        return BASELINE_COLOUR
    return OURS_COLOUR if row["sharing"] else NO_SHARING_COLOUR
