"""Schedulers: every node runs once, after what it uses; and what each is known for on graphs counted by hand."""

from __future__ import annotations

import random

import numpy as np
import pytest

from gluonjit.analysis import lower_bound, make_plan
from gluonjit.analysis.schedulers import SCHEDULERS
from gluonjit.errors import OptionError
from gluonjit.graph import Graph, Kind, Output, Record, Value, intern_spec
from gluonjit.hybrid import Options
from tests.core.test_bound import captured, fewest, random_nodes

SPEC = intern_spec((1, 4), "float32", "cpu(0)", "rows")


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
        ([((((LEAF,),),),)], {"depth": 5, "agenda": 5, "agenda_static": 5, "greedy": 5}),
        # Pairs above chains of three lengths: all at the end, for which the mean over what remains is a tie too early.
        (
            [(LEAF, LEAF), ((LEAF,), LEAF), (((LEAF,),), LEAF)],
            {"depth": 4, "agenda": 5, "agenda_static": 4, "greedy": 4},
        ),
        # Pairs low in one tree and high in another: waiting for all is no help where one waits for the other.
        ([(PAIR,), ((LEAF,), (LEAF,))], {"depth": 5, "agenda": 4, "agenda_static": 4, "greedy": 4}),
    ],
)
def test_launches(shapes: list[object], launches: dict[str, int]) -> None:
    graph, _kept = trees(shapes)
    assert {name: len(make_plan(graph, no_sums, name).steps) for name in launches} == launches


def test_the_greedy_ratio_reaches_the_bound_where_depth_does_not() -> None:
    """Random trees of two kinds of nodes: none needs more launches than depth, and the ratio needs the fewest."""
    rng = np.random.RandomState(0)

    def tree(size: int) -> object:
        if size <= 1:
            return LEAF
        if rng.randint(2):
            return (tree(size - 1),)
        left = rng.randint(1, size)
        return (tree(left), tree(size - left))

    totals = dict.fromkeys([*SCHEDULERS, "bound"], 0)
    for _ in range(5):
        graph, _kept = trees([tree(rng.randint(5, 30)) for _ in range(16)])
        for name in SCHEDULERS:
            totals[name] += len(make_plan(graph, no_sums, name).steps)
        totals["bound"] += lower_bound(make_plan(graph, no_sums))
    assert totals["bound"] <= totals["greedy"] <= totals["agenda"] <= totals["depth"]
    assert totals["greedy"] < totals["depth"]


def test_an_unknown_scheduler_is_refused() -> None:
    with pytest.raises(
        OptionError,
        match=f"scheduler='fast', but it must be one of 'auto', {', '.join(map(repr, sorted(SCHEDULERS)))}",
    ):
        Options().updated("batching()", {"scheduler": "fast"})
