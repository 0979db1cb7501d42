"""The table of the documentation, one line a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.zoo.measure import Measured
from gluonjit.writing import write_whole

_BEGIN, _END = "<!-- {}, {}: begin -->", "<!-- {}, {}: end -->"

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


def joined(cells: Sequence[str]) -> str:
    """Return a line of a table in Markdown."""
    return f"| {' | '.join(cells)} |"


def markers(engine: str, command: str = "zoo") -> tuple[str, str]:
    """Return the lines between which the table of an engine stands that a command makes."""
    return _BEGIN.format(command, engine), _END.format(command, engine)


def put(path: Path, engine: str, text: str, command: str = "zoo") -> None:
    """Replace what stands between the markers of a page; a page that does not exist is made of it alone."""
    begin, end = markers(engine, command)
    page = path.read_text(encoding="utf-8") if path.exists() else f"{begin}\n{end}\n"
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise ValueError(f"{path} has no place for the table: a line {begin} and, further down, a line {end}")
    before, after = page[: page.index(begin)], page[page.index(end) :]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, f"{before}{begin}\n{text}\n{after}".encode())
