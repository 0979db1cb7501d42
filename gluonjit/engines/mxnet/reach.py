"""Which rows and weights some results depend on: backward gives gradients to these alone, as MXNet's own does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gluonjit.analysis import Plan, Step
from gluonjit.analysis.plan import Index, Place
from gluonjit.graph import Kind


class Reach:
    """Goes backward through the steps of a plan. `constants` are the addresses of the weights met on the way."""

    def __init__(self, plan: Plan) -> None:
        self._rows = [np.zeros(arena.rows, dtype=bool) for arena in plan.arenas]
        self.constants: set[int] = set()

    def start(self, place: Place) -> None:
        """Begin at these rows."""
        self._rows[place.arena][place.begin : place.end] = True

    def reaches(self, place: Place) -> bool:
        """Whether any of these rows has been reached."""
        return bool(self._rows[place.arena][place.begin : place.end].any())

    def reaches_all(self, place: Place) -> bool:
        """Whether all of these rows have been reached."""
        return bool(self._rows[place.arena][place.begin : place.end].all())

    def add(self, other: Reach) -> None:
        """Count what another one has reached as reached."""
        for rows, more in zip(self._rows, other._rows):
            rows |= more

    def through(self, step: Step) -> bool:
        """Go on from a step's results to its operands; False where none of the results has been reached."""
        results = [
            (self._rows[place.arena][place.begin : place.end], _nodes(step, [_rows_of_output(number)]))
            for number, place in enumerate(step.places)
        ]
        program = step.kind.program
        used = np.zeros((len(step.gathers) + len(program.consts), step.count), dtype=bool)  # by which nodes
        reached = np.zeros(step.count, dtype=bool)
        for (rows, owners), depends in zip(results, program.depends):
            nodes = np.zeros(step.count, dtype=bool)
            nodes[owners[rows]] = True
            reached |= nodes
            for position in depends:
                used[position] |= nodes
        if not reached.any():
            return False
        for rows, owners in results:  # a node is one: what is reached of it is so with all its results
            rows |= reached[owners]
        constants = used[len(step.gathers) :].any(axis=1)
        self.constants.update(id(array) for array, found in zip(program.consts, constants) if found)
        self.constants.update(map(id, program.left))
        for number, (gather, group, nodes) in enumerate(zip(step.gathers, step.kind.groups, used)):
            place = gather.place
            taken = np.arange(place.begin, place.end) if gather.index is None else gather.index
            if not nodes.all():
                taken = taken[nodes[_nodes(step, [_rows_of_role(number, role) for role in range(len(group))])]]
            self._rows[place.arena][taken] = True
        return True


def entered(plan: Plan, begun: Iterable[Place], learned: Callable[[Any], bool]) -> list[Any]:
    """For each arena of a plan its rows that autograd would have in a computational graph, once that has run.

    These are the results of recorded nodes that go back to a row of `begun` or to a `learned` weight, and all that such
    nodes have read.
    """
    found = [np.zeros(arena.rows, dtype=bool) for arena in plan.arenas]
    for place in begun:
        found[place.arena][place.begin : place.end] = True
    for step in plan.steps:
        if step.mode < 2:
            continue
        program = step.kind.program
        nodes = np.full(step.count, any(map(learned, (*program.consts, *program.left))))
        reads = []
        for number, (gather, group) in enumerate(zip(step.gathers, step.kind.groups)):
            place = gather.place
            taken = np.arange(place.begin, place.end) if gather.index is None else gather.index
            owners = _nodes(step, [_rows_of_role(number, role) for role in range(len(group))])
            nodes[owners[found[place.arena][taken]]] = True
            reads.append((found[place.arena], taken, owners))
        for rows, taken, owners in reads:
            rows[taken[nodes[owners]]] = True
        for number, place in enumerate(step.places):
            owners = _nodes(step, [_rows_of_output(number)])
            found[place.arena][place.begin : place.end] |= nodes[owners]
    return found


def _rows_of_output(number: int) -> Callable[[Kind], int]:
    return lambda kind: kind.outputs[number].spec.rows


def _rows_of_role(group: int, role: int) -> Callable[[Kind], int]:
    return lambda kind: kind.rows_of(kind.groups[group][role])


def _nodes(step: Step, lengths: list[Callable[[Kind], int]]) -> Index:
    """For each row of some operands or results, in their order, the node of the step that it belongs to."""
    owners = []
    for length in lengths:
        begin = 0
        for record, nodes in step.parts:
            owners.append(np.repeat(np.arange(begin, begin + len(nodes)), length(record.kind)))
            begin += len(nodes)
    return np.concatenate(owners)
