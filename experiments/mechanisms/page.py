"""The page docs/mechanisms.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from experiments.coverage.collection import ROOT
from experiments.mechanisms.mechanism import Mechanism

PAGE = ROOT / "docs" / "mechanisms.md"
MORE = 1.1  # times the launches, or the processor time
_SHOWN = 3
WHEN = ("first", "later")  # minibatches
Cells = Mapping[str, Mapping[str, Mapping[str, Any]]]  # by part of the collection and program

_HEAD = """# What each mechanism gives

`python -m experiments.mechanisms` makes this page: each mechanism is turned off, and the programs of the collection
(the zoo, the README's examples, the tests' habits and, where it is there, `../shared/programs`) that come to its code
run without it, batched by force (granularity "cell", scheduler "depth"), and are compared with eager execution. A
program *loses* if it needs 10 % more launches without the mechanism, or, with `--rounds`, 10 % more processor time in
three of four pairs of minibatches, of the first ones or of later ones. Launches are of the last minibatch. *Time* is
without the mechanism over with it, the median over as many programs, in their first minibatches and in later ones. A
mechanism without figures cannot be turned off by itself: the page says how many programs come to its code. `tokens` are
those of `python -m tools.size`.

| mechanism | tokens | programs that come to it | differ or fail | lose | launches with, without | time | such as |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |
"""


def page(
    mechanisms: Sequence[Mechanism], usual: Cells, found: Mapping[str, Cells], places: Sequence[Mapping[str, Any]]
) -> str:
    """Return the text of the page."""
    lines = [line(mechanism, found[mechanism.name]) for mechanism in mechanisms]
    counts = ", ".join(f"{len(programs)} of {source}" for source, programs in usual.items())
    where = "".join(f"\n* {', '.join(f'{name} {value}' for name, value in place.items())}" for place in places)
    return f"{_HEAD}{chr(10).join(lines)}\n\nPrograms: {counts}. Measured at:\n{where}\n"


def line(mechanism: Mechanism, cells: Cells) -> str:
    """Return a mechanism's row."""
    rows = {name: row for programs in cells.values() for name, row in programs.items()}
    reached = ", ".join(f"{len(programs)} {source}" for source, programs in cells.items() if programs) or "none"
    size = f"{mechanism.tokens():,}" if mechanism.files else ""
    start = f"| {mechanism.name} | {size} | {reached} |"
    if not mechanism.can_be_off:
        return f"{start} | | | | |"
    failing = [name for name, row in rows.items() if fails(row)]
    losing = [name for name, row in rows.items() if name not in failing and loses(row)]
    both = [sum(row[key].get("launches", 0) for row in rows.values() if not fails(row)) for key in ("with", "without")]
    times = ", ".join(filter(None, [_median(rows.values(), when) for when in WHEN]))
    shown = sorted(failing + losing, key=lambda name: name.startswith("habits"))[:_SHOWN]
    launches = f"{both[0]:,}, {both[1]:,}"
    return f"{start} {len(failing)} | {len(losing)} | {launches} | {times} | {', '.join(shown)} |"


def _median(rows: Iterable[Mapping[str, Any]], when: str) -> str:
    found = [row[when]["median"] for row in rows if when in row]
    return f"{when} {median(found):.2f} ({len(found)})" if found else ""


def fails(row: Mapping[str, Any]) -> bool:
    """True if a program fails or differs from eager without the mechanism, and not with it."""
    with_, without = row["with"], row["without"]
    return bool("error" in without or without["wrong"]) and not ("error" in with_ or with_["wrong"])


def loses(row: Mapping[str, Any]) -> bool:
    """True if a program needs more launches without the mechanism, or more time."""
    if "error" in row["with"] or "error" in row["without"]:
        return False
    more = row["without"]["launches"] > MORE * max(row["with"]["launches"], 1)
    return more or any(row[when].get("low", 1.0) > MORE for when in WHEN if when in row)
