"""The table of the documentation, one line a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.zoo.measure import Measured

BEGIN, END = "<!-- zoo: begin -->", "<!-- zoo: end -->"

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
    return _joined(cells)


def table(results: Sequence[Measured], command: str) -> str:
    """Return the table in Markdown, below the command that makes it."""
    rule = ["---", *["---:"] * (len(HEAD) - 2), "---"]
    return "\n".join([f"`{command}`", "", _joined(HEAD), _joined(rule), *map(line, results)])


def _joined(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def put(path: Path, text: str) -> None:
    """Replace what stands between the markers of a page; a page that does not exist is made of it alone."""
    page = path.read_text(encoding="utf-8") if path.exists() else f"{BEGIN}\n{END}\n"
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise ValueError(f"{path} has no place for the table: a line {BEGIN} and, further down, a line {END}")
    before, after = page[: page.index(BEGIN)], page[page.index(END) :]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{before}{BEGIN}\n{text}\n{after}", encoding="utf-8")
