"""The table of the documentation, one line per model."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.bench.page import joined
from experiments.zoo.measure import Measured

HEAD = (
    "model",
    "samples",
    "nodes",
    "launches",
    "lower bound",
    "ratio",
    "no sharing: nodes",
    "launches",
    "inference: launches",
    "lower bound",
    "runs alone",
)


def line(measured: Measured) -> str:
    """Return a model's line."""
    training, inference = measured.runs["training"], measured.runs["inference"]
    apart = measured.runs["training, no sharing"]
    cells = (
        f"`{measured.name}`",
        str(measured.samples),
        f"{training.nodes:,}",
        str(training.launches),
        str(training.lower_bound),
        f"{training.launches / training.lower_bound:.2f}",
        f"{apart.nodes:,}",
        str(apart.launches),
        str(inference.launches),
        str(inference.lower_bound),
        "; ".join(f"{name}: {why}" for name, why in sorted(training.alone.items())) or "nothing",
    )
    return joined(cells)


def table(results: Sequence[Measured], command: str) -> str:
    """Return the table in Markdown, below the command that makes it."""
    rule = ["---", *["---:"] * (len(HEAD) - 2), "---"]
    return "\n".join([f"`{command}`", "", joined(HEAD), joined(rule), *map(line, results)])
