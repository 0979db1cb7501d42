"""Tables of rules for people, of any framework: each operator, how it runs for many samples, and notes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


class ListedRule(NamedTuple):
    """A line of a table."""

    operator: str
    kind: str
    how: str
    note: str


class Page(NamedTuple):
    """The page of a framework: its text up to the tables, and how operators of each kind run."""

    head: str
    how: Mapping[str, str]
    kinds: Mapping[str, str]


def of_kind(rows: Iterable[ListedRule], kind: str | None, kinds: Iterable[str]) -> list[ListedRule]:
    """Returns the lines of one kind, or all. Raises LookupError with the known kinds for an unknown one."""
    if kind is not None and kind not in kinds:
        raise LookupError(f"--kind {kind!r}: the kinds are {', '.join(kinds)}")
    return [row for row in rows if kind in (None, row.kind)]


def unknown(name: str, framework: str, known: Iterable[str]) -> LookupError:
    """Returns the error for an unknown operator, with similar names."""
    close = [other for other in known if name.strip("_").lower() in other.lower()]
    hint = f"Did you mean {', '.join(sorted(close)[:5])}?" if close else "Without a name, all are listed."
    return LookupError(f"{name!r} is not an operator of {framework}. {hint}")


def as_text(rows: Iterable[ListedRule]) -> str:
    """The lines with their columns aligned."""
    listed = [ListedRule("operator", "kind", "runs", "notes"), *rows]
    first, second, third = (max(len(row[column]) for row in listed) for column in range(3))
    return "\n".join(f"{row[0]:{first}}  {row[1]:{second}}  {row[2]:{third}}  {row[3]}" for row in listed)


def as_markdown(rows: Sequence[ListedRule], page: Page) -> str:
    """A page with a table of the kinds and one of the operators."""
    lines = [page.head, "| kind | operators | run | description |", "| --- | --- | --- | --- |"]
    for kind, common in page.kinds.items():
        lines.append(f"| {kind} | {sum(row.kind == kind for row in rows)} | {page.how[kind]} | {common} |")
    lines += ["", "| operator | kind | runs | notes |", "| --- | --- | --- | --- |"]
    lines += [f"| `{row.operator}` | {row.kind} | {row.how} | {row.note.replace('|', '/')} |" for row in rows]
    return "\n".join(lines)
