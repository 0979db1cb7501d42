"""Plans of small structures that come again: what is kept is the plan that would have been made anew."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from gluonjit.analysis import plan_cache
from gluonjit.analysis.bound import critical_path, lower_bound
from gluonjit.analysis.costs.features import results
from gluonjit.analysis.plan import Plan, rows_read
from gluonjit.analysis.planner import Planner
from gluonjit.graph import Graph
from tests.common.plain_plans import described, random_graph


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    plan_cache.clear_plans()
    yield
    plan_cache.clear_plans()


def read(plan: Plan) -> list[object]:
    """What only few ask of a plan: the rows that each node reads and yields, where it was called, and what costs."""
    nodes = [
        (record.base(node), rows_read(record, node), record.origins[node], record.calls)
        for step in plan.steps
        for record, part in step.parts
        for node in part.tolist()
    ]
    names: dict[str, int] = dict(plan.products)
    for record in plan.called:
        names[record.kind.name] = names.get(record.kind.name, 0) + record.calls
    return [nodes, names, critical_path(plan), results(plan), [values(plan)]]


def values(plan: Plan) -> list[int]:
    """The addresses of what the program can read."""
    return [id(value) for _, record, part in plan.live for node in part.tolist() for value in record.values(node)]


@pytest.mark.parametrize("seed", range(60))
def test_a_plan_that_comes_again_is_the_plan_made_anew(seed: int) -> None:
    graph, kinds, held = random_graph(seed)
    mark(graph, seed)
    plans = [Planner(graph, kinds.sum_kind, seed % 2 == 0).plan("depth") for _ in range(4)]
    small = graph.rows <= plan_cache.MOST_ROWS and graph.nodes <= plan_cache.MOST_NODES
    if not small:
        assert not plan_cache.plan_count()
    elif plan_cache.plan_count():
        assert plans[3].common is plans[1].common is not plans[0].common
    else:
        assert any(step.kind.name.startswith("sum") or step.kind.sum_of for step in plans[0].steps)
    for plan in plans[1:]:
        assert described(plan, lower_bound(plan)) == described(plans[0], lower_bound(plans[0]))
        assert read(plan) == read(plans[0])
    assert held


def mark(graph: Graph, seed: int) -> None:
    """Begin samples anywhere, and end some."""
    rng = random.Random(seed)
    rows = sorted(rng.sample(range(graph.rows + 1), min(3, graph.rows)))
    graph.marks[:] = [(row, None if rng.random() < 0.3 else number) for number, row in enumerate(rows)]


def test_most_small_structures_are_kept_and_no_other_plan_is_taken() -> None:
    kept = 0
    for seed in range(60):
        graph, kinds, _held = random_graph(seed)
        for _ in range(2):
            Planner(graph, kinds.sum_kind).plan("depth")
        kept += bool(plan_cache.plan_count())
        plan_cache.clear_plans()
    assert kept >= 5


def test_a_graph_whose_values_are_read_otherwise_has_a_plan_of_its_own() -> None:
    seed = next(n for n in range(60) if _kept(n))
    graph, kinds, held = random_graph(seed)
    for _ in range(2):
        Planner(graph, kinds.sum_kind).plan("depth")
    known = plan_cache.plan_count()
    before = Planner(graph, kinds.sum_kind).plan("depth")
    assert before.live
    del before
    held.clear()
    plan = Planner(graph, kinds.sum_kind).plan("depth")
    assert not plan.live
    assert plan_cache.plan_count() == known


def _kept(seed: int) -> bool:
    graph, kinds, held = random_graph(seed)
    for _ in range(2):
        plan = Planner(graph, kinds.sum_kind).plan("depth")
    found = bool(plan_cache.plan_count()) and bool(plan.live) and bool(held)
    plan_cache.clear_plans()
    return found
