"""Schedulers: every node runs once, after what it uses; and what each is known for on graphs counted by hand."""

from __future__ import annotations

import random

import numpy as np
import pytest
from problems import captured as graph_of

from experiments.schedulers.exact import fewest as best
from experiments.schedulers.problem import Problem, random_problem
from gluonjit.analysis import Plan, Planner, lower_bound, make_plan
from gluonjit.analysis.choice import _best
from gluonjit.analysis.schedulers import SCHEDULERS
from gluonjit.analysis.ways import Costs, Estimate, Setting
from gluonjit.errors import OptionError
from gluonjit.graph import Graph, Kind, Output, Record, Value, intern_spec
from gluonjit.hybrid import Options
from tests.core.test_bound import captured, fewest, random_nodes

SPEC = intern_spec((1, 4), "float32", "cpu(0)", "rows")


ORDER = ("depth", "bound", "beam")


def no_sums(spec: object, count: int) -> Kind:
    raise AssertionError("there are no sums")


@pytest.mark.parametrize("name", sorted(SCHEDULERS))
@pytest.mark.parametrize("seed", range(3))
def test_every_node_runs_once_after_what_it_uses(name: str, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(60):
        nodes = random_nodes(rng)
        graph, values = captured(nodes)
        plan = make_plan(graph, no_sums, name)
        done: set[int] = {0}  # the leaf
        for step in plan.steps:
            assert len({(record.kind.family, record.mode) for record, _ in step.parts}) == 1
            made = set()
            for record, numbers in step.parts:
                for node in numbers.tolist():
                    assert all(rows in done for rows in record.operands[node]), "an operand is not there yet"
                    made.add(record.bases[node])
            assert not made & done, "a node runs twice"
            done |= made
        assert len(done) == 1 + len(nodes) == 1 + len(values)
        launches = sum(step.count if step.kind.lone else 1 for step in plan.steps)
        assert launches >= fewest(nodes) >= lower_bound(plan)


def trees(shapes: list[object]) -> tuple[Graph, list[Value]]:
    """A graph of trees given as nested tuples, one kind for each number of children."""
    graph = Graph()
    leaf = graph.add_leaf("leaf", None, SPEC).base
    kept: list[Value] = []

    def node(shape: object) -> Value:
        assert isinstance(shape, tuple)
        children = [node(child) for child in shape]
        record = graph.records.get(len(children))
        if record is None:
            kind = Kind(f"{len(children)}", (SPEC,) * (1 + len(children)), (Output(SPEC, 0),), 1, None)
            record = graph.records[len(children)] = Record(kind, 0, 0.0)
        rows = (leaf, *[child.rows for child in children])
        kept.append(record.append(graph, rows, 1 + max([child.depth for child in children], default=0), None)[0])
        return kept[-1]

    for shape in shapes:
        node(shape)
    return graph, kept


LEAF: tuple[()] = ()
PAIR = (LEAF, LEAF)


@pytest.mark.parametrize(
    "shapes, launches",
    [
        # One chain of a kind: nobody can do better or worse.
        ([((((LEAF,),),),)], {"depth": 5, "bound": 5, "beam": 5}),
        # Pairs above chains of three lengths: all at the end, as no chain has a pair below.
        ([(LEAF, LEAF), ((LEAF,), LEAF), (((LEAF,),), LEAF)], {"depth": 4, "bound": 4, "beam": 4}),
        # Pairs low in one tree and high in another: waiting for all is no help where one waits for the other.
        ([(PAIR,), ((LEAF,), (LEAF,))], {"depth": 5, "bound": 4, "beam": 4}),
    ],
)
def test_launches(shapes: list[object], launches: dict[str, int]) -> None:
    graph, _kept = trees(shapes)
    assert {name: len(make_plan(graph, no_sums, name).steps) for name in launches} == launches


def test_the_bound_is_reached_where_depth_does_not_reach_it() -> None:
    """Random trees of two kinds of nodes."""
    rng = np.random.RandomState(0)

    def tree(size: int) -> object:
        if size <= 1:
            return LEAF
        if rng.randint(2):
            return (tree(size - 1),)
        left = rng.randint(1, size)
        return (tree(left), tree(size - left))

    totals = dict.fromkeys([*SCHEDULERS, "least"], 0)
    for _ in range(5):
        graph, _kept = trees([tree(rng.randint(5, 30)) for _ in range(16)])
        for name in SCHEDULERS:
            totals[name] += len(make_plan(graph, no_sums, name).steps)
        totals["least"] += lower_bound(make_plan(graph, no_sums))
    assert totals["least"] <= totals["beam"] <= totals["bound"] <= 1.2 * totals["least"] < totals["depth"]


def lines(lengths: list[str]) -> Graph:
    """A graph of chains, each a string of the names of its kinds."""
    graph = Graph()
    leaf = graph.add_leaf("leaf", None, SPEC).base
    for chain in lengths:
        rows: object = leaf
        for depth, name in enumerate(chain):
            record = graph.records.get(name)
            if record is None:
                record = graph.records[name] = Record(Kind(name, (SPEC,), (Output(SPEC, 0),), 1, None), 0, 0.0)
            held.append(record.append(graph, (rows,), depth + 1, None)[0])
            rows = held[-1].rows
    return graph


held: list[Value] = []


def planned(problem: Problem, scheduler: str) -> Plan:
    graph, _values = graph_of(problem)
    return make_plan(graph, no_sums, scheduler)


@pytest.mark.parametrize(
    "chains, launches",
    [
        (["ab", "aab", "aaab"], {"depth": 4, "bound": 4, "beam": 4}),  # two phases
        (["ba", "baa", "baaa"], {"depth": 4, "bound": 4, "beam": 4}),
        (["abab", "aab", "bab"], {"depth": 7, "bound": 4, "beam": 4}),
        (["abcabc", "cab", "bca"], {"depth": 12, "bound": 6, "beam": 6}),
        (["ab", "ba"], {"depth": 4, "bound": 3, "beam": 3}),
        (["abc", "cba", "bac"], {"depth": 7, "bound": 5, "beam": 5}),
    ],
)
def test_chains_of_kinds_in_different_orders(chains: list[str], launches: dict[str, int]) -> None:
    graph = lines(chains)
    assert {name: len(make_plan(graph, no_sums, name).steps) for name in launches} == launches
    held.clear()


@pytest.mark.parametrize("seed", range(3))
def test_no_phase_is_worse_than_by_depth_and_the_beam_is_never_worse_than_the_rule(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(60):
        problem = random_problem(rng)
        launches = [planned(problem, name).launches for name in ORDER]
        assert launches == sorted(launches, reverse=True)
        assert launches[-1] <= 1.05 * best(problem) + 1e-9


@pytest.mark.parametrize("name", ["bound", "beam"])
def test_what_runs_alone_counts_as_by_depth(name: str) -> None:
    rng = random.Random(5)
    for _ in range(60):
        problem = random_problem(rng)
        problem.alone[rng.randrange(len(problem.alone))] = True
        plan = planned(problem, name)
        assert best(problem) <= plan.launches <= planned(problem, "depth").launches
        assert plan.launches <= best(problem) + 1 and lower_bound(plan) == problem.bound()


def test_phases_lose_nothing() -> None:
    """The best schedule of all nodes needs as many launches as the best ones of the phases together."""
    rng = random.Random(2)
    for _ in range(60):
        first, second = random_problem(rng), random_problem(rng)
        problem = Problem(
            [*first.types, *[len(first.alone) + kind for kind in second.types]],
            [*first.uses, *[[first.count + used for used in uses] or [first.count - 1] for uses in second.uses]],
            [False] * (len(first.alone) + len(second.alone)),
        )
        assert best(problem) == best(first) + best(second)


def test_a_wider_beam_may_find_an_order_with_fewer_launches() -> None:
    rng, totals = random.Random(1), {1: 0, 2: 0, 16: 0}
    for _ in range(40):
        chains = ["".join(rng.choice("abcd") for _ in range(rng.randint(3, 12))) for _ in range(6)]
        for width in totals:
            totals[width] += Planner(lines(chains), no_sums, True, width).plan("beam").launches
    held.clear()
    assert totals[16] < totals[2] < totals[1]


def test_an_unknown_scheduler_is_refused() -> None:
    with pytest.raises(
        OptionError,
        match=f"scheduler='fast', but it must be one of 'auto', {', '.join(map(repr, sorted(SCHEDULERS)))}",
    ):
        Options().updated("batching()", {"scheduler": "fast"})


def estimate(scheduler: str, launches: int, seconds: float, flushes: int = 1, sharing: bool = True) -> Estimate:
    costs = Costs(0.0, 0.0, 0.0, 0.0, seconds, 0.0, 0.0)
    return Estimate(Setting("cell", sharing, scheduler), flushes, 8 * flushes, 100 * flushes, launches, costs)


@pytest.mark.parametrize(
    "others, chosen",
    [
        ([estimate("bound", 60, 0.995)], "bound"),  # hardly cheaper, and with fewer launches
        ([estimate("bound", 100, 0.995)], "depth"),
        ([estimate("bound", 60, 1.005)], "depth"),
        ([estimate("bound", 60, 0.995, sharing=False)], "depth"),
        ([estimate("bound", 150, 1.8, flushes=2)], "bound"),
        ([estimate("bound", 60, 0.9), estimate("beam", 50, 0.95)], "bound"),
        ([estimate("bound", 60, 0.9), estimate("beam", 50, 0.899)], "beam"),
    ],
)
def test_of_predictions_that_are_nearly_equal_the_one_with_fewer_launches_is_taken(
    others: list[Estimate], chosen: str
) -> None:
    assert _best([estimate("depth", 100, 1.0), *others]).setting.scheduler == chosen


@pytest.mark.parametrize("name", ["agenda", "agenda_static", "greedy"])
def test_what_was_removed_says_what_to_type(name: str) -> None:
    with pytest.raises(OptionError, match=f"scheduler='{name}' was removed, .* type scheduler='bound'"):
        Options().updated("batching()", {"scheduler": name})


@pytest.mark.parametrize("width", [0, -1, 2.0, "4", True])
def test_a_beam_has_a_width(width: object) -> None:
    with pytest.raises(OptionError, match=r"beam_width=.*, but it must be an integer of at least 1"):
        Options().updated("batching()", {"scheduler": "beam", "beam_width": width})
