"""The lower bound is one: on small random graphs the best of all schedules never needs fewer launches."""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

from gluonjit.analysis import lower_bound, make_plan
from gluonjit.graph import Graph, Kind, Output, Record, Value, intern_spec

SPEC = intern_spec((1, 4), "float32", "cpu(0)", "rows")


class Node(NamedTuple):
    """A node by its kind's number and the nodes it uses."""

    kind: int
    uses: tuple[int, ...]


def random_nodes(rng: random.Random) -> list[Node]:
    """Up to nine nodes of up to three kinds; a kind's number is its number of operands, plus 3 if it runs alone."""
    kinds = rng.sample([0, 1, 2, 4], rng.randint(1, 3))
    nodes: list[Node] = []
    for number in range(rng.randint(1, 9)):
        possible = [kind for kind in kinds if number or kind == 0] or [0]
        kind = rng.choice(possible)
        nodes.append(Node(kind, tuple(rng.randrange(number) for _ in range(kind % 3 if number else 0))))
    return nodes


def captured(nodes: list[Node]) -> tuple[Graph, list[Value]]:
    """A graph of these nodes, and all their values, so that none is dropped. A kind without operands takes a leaf."""
    graph = Graph()
    leaf = graph.add_leaf("leaf", None, SPEC).base
    records: dict[int, Record] = {}
    values: list[Value] = []
    for node in nodes:
        record = records.get(node.kind)
        if record is None:
            lone = "it has to" if node.kind > 2 else None
            operands = (SPEC,) * max(node.kind % 3, 1)
            kind = Kind(f"kind {node.kind}", operands, (Output(SPEC, 0),), 1, None, lone=lone)
            record = records[node.kind] = graph.records[node.kind] = Record(kind, 0, 0.0)
        rows = tuple(values[used].rows for used in node.uses) or (leaf,)
        depth = 1 + max([values[used].depth for used in node.uses], default=0)
        values += record.append(graph, rows, depth, None)
    return graph, values


def fewest(nodes: list[Node]) -> int:
    """Launches of the best schedule. To run all nodes of a kind that are ready is never worse than to run some."""
    everything = (1 << len(nodes)) - 1
    reached, launches = {0}, 0
    while everything not in reached:
        launches += 1
        reached |= {done | batch for done in reached for batch in launchable(nodes, done)}
    return launches


def launchable(nodes: list[Node], done: int) -> list[int]:
    """What can be launched next: all ready nodes of a kind, or one that runs alone."""
    together: dict[int, int] = {}
    for number, node in enumerate(nodes):
        if not done >> number & 1 and all(done >> used & 1 for used in node.uses):
            key = -number - 1 if node.kind > 2 else node.kind
            together[key] = together.get(key, 0) | 1 << number
    return list(together.values())


@pytest.mark.parametrize("seed", range(4))
def test_no_schedule_needs_less(seed: int) -> None:
    rng = random.Random(seed)
    reached = 0
    for _ in range(100):
        nodes = random_nodes(rng)
        graph, values = captured(nodes)
        plan = make_plan(graph, lambda spec, count: pytest.fail("there are no sums"))
        assert plan.nodes == len(nodes) == len(values)
        launches = sum(step.count if step.kind.lone else 1 for step in plan.steps)
        bound, best = lower_bound(plan), fewest(nodes)
        assert bound <= best <= launches, nodes
        reached += bound == best
    assert reached > 50  # it is no trivial one either


def test_where_it_cannot_be_reached() -> None:
    """Two paths that take two kinds in different orders: one of the kinds has to run twice."""
    nodes = [Node(0, ()), Node(1, (0,)), Node(2, (1, 1)), Node(2, (0, 0)), Node(1, (3,))]
    graph, _values = captured(nodes)
    plan = make_plan(graph, lambda spec, count: pytest.fail("there are no sums"))
    assert lower_bound(plan) == 3 and fewest(nodes) == 4
