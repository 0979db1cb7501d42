"""Plans of random graphs are what they have to be, and the same whether what makes them is compiled or interpreted."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from captured_support import fresh
from plain_plans import ROW, TWO, Node, described, plain_nodes, plain_steps, random_graph

from gluonjit import compiled as hot
from gluonjit import standin
from gluonjit.analysis import Plan, Planner, flat, lower_bound
from gluonjit.analysis.captured import Captured
from gluonjit.analysis.schedulers import SCHEDULERS
from gluonjit.graph import Graph, Kind, Output, Record

FILES = ("ordering", "paths", "placing", "searching")
BUILT = all(find_spec(f"gluonjit._{name}") is not None for name in FILES)


def planned(graph: Graph, kinds: Any, sharing: bool, scheduler: str = "depth") -> Plan:
    return Planner(graph, kinds.sum_kind, sharing).plan(scheduler)


@pytest.mark.parametrize("seed", range(150))
def test_the_plan_is_what_it_has_to_be(seed: int) -> None:
    graph, kinds, held = random_graph(seed)
    sharing = seed % 3 != 0
    nodes = {node.base: node for node in plain_nodes(graph, kinds, held, sharing)}
    plan = planned(graph, kinds, sharing)
    steps = [[int(record.bases[k]) for record, of in step.parts for k in of.tolist()] for step in plan.steps]
    assert {frozenset(step) for step in steps} == plain_steps(list(nodes.values()))
    assert sum(map(len, steps)) == plan.nodes == len(nodes)
    made = {row for leaf in graph.leaves.values() for row in range(leaf.base, leaf.base + leaf.spec.rows)}
    made.update(row for entries in graph.lookups.values() for row in entries.values())
    sizes = check_inputs(plan, made)
    for step, bases in zip(plan.steps, steps):
        of = [nodes[base] for base in bases]
        assert {(node.kind.family, node.mode) for node in of} == {(step.kind.family, step.mode)}
        check_gathers(plan, step, of, made)
        check_places(plan, step, of, sizes)
        made.update(row for node in of for row in node.rows)
    assert [arena.rows for arena in plan.arenas] == [sizes[number] for number in range(len(plan.arenas))]
    live = {record.base(k) + record.kind.outputs[0].offset for _, record, of in plan.live for k in of.tolist()}
    assert live == {node.base for node in nodes.values() if node.alive}


def check_inputs(plan: Plan, rows: set[int]) -> Counter[int]:
    """Inputs lie one after the other; returns how many rows each arena has so far."""
    sizes: Counter[int] = Counter()
    for chunk in plan.inputs:
        assert chunk.place.begin == sizes[chunk.place.arena]
        sizes[chunk.place.arena] = chunk.place.end
    assert len({(int(plan.arena[row]), int(plan.position[row])) for row in rows}) == len(rows) == sum(sizes.values())
    return sizes


def check_gathers(plan: Plan, step: Any, nodes: list[Node], made: set[int]) -> None:
    """A group's operands are gathered role by role, and of one role node by node."""
    assert len(step.gathers) == len(step.kind.groups)
    for number, gather in enumerate(step.gathers):
        rows = [
            row
            for role in range(len(step.kind.groups[number]))
            for node in nodes
            for position in node.kind.groups[number][role]
            for row in node.reads[position]
        ]
        assert made.issuperset(rows), "an operand is not there yet"
        assert {int(plan.arena[row]) for row in rows} == {gather.place.arena}
        positions = plan.position[rows]
        together = (np.diff(positions) == 1).all()
        assert (gather.index is None) == together
        found = np.arange(gather.place.begin, gather.place.end) if together else gather.index
        assert found.tolist() == positions.tolist()
    if step.arities is not None:
        assert step.arities.tolist() == [node.kind.arity for node in nodes]


def check_places(plan: Plan, step: Any, nodes: list[Node], sizes: Counter[int]) -> None:
    """Results lie node by node where the arena ended before."""
    assert len(step.places) == len(step.kind.outputs)
    for number, place in enumerate(step.places):
        rows = []
        for node in nodes:
            output = node.kind.outputs[number]
            rows += range(node.base + output.offset, node.base + output.offset + output.spec.rows)
        assert (place.begin, place.end) == (sizes[place.arena], sizes[place.arena] + len(rows))
        assert plan.arena[rows].tolist() == [place.arena] * len(rows)
        assert plan.position[rows].tolist() == list(range(place.begin, place.end))
        sizes[place.arena] = place.end


@pytest.mark.skipif(not BUILT, reason="not all of gluonjit.analysis.flat was built")
@pytest.mark.parametrize("seed", range(100, 160))
def test_compiled_and_interpreted_give_the_same_plans(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def plans() -> list[dict[str, Any]]:
        found = []
        for scheduler in SCHEDULERS:
            graph, kinds, held = random_graph(seed)
            plan = planned(graph, kinds, seed % 3 != 0, scheduler)
            found.append(described(plan, lower_bound(plan)))
            assert held or not plan.live
        return found

    use(monkeypatch, [import_module(f"gluonjit._{name}") for name in FILES], ["all"])
    compiled = plans()
    use(monkeypatch, [import_module(f"gluonjit.analysis.flat.{name}") for name in FILES], ["all"])
    assert plans() == compiled


def use(monkeypatch: pytest.MonkeyPatch, modules: list[Any], compiled: list[str]) -> None:
    """Have the analysis work with these modules."""
    monkeypatch.setattr(hot, "_compiled", compiled)
    for name in flat.__all__:
        monkeypatch.setattr(flat, name, next(getattr(module, name) for module in modules if hasattr(module, name)))


def test_what_is_interpreted_needs_no_cython() -> None:
    """The stand-in has all that the files use beside annotations, and without Cython it is what they import."""
    script = (
        "import sys; sys.modules['cython'] = None\n"
        "from gluonjit.analysis.flat import ordering, paths, placing, searching\n"
        "from gluonjit.graph import recorder\n"
        "print({m.cython.__name__ for m in (ordering, paths, placing, recorder)})"
    )
    assert fresh("-c", script, pure=True) == "{'gluonjit.standin'}\n"
    assert standin.compiled is False


@pytest.mark.skipif(not BUILT, reason="not all of gluonjit.analysis.flat was built")
@pytest.mark.parametrize("pure", [False, True])
def test_the_variable_decides(pure: bool) -> None:
    script = "from gluonjit.analysis import flat; print(flat.needed.__module__, type(flat.needed).__name__)"
    module, kind = fresh("-c", script, pure=pure).split()
    assert (module == "gluonjit.analysis.flat.ordering") == (kind == "function") == pure


@pytest.mark.skipif(not BUILT, reason="not all of gluonjit.analysis.flat was built")
@pytest.mark.parametrize("seed", range(60))
def test_wrong_numbers_end_in_an_exception_or_in_a_plan(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compiled looks where it reads and writes, whatever is in the arrays that it is given."""
    use(monkeypatch, [import_module(f"gluonjit._{name}") for name in FILES], ["all"])
    rng = random.Random(seed)
    graph, kinds, held = random_graph(seed)
    wrong = rng.choice(("kinds", "bases", "firsts", "operands", "keep"))
    read = Captured.read

    def spoilt(self: Captured, records: Any) -> None:
        read(self, records)
        numbers = getattr(self, wrong)
        if len(numbers):
            numbers[rng.randrange(len(numbers))] = rng.choice((-1, -7, 3, 10**6, 2**62, -(2**62)))

    monkeypatch.setattr(Captured, "read", spoilt)
    with suppress(IndexError, ValueError):
        assert isinstance(planned(graph, kinds, "batch"), Plan)
    assert held or not graph.copies


def test_an_operand_of_too_many_rows_is_refused() -> None:
    graph = Graph()
    kind = Kind("two", (TWO,), (Output(ROW, 0),), 1, None)
    record = graph.records[0] = Record(kind, 0, 0.0)
    leaf = graph.add_leaf("leaf", None, TWO).base
    held = record.append(graph, ((leaf, leaf, leaf),), 1, None)
    with pytest.raises(ValueError, match="3 rows, not 2"):
        Planner(graph, lambda spec, count: pytest.fail("there are no sums")).plan()
    assert held
