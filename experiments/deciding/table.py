"""The table of the documentation, and the picture of batch sizes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from experiments.bench.page import joined
from experiments.deciding.measure import Timed

HEAD = (
    *("model", "training", "inference", "ms eager / map", "than with masks", "flushes", "launches of one"),
    *("mean batch", "in flight"),
)


def line(training: Timed, inference: Timed) -> str:
    """Return the line of a model; counts are those of training."""
    both = (training, inference)
    masked = [f"{each.masked_ms / each.map_ms:.2f}x" for each in both if each.masked_ms is not None]
    cells = (
        f"`{training.model}`",
        *(f"{each.faster:.2f}x" for each in both),
        "; ".join(f"{each.eager_ms:.1f} / {each.map_ms:.1f}" for each in both),
        "; ".join(masked) or "",
        str(len(training.sizes)),
        f"{training.launches:.1f}",
        f"{mean(training.sizes):.1f}",
        f"{mean(training.full):.1f}",
    )
    return joined(cells)


def table(results: Sequence[Timed], command: str) -> str:
    """Return the table in Markdown, below the command that makes it."""
    lines = [line(*results[place : place + 2]) for place in range(0, len(results), 2)]
    return "\n".join([f"`{command}`", "", joined(HEAD), joined(["---", *["---:"] * (len(HEAD) - 1)]), *lines])


def draw(apart: Sequence[int], full: Sequence[int], in_flight: int, path: Path) -> None:
    """Draw how many samples each flush ran, of minibatches one after the other and of all in flight."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    from experiments.bench.files import save_figure
    from experiments.bench.plot import BASELINE_COLOUR, OURS_COLOUR

    figure, panels = pyplot.subplots(2, 1, figsize=(9, 4.2), sharex=True, sharey=True, layout="constrained")
    said = f"mean of a flush {{:.0f}} of {in_flight}, {{}} flushes"
    for panel, sizes, colour, title in (
        (panels[0], apart, BASELINE_COLOUR, f"gluonjit.map of {in_flight} samples, four times"),
        (panels[1], full, OURS_COLOUR, f"gluonjit.map of all of them, in_flight={in_flight}"),
    ):
        panel.bar(range(len(sizes)), sizes, width=1.0, color=colour, align="edge")
        panel.set_title(f"{title}: {said.format(mean(sizes), len(sizes))}", fontsize=10, loc="left")
        panel.set_ylabel("samples in a step")
        panel.spines[["top", "right"]].set_visible(False)
    panels[1].set_xlabel("flush")
    save_figure(figure, path, 130)
    pyplot.close(figure)
