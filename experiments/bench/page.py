"""Tables in Markdown, and their places in pages of the documentation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gluonjit.writing import write_whole

_BEGIN, _END = "<!-- {}, {}: begin -->", "<!-- {}, {}: end -->"


def joined(cells: Sequence[str]) -> str:
    """Return a line of a table in Markdown."""
    return f"| {' | '.join(cells)} |"


def markers(engine: str, command: str = "zoo") -> tuple[str, str]:
    """Return the lines between which the table of an engine stands that a command makes."""
    return _BEGIN.format(command, engine), _END.format(command, engine)


def put(path: Path, engine: str, text: str, command: str = "zoo") -> None:
    """Replace the text between the markers of a page; a missing page is created with it."""
    begin, end = markers(engine, command)
    page = path.read_text(encoding="utf-8") if path.exists() else f"{begin}\n{end}\n"
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise ValueError(f"{path} has no place for the table: a line {begin} and, further down, a line {end}")
    before, after = page[: page.index(begin)], page[page.index(end) :]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, f"{before}{begin}\n{text}\n{after}".encode())
