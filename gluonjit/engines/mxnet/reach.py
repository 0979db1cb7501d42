"""The rows and weights that some results depend on: backward gives gradients to these alone, as MXNet's own does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gluonjit.analysis import Plan, Step
from gluonjit.analysis.liveness import base_rows
from gluonjit.analysis.operands import joined, operand_matrices
from gluonjit.analysis.plan import Index, Place
from gluonjit.graph import Graph, Kind


class Reach:
    """Goes backward through the steps of a plan. `constants` are the addresses of the weights met on the way."""

    def __init__(self, plan: Plan) -> None:
        self._rows = [np.zeros(arena.rows, dtype=bool) for arena in plan.arenas]
        self.constants: set[int] = set()

    def start(self, place: Place) -> None:
        """Begin at these rows."""
        self._rows[place.arena][place.begin : place.end] = True

    def reaches(self, place: Place) -> bool:
        """Tells whether any of these rows has been reached."""
        return bool(self._rows[place.arena][place.begin : place.end].any())

    def reaches_all(self, place: Place) -> bool:
        """Tells whether all of these rows have been reached."""
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


def entered_waiting(graph: Graph, begun: Iterable[int], learned: Callable[[Any], bool]) -> Any:
    """As `entered`, by the rows of a graph that waits to run; calls that nobody reads count too, as they do eagerly."""
    since = np.full(graph.rows, np.inf)
    since[list(begun)] = -1
    calls = []
    for record in graph.records.values():
        if record.mode >= 2 and record.bases:
            numbers = base_rows(record)
            made = numbers[:, None] + np.arange(record.kind.rows)
            consts = (*record.kind.program.consts, *record.kind.program.left)
            reads = joined(operand_matrices(record), len(numbers))
            calls.append((numbers, reads, made, any(map(learned, consts))))
    changed = True
    while changed:
        before = since.copy()
        for numbers, reads, made, always in calls:
            nodes = (since[reads] < numbers[:, None]).any(1) | always
            for rows in (reads, made):
                np.minimum.at(since, rows[nodes], numbers[nodes, None])
        changed = not np.array_equal(before, since)
    return np.isfinite(since)


def entered(plan: Plan, begun: Iterable[Place], learned: Callable[[Any], bool]) -> list[Any]:
    """For each arena of a plan its rows that autograd would have in a computational graph, once that has run.

    These are the results of recorded nodes that go back to a row of `begun` or to a `learned` weight, and all that such
    nodes have read. What a node has read counts for those alone that were captured after it.
    """
    since = [np.full(arena.rows, np.inf) for arena in plan.arenas]  # which node has let each row in
    for place in begun:
        since[place.arena][place.begin : place.end] = -1
    recorded = [step for step in plan.steps if step.mode >= 2]
    changed = True
    while changed:  # a node may have let in what one of an earlier step reads
        before = [times.copy() for times in since]
        for step in recorded:
            _let_in(step, since, any(map(learned, (*step.kind.program.consts, *step.kind.program.left))))
        changed = not all(map(np.array_equal, before, since))
    return [np.isfinite(times) for times in since]


def _let_in(step: Step, since: list[Any], always: bool) -> None:
    """Note what the nodes of a step let in, those that read what is in already, or all (`always`)."""
    numbers = np.concatenate([base_rows(record)[nodes] for record, nodes in step.parts])
    nodes = np.full(step.count, always)
    reads = []
    for number, (gather, group) in enumerate(zip(step.gathers, step.kind.groups)):
        place = gather.place
        taken = np.arange(place.begin, place.end) if gather.index is None else gather.index
        owners = _nodes(step, [_rows_of_role(number, role) for role in range(len(group))])
        nodes[owners[since[place.arena][taken] < numbers[owners]]] = True
        reads.append((since[place.arena], taken, owners))
    for number, place in enumerate(step.places):
        owners = _nodes(step, [_rows_of_output(number)])
        reads.append((since[place.arena], np.arange(place.begin, place.end), owners))
    for times, taken, owners in reads:
        kept = nodes[owners]
        np.minimum.at(times, taken[kept], numbers[owners[kept]])


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
