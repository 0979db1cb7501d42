"""Four panels: the cost of analysis, the gain of batching, crossings of granularities, the quality of predictions."""

from __future__ import annotations

from itertools import combinations, cycle
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.lines import Line2D
from matplotlib.ticker import ScalarFormatter

from experiments.bench.files import save_figure
from experiments.tradeoff.configurations import SCHEDULERS
from experiments.tradeoff.summary import Row, crossings, fastest

COLOURS = {"op": "#c0392b", "cell": "#2f6fb0", "auto": "#222222"}
MARKERS = {"auto": "*", **dict(zip(SCHEDULERS, cycle("os^Dvph")))}
GREY = "#777777"
GOOD = 0.08  # predictions are meant to be no further off


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw all panels and save them."""
    rows = result["rows"]
    figure, panels = pyplot.subplots(2, 2, figsize=(12.5, 9.5), layout="constrained")
    _nodes(panels[0, 0], rows)
    _time(panels[0, 1], rows)
    _throughput(panels[1, 0], rows)
    _predictions(panels[1, 1], rows, result["summary"])
    for panel in panels.flat:
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(which="major", color="#e4e4e4", linewidth=0.6)
        panel.set_axisbelow(True)
    threads = f"{result['threads']} thread" + ("s" if result["threads"] > 1 else "")
    more = "; interrupted, not all was measured" if result["interrupted"] else ""
    title = f"Granularity of batching, workload {result['workload']}, {result['engine']}, {threads}{more}"
    figure.suptitle(title, fontsize=12)
    save_figure(figure, path, 130)
    pyplot.close(figure)


def _granularities(rows: list[Row]) -> list[str]:
    return [name for name in COLOURS if any(row["granularity"] == name for row in rows)]


def _nodes(panel: Any, rows: list[Row]) -> None:
    """Draw scheduled nodes against launches."""
    chosen = [row for row in rows if row["phase"] == "forward" and row["granularity"] != "auto"]
    for row in chosen:
        colour = COLOURS[row["granularity"]]
        panel.plot(
            row["nodes"],
            row["launches"],
            MARKERS[row["scheduler"]],
            color=colour,
            fillstyle="full" if row["sharing"] else "none",
            markersize=6,
            alpha=0.8,
        )
    for row in chosen:
        if row["scheduler"] == "depth" and row["sharing"] is False:
            panel.annotate(
                str(row["batch_size"]),
                (row["nodes"], row["launches"]),
                xytext=(7, -9),
                textcoords="offset points",
                fontsize=7,
                color=COLOURS[row["granularity"]],
            )
    panel.set(xscale="log", yscale="log", ylabel="launches that run them")
    panel.set_xlabel("nodes to schedule in a minibatch")
    panel.set_title("What is scheduled and what is run (small figures: batch size)", fontsize=10)
    handles = [
        Line2D([], [], color=COLOURS[name], marker="o", linestyle="", label=name) for name in _granularities(chosen)
    ]
    handles += [_mark(name, marker=MARKERS[name]) for name in dict.fromkeys(row["scheduler"] for row in chosen)]
    handles += [_mark("equal work shared"), _mark("not shared", fillstyle="none")]
    panel.legend(handles=handles, fontsize=8, frameon=False, ncols=2)


def _mark(label: str, **style: Any) -> Line2D:
    """Return a mark for a legend."""
    return Line2D([], [], **{"color": GREY, "marker": "o", "linestyle": "", "label": label, **style})


def _time(panel: Any, rows: list[Row]) -> None:
    """Draw milliseconds a sample against batch size, the host's planning apart from the work."""
    names = [name for name in _granularities(rows) if name != "auto"]
    for name in names:
        found = {
            row["batch_size"]: row
            for row in rows
            if (row["phase"], row["granularity"], row["scheduler"], row["sharing"]) == ("training", name, "depth", True)
        }
        planning = [(row["capture_ms"] + row["analysis_ms"]) / size for size, row in found.items()]
        execution = [row["execution_ms"] / size for size, row in found.items()]
        panel.plot(list(found), planning, "--o", color=COLOURS[name], markersize=4, fillstyle="none")
        panel.plot(list(found), execution, "-o", color=COLOURS[name], markersize=4)
    handles = [Line2D([], [], color=COLOURS[name], label=name) for name in names]
    handles += [
        Line2D([], [], color=GREY, linestyle="-", label="execution"),
        Line2D([], [], color=GREY, linestyle="--", label="capture and analysis"),
    ]
    _by_batch_size(panel, rows, "milliseconds a sample")
    panel.set_ylim(top=4 * panel.get_ylim()[1])  # room for the legend
    panel.legend(handles=handles, fontsize=8, frameon=False, ncols=2, loc="upper right")
    panel.set_title("Training by depth, equal work shared: planning against execution", fontsize=10)


def _throughput(panel: Any, rows: list[Row]) -> None:
    """Draw samples a second of the best way of each granularity, and where two of them cross."""
    curves = {}
    for name in _granularities(rows):
        found = fastest(rows, "training", name)
        if not found:
            continue
        sizes, rates = list(found), [row["samples_per_s"] for row in found.values()]
        low = [rate - size * 1e3 / row["interval_ms"][1] for (size, row), rate in zip(found.items(), rates)]
        high = [size * 1e3 / row["interval_ms"][0] - rate for (size, row), rate in zip(found.items(), rates)]
        style = {"fmt": "--*", "zorder": 3} if name == "auto" else {"fmt": "-o"}
        panel.errorbar(sizes, rates, [low, high], color=COLOURS[name], label=name, markersize=5, capsize=2, **style)
        if name != "auto":
            curves[name] = dict(zip(sizes, rates))
    for (first, heights), (second, others) in combinations(curves.items(), 2):
        for size, rate in crossings(heights, others):
            panel.plot(size, rate, "o", color="#e69f00", markersize=11, fillstyle="none", markeredgewidth=1.6)
            panel.annotate(
                f"{first} and {second} cross at {size:.{0 if size > 10 else 1}f}",
                (size, rate),
                xytext=(10, -14),
                textcoords="offset points",
                fontsize=8,
            )
    panel.legend(fontsize=8, frameon=False)
    _by_batch_size(panel, rows, "samples a second, training")
    panel.set_title("Throughput, best scheduler and sharing of each granularity (bars: all repeats)", fontsize=10)


def _by_batch_size(panel: Any, rows: list[Row], label: str) -> None:
    """Set axes that both panels over batch size have."""
    panel.set(xscale="log", yscale="log", xlabel="samples in a minibatch", ylabel=label)
    panel.set_xticks(sorted({row["batch_size"] for row in rows}))
    panel.xaxis.set_major_formatter(ScalarFormatter())
    panel.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())


def _predictions(panel: Any, rows: list[Row], found: dict[str, Any]) -> None:
    """Draw the cost model's predictions against measurements."""
    chosen = [row for row in rows if row["predicted_ms"] is not None]
    panel.set_title("Predicted against measured time of a minibatch", fontsize=10)
    panel.set(xlabel="measured, without what is outside of the library, milliseconds", ylabel="predicted, milliseconds")
    if not chosen:
        panel.text(
            0.5, 0.5, "nothing was predicted in this run", ha="center", transform=panel.transAxes, color="#777777"
        )
        panel.set(xticks=[], yticks=[])
        return
    measured = {id(row): row["measured_ms"] - row["outside_ms"] for row in chosen}
    ends = [pick(*measured.values(), *[row["predicted_ms"] for row in chosen]) for pick in (min, max)]
    panel.plot(ends, ends, color=GREY, linewidth=1)
    panel.fill_between(
        ends,
        [end * (1 - GOOD) for end in ends],
        [end * (1 + GOOD) for end in ends],
        color="#dddddd",
        label=f"within {GOOD:.0%}",
    )
    for name in _granularities(chosen):
        for phase, style in (("forward", "none"), ("training", "full")):
            part = [row for row in chosen if (row["granularity"], row["phase"]) == (name, phase)]
            if part:
                panel.plot(
                    [measured[id(row)] for row in part],
                    [row["predicted_ms"] for row in part],
                    "o",
                    color=COLOURS[name],
                    fillstyle=style,
                    markersize=4,
                    label=f"{name}, {phase}",
                )
    off = ", ".join(f"{phase} {value['error']:.0%}" for phase, value in found["errors"].items() if value is not None)
    panel.set(xscale="log", yscale="log")
    panel.set_title(f"Predicted against measured time (mean error: {off})", fontsize=10)
    panel.legend(fontsize=8, frameon=False)
