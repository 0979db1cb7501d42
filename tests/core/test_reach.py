"""What a gradient reaches in a plan is what it reaches node by node."""

from __future__ import annotations

import random
from typing import Any

import pytest
from plain_plans import random_graph

from gluonjit.analysis import Plan, Planner, Step
from gluonjit.analysis.plan import rows_read
from gluonjit.hybrid.run.reach import Reach, roles_of, route

Rows = set[tuple[int, int]]  # arena and position


def plan_of(seed: int) -> tuple[Plan, list[Any]]:
    """A plan, and what has to live as long."""
    graph, kinds, held = random_graph(seed)
    sharing = seed % 3 != 0
    scheduler = ("depth", "bound")[seed % 2]
    return Planner(graph, kinds.sum_kind, sharing).plan(scheduler), [graph, held]


def places(plan: Plan, rows: Any) -> Rows:
    return {(int(plan.arena[row]), int(plan.position[row])) for row in rows}


def nodes_of(plan: Plan, step: Step) -> list[tuple[list[Rows], list[Rows]]]:
    """Of each node of a step the places of its results, and of its operands."""
    found = []
    for record, nodes in step.parts:
        for node in nodes.tolist():
            base = int(record.bases[node])
            outputs = [range(base + each.offset, base + each.offset + each.spec.rows) for each in record.kind.outputs]
            operands = [places(plan, rows) for rows in rows_read(record, node)]
            found.append(([places(plan, rows) for rows in outputs], operands))
    return found


def reached(reach: Reach) -> Rows:
    return {(arena, int(row)) for arena, rows in enumerate(reach.rows) for row in rows.nonzero()[0]}


@pytest.mark.parametrize("seed", range(120))
def test_reach_is_that_of_the_nodes(seed: int) -> None:
    plan, _held = plan_of(seed)
    choose = random.Random(seed)
    reach = Reach(plan)
    for step in plan.steps:
        if choose.random() < 0.3:
            reach.start(choose.choice(step.places))
    expected = reached(reach)
    for step in reversed(plan.steps):
        roles = roles_of(step.kind)
        chosen = {k for k in range(len(roles)) if choose.random() < 0.8}
        results = [k for k in reach.results(step) if choose.random() < 0.8]
        kept = {position for k in chosen for position in step.kind.groups[roles[k][0]][roles[k][1]]}
        variadic = {position for role in step.kind.children for position in role}
        for of_results, of_operands in nodes_of(plan, step):
            if any(not expected.isdisjoint(of_results[k]) for k in results):
                for position, rows in enumerate(of_operands):
                    first = min(variadic, default=-1)
                    if position in kept or (variadic and position >= first and first in kept):
                        expected |= rows
        reach.go(step, results, chosen)
        assert reached(reach) == expected


@pytest.mark.parametrize("seed", range(40))
def test_a_route_has_the_steps_that_lead_to_what_is_asked_for(seed: int) -> None:
    plan, _held = plan_of(seed)
    choose = random.Random(seed)
    for step in plan.steps:
        step.kind.program = choose.choice([_Program([]), _Program([_WEIGHT])])
    sources = [chunk.place for chunk in plan.inputs if choose.random() < 0.5]
    weights = {id(_WEIGHT)} if seed % 2 else set()
    learns = {place: choose.random() < 0.8 for step in plan.steps for place in step.places}
    expected: Rows = {(place.arena, row) for place in sources for row in range(place.begin, place.end)}
    steps = set()
    for number, step in enumerate(plan.steps):
        nodes = nodes_of(plan, step)
        meets = any(not expected.isdisjoint(rows) for _, operands in nodes for rows in operands)
        learned = [learns[place] for place in step.places]
        if any(learned) and (meets or (weights and step.kind.program.consts)):
            steps.add(number)
            expected.update(*[rows for results, _ in nodes for rows, its in zip(results, learned) if its])
    found = route(plan, sources, weights, learns.__getitem__)
    assert found.steps == steps
    assert reached(found.reach) == expected


_WEIGHT = object()


class _Program:
    def __init__(self, consts: list[Any]) -> None:
        self.consts = consts
