"""The table of the documentation, one line per model and batch size."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.bench.page import joined
from experiments.programs.measure import Timed

HEAD = ("model", "batch", "training", "inference", "first", "whole", "late", "ms eager / gluonjit", "runs eagerly in")


def line(training: Timed, inference: Timed) -> str:
    """Return the line of a model: its speedups, and the worse phase of the other columns."""
    both = (training, inference)
    cells = (
        f"`{training.model}`",
        str(training.batch_size),
        f"{training.faster:.2f}x",
        f"{inference.faster:.2f}x",
        *(f"{max(getattr(each, name) for each in both):.2f}" for name in ("first", "whole", "late")),
        "; ".join(f"{each.eager_ms:.1f} / {each.gluonjit_ms:.1f}" for each in both),
        ", ".join(each.phase + " (undecided)" * each.undecided for each in both if each.eagerly or each.undecided)
        or "nothing",
    )
    return joined(cells)


def table(results: Sequence[Timed], command: str) -> str:
    """Return the table in Markdown, below the command that makes it."""
    rule = ["---", *["---:"] * (len(HEAD) - 2), "---"]
    lines = [line(*results[place : place + 2]) for place in range(0, len(results), 2)]
    return "\n".join([f"`{command}`", "", joined(HEAD), joined(rule), *lines])
