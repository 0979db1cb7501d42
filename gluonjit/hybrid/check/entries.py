"""Steps in the entries of a tape, and the ways in which they ran."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

GRAPH, ROWS = "graph", "rows"
"""The ways in which a step runs: by the framework's operators, or in C."""
BACKWARD = {GRAPH: "backward of graph", ROWS: "backward of rows"}


def steps_of(entries: Iterable[Any]) -> Iterator[tuple[int, str]]:
    """Lists the steps of a tape's entries, each with the way in which it ran."""
    for entry in entries:
        steps = getattr(entry, "steps", None)
        yield from [(entry.number, GRAPH)] if steps is None else [(number, ROWS) for number in steps]


def entry_of(entries: Sequence[Any], number: int) -> tuple[int, Any, int]:
    """Finds the entry of a step: its number, itself, and the step's place in it."""
    for k, entry in enumerate(entries):
        steps = [*getattr(entry, "steps", ())] or [entry.number]
        if number in steps:
            return k, entry, steps.index(number)
    raise KeyError(number)


def replace_step(entries: list[Any], number: int, fresh: Sequence[Any]) -> None:
    """Puts other entries in place of a step's."""
    k, entry, place = entry_of(entries, number)
    if hasattr(entry, "steps"):
        parts = entry.part(0, place), entry.part(place + 1, len(entry.steps))
        before, after = [[part] if part.steps else [] for part in parts]
        fresh = [*before, *fresh, *after]
    entries[k : k + 1] = fresh
