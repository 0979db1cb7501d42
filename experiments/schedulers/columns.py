"""A plan as a layout needs it: the rows that the nodes of each step read and make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np


class Column:
    """A result, or an operand, of all nodes of a step: the rows of each, by their places in the arena of the plan."""

    def __init__(self, arena: int, rows: Sequence[int], sizes: Sequence[int], made: bool) -> None:
        self.arena, self.made = arena, made
        ends = np.cumsum([0, *sizes]).tolist()
        self.rows = [[*rows[begin:end]] for begin, end in zip(ends, ends[1:])]

    @cached_property
    def nodes(self) -> dict[int, int]:
        """The node of each row."""
        return {row: node for node, rows in enumerate(self.rows) for row in rows}

    @property
    def distinct(self) -> bool:
        """True if no row comes twice: otherwise they lie together in no layout."""
        return len(self.nodes) == sum(map(len, self.rows))


class Rows(NamedTuple):
    """The columns of each step, results first; for each arena its rows and the bytes of one; what each input fills."""

    steps: list[list[Column]]
    arenas: list[tuple[int, int]]
    inputs: list[tuple[int, range]]

    def copied(self, orders: Mapping[int, Sequence[int]] | None = None) -> list[tuple[int, np.ndarray]]:
        """Return the arena and rows of each column that does not lie together, where arenas have these orders."""
        places = [np.arange(count) for count, _ in self.arenas]
        for arena, order in (orders or {}).items():
            places[arena][np.array(order)] = np.arange(len(order))
        found = []
        for columns in self.steps:
            first = columns[0]
            turn = sorted(range(len(first.rows)), key=lambda node: places[first.arena][first.rows[node][:1]].tolist())
            for column in columns:
                rows = places[column.arena][[row for node in turn for row in column.rows[node]]]
                if (np.diff(rows) != 1).any():
                    found.append((column.arena, rows))
        return found

    def bytes(self, copied: Sequence[tuple[int, np.ndarray]]) -> int:
        """Return the bytes of these rows."""
        return sum(len(rows) * self.arenas[arena][1] for arena, rows in copied)


def rows_of(plan: Any) -> Rows:
    """Return the rows of a plan of the library."""
    arenas = [(arena.rows, arena.spec.bytes // max(arena.spec.rows, 1)) for arena in plan.arenas]
    inputs = [(place.arena, range(place.begin, place.end)) for place in [chunk.place for chunk in plan.inputs]]
    return Rows([[column for column in _columns(step) if column.nodes] for step in plan.steps], arenas, inputs)


def _columns(step: Any) -> Iterator[Column]:
    kinds = [part.record.kind for part in step.parts for _ in part.nodes]
    for number, (arena, begin, end) in enumerate(step.places):
        yield Column(arena, range(begin, end), [kind.outputs[number].spec.rows for kind in kinds], True)
    for number, gather in enumerate(step.gathers):
        arena, begin, end = gather.place
        rows = range(begin, end) if gather.index is None else gather.index.tolist()
        for role in range(len(step.kind.groups[number])):
            sizes = [kind.rows_of(kind.groups[number][role]) for kind in kinds]
            yield Column(arena, rows[: sum(sizes)], sizes, False)
            rows = rows[sum(sizes) :]
