"""The rows a backward pass comes to. Gradients of others are not zero but none: optimizers leave those alone.

Nor does it go through steps that lead to nothing it was asked for, as in torch.autograd.grad.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gluonjit.analysis.plan import Gather, Place, Plan, Step


def rows_at(place: Place, index: Any) -> Any:
    """Rows of an arena: those of an index, or where that is None of a place."""
    return slice(place.begin, place.end) if index is None else index


def part_of(gather: Gather, begin: int, size: int) -> tuple[Place, Any]:
    """So many of the rows that are gathered."""
    place = gather.place
    if gather.index is None:
        return Place(place.arena, place.begin + begin, place.begin + begin + size), None
    return place, gather.index[begin : begin + size]


def reached_nodes(step: Step, places: Sequence[Place], reached: Sequence[Any]) -> Any:
    """The nodes that gradients of these results are of, or the rows where nodes have any number; None for all."""
    found: Any = None
    if step.kind.apart:
        return None
    for place in places:
        rows = reached[place.arena][place.begin : place.end]
        if rows.all() or (not step.kind.poly and len(rows) % step.count):
            return None
        if not step.kind.poly:
            rows = rows.reshape(step.count, -1).any(1)
        elif found is not None and len(rows) != len(found):
            return None
        found = rows if found is None else found | rows
    return None if found is None or found.all() else found


def reach(step: Step, nodes: Any, place: Place, index: Any, reached: Sequence[Any]) -> None:
    """Note that backward comes to these operands of the nodes; to all where it is not known which those are."""
    rows = rows_at(place, index)
    if nodes is not None:
        size = place.end - place.begin if index is None else len(index)
        mask = np.zeros(size, dtype=bool)
        if size == len(nodes) or (not step.kind.poly and size % len(nodes) == 0):
            mask |= np.repeat(nodes, size // len(nodes))
        if step.arities is not None and len(nodes) == step.count and size == step.arities.sum():
            mask |= np.repeat(nodes, step.arities)
        if mask.any():
            rows = (np.arange(place.begin, place.end) if index is None else index)[mask]
    reached[place.arena][rows] = True


class Route(NamedTuple):
    """The way to the sources that a backward pass was asked for: steps, by number, rows of arenas, and weights."""

    steps: frozenset[int]
    rows: Sequence[Any]
    weights: Collection[int]  # identities

    def meets(self, place: Place, index: Any) -> bool:
        """Tells whether it goes through any of these rows."""
        return bool(self.rows[place.arena][rows_at(place, index)].any())


def route(plan: Plan, places: Iterable[Place], weights: Collection[int]) -> Route:
    """Finds the way to these rows and to weights of these identities."""
    rows = [np.zeros(arena.rows, dtype=bool) for arena in plan.arenas]
    for place in places:
        rows[place.arena][place.begin : place.end] = True
    found = Route(frozenset(), rows, weights)
    steps = []
    for number, step in enumerate(plan.steps):
        weighed = any([id(tensor) in weights for tensor in step.kind.program.consts])
        if weighed or any([found.meets(gather.place, gather.index) for gather in step.gathers]):
            steps.append(number)
            for place in step.places:
                rows[place.arena][place.begin : place.end] = True
    return found._replace(steps=frozenset(steps))


def pass_over(step: Step, reached: Sequence[Any]) -> None:
    """Note that backward does not come to the results of a step."""
    for place in step.places:
        reached[place.arena][place.begin : place.end] = False
