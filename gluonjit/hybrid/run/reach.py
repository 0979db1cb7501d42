"""Reach: the rows, steps and weights of a plan that a backward pass reaches, found in one way for all engines.

Gradients of unreached rows are not zero but none: optimizers leave those alone. A pass also skips steps that lead to
nothing it was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

import numpy as np

from gluonjit.analysis.forms import Index
from gluonjit.analysis.plan import Gather, Place, Plan, Step
from gluonjit.graph import Kind
from gluonjit.rows.running import row_flags


def rows_at(place: Place, index: Any = None) -> Any:
    """Returns rows of an arena: those of an index, or without one of a place."""
    return slice(place.begin, place.end) if index is None else index


def part_of(gather: Gather, begin: int, size: int) -> tuple[Place, Any]:
    """Takes a part of the gathered rows."""
    place = gather.place
    if gather.index is None:
        return Place(place.arena, place.begin + begin, place.begin + begin + size), None
    return place, gather.index[begin : begin + size]


def taken_by(step: Step, number: int, role: int) -> tuple[Place, Any]:
    """Returns the rows that a role of a gather takes."""
    size = step.gathers[number].rows // len(step.kind.groups[number])
    return part_of(step.gathers[number], role * size, size)


def owners_of_result(step: Step, number: int) -> Index:
    """Returns the node that each row of a step's result belongs to."""
    return _owners(step, [record.kind.outputs[number].spec.rows for record, _ in step.parts])


def owners_of_operand(step: Step, number: int, role: int) -> Index:
    """Returns the node for which each row of a gather's role is taken."""

    def rows(kind: Kind) -> int:
        return kind.rows_of(kind.groups[number][role])

    return _owners(step, [rows(record.kind) for record, _ in step.parts])


def _owners(step: Step, rows: list[int]) -> Index:
    begin, found = 0, []
    for (_, nodes), each in zip(step.parts, rows):
        found.append(np.repeat(np.arange(begin, begin + len(nodes)), each))
        begin += len(nodes)
    return found[0] if len(found) == 1 else np.concatenate(found)


class Reach:
    """The rows of a plan that a pass has reached, as it goes through the steps.

    flags: for each row whether it is reached; rows: the same by arena (`rows.running.row_flags`).
    """

    def __init__(self, plan: Plan) -> None:
        self.flags, self.rows = row_flags(plan)

    def at(self, place: Place) -> Any:
        """Returns the flags of these rows, to be read and written: whether each is reached."""
        return self.rows[place.arena][place.begin : place.end]

    def start(self, place: Place) -> None:
        """Begins at these rows."""
        self.at(place)[:] = True

    def reaches(self, place: Place, index: Any = None) -> bool:
        """True if any of these rows has been reached."""
        return bool(self.rows[place.arena][rows_at(place, index)].any())

    def reaches_all(self, place: Place) -> bool:
        """True if all of these rows have been reached."""
        return bool(self.at(place).all())

    def add(self, other: Reach) -> None:
        """Counts what another one has reached as reached."""
        self.flags |= other.flags

    def pass_over(self, step: Step) -> None:
        """Counts no result of a step as reached: the pass does not go through it."""
        for place in step.places:
            self.at(place)[:] = False

    def results(self, step: Step) -> list[int]:
        """Returns the results of a step, by number, that have reached rows."""
        return [number for number, place in enumerate(step.places) if self.reaches(place)]

    def nodes(self, step: Step, results: Iterable[int]) -> Any:
        """Tells for each node of a step whether any of these results is reached; None if all are."""
        found = np.zeros(step.count, dtype=bool)
        for number in results:
            rows = self.at(step.places[number])
            if rows.all():
                return None
            found[owners_of_result(step, number)[rows]] = True
        return None if found.all() else found

    def take(self, step: Step, nodes: Any, number: int, role: int) -> None:
        """Reach the rows that these nodes take by a role of a gather; nodes: as above."""
        place, index = taken_by(step, number, role)
        taken = rows_at(place, index)
        if nodes is not None:
            taken = (np.arange(place.begin, place.end) if index is None else index)[
                nodes[owners_of_operand(step, number, role)]
            ]
        self.rows[place.arena][taken] = True

    def go(self, step: Step, results: Iterable[int], operands: Collection[int]) -> None:
        """Goes on from these results of a step to operands of its nodes: roles of gathers, counted in their order."""
        nodes = self.nodes(step, results)
        for operand, (number, role) in enumerate(roles_of(step.kind)):
            if operand in operands:
                self.take(step, nodes, number, role)


def roles_of(kind: Kind) -> list[tuple[int, int]]:
    """Returns the number of a gather and of its role for each operand of a program."""
    return [(number, role) for number, group in enumerate(kind.groups) for role in range(len(group))]


class Route(NamedTuple):
    """The way to the requested sources of a backward pass: steps, by number, rows of arenas, and weights."""

    steps: frozenset[int]
    reach: Reach
    weights: Collection[int]  # identities


def route(plan: Plan, places: Iterable[Place], weights: Collection[int], learns: Callable[[Place], bool]) -> Route:
    """Finds the way to these rows and to weights of these identities; `learns` tells whether rows have a history."""
    reach = Reach(plan)
    for place in places:
        reach.start(place)
    steps = []
    for number, step in enumerate(plan.steps):
        results = [place for place in step.places if learns(place)]
        weighed = any([id(array) in weights for array in step.kind.program.consts])
        if results and (weighed or any([reach.reaches(gather.place, gather.index) for gather in step.gathers])):
            steps.append(number)
            for place in results:
                reach.start(place)
    return Route(frozenset(steps), reach, weights)
