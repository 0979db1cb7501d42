"""Tables of rules for people, of any framework: each operator, how it runs for many samples, and notes."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

HOW = {
    "elementwise": "unchanged",
    "reduction": "unchanged",
    "layer": "unchanged",
    "shape": "rewritten",
    "picking": "rewritten",
    "product": "rewritten",
    "made": "unchanged",
    "alone": "alone",
}
"""Words for how the operators of the kinds run that every framework has."""
KINDS = {
    "elementwise": "elementwise, so in any layout",
    "reduction": "along dimensions, on rows or on stacked samples, counted from the last one",
    "layer": "over leading dimensions of samples, in which all samples fit together",
    "shape": "the same elements in another shape, on rows or on stacked samples",
    "picking": "by integers, for each sample among its own elements",
    "product": "products with a weight on all rows of all samples, others as batched products",
    "made": "made like another array",
}
"""Words for what all operators of such a kind have in common, where a row has none of its own."""


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
    return "\n".join(aligned([ListedRule("operator", "kind", "runs", "notes"), *rows], range(4)))


def aligned(rows: Sequence[Sequence[str]], left: Container[int]) -> list[str]:
    """Lines of columns that are as wide as they must be; the texts of those not named are to the right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        "  ".join(
            text.ljust(width) if column in left else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]


def as_markdown(rows: Sequence[ListedRule], page: Page) -> str:
    """A page with a table of the kinds and one of the operators."""
    lines = [page.head, "| kind | operators | run | description |", "| --- | --- | --- | --- |"]
    for kind, common in page.kinds.items():
        lines.append(f"| {kind} | {sum(row.kind == kind for row in rows)} | {page.how[kind]} | {common} |")
    lines += ["", "| operator | kind | runs | notes |", "| --- | --- | --- | --- |"]
    lines += [f"| `{row.operator}` | {row.kind} | {row.how} | {row.note.replace('|', '/')} |" for row in rows]
    return "\n".join(lines)
