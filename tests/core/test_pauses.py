"""What a flush leaves to Python's collector: few objects while it runs, and none for good."""

from __future__ import annotations

import gc
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments import pauses
from experiments.host.measure import Trees
from gluonjit import compiled
from gluonjit.analysis.plan import Gather, Place
from gluonjit.analysis.planner import make_plan
from gluonjit.compiled import FAST
from gluonjit.graph import Graph, Kind, Output, Record, Spec, Value, intern_spec

ROW: Spec = intern_spec((4,), "float32", "cpu", "stack")


def chain(length: int) -> tuple[Graph, list[Any]]:
    """Two calls of one signature a level, which read each other's results: a step with an index a level."""
    graph = Graph()
    kind = Kind("both", (ROW, ROW), (Output(ROW, 0),), 1, None)
    record = graph.records[0] = Record(kind, 0, 0.0)
    rows = [graph.add_leaf(name, None, ROW).base for name in ("one", "other")]
    for depth in range(length):
        values = [record.append(graph, operands, depth + 1, None)[0] for operands in (tuple(rows), tuple(rows[::-1]))]
        rows = [value.rows for value in values]
    return graph, values


def objects_of(length: int) -> int:
    """The collector's objects that a plan of so many steps is made of."""
    graph, held = chain(length)
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        plan = make_plan(graph, lambda spec, n: pytest.fail("there are no sums"))
        made = len(gc.get_objects()) - before
    finally:
        gc.enable()
    assert len(plan.steps) == length and held
    return made


@pytest.mark.skipif("gluonjit.analysis.flat.placing" not in compiled._compiled, reason="the analysis was not compiled")
def test_a_step_is_at_most_three_of_the_collectors_objects() -> None:
    place = Place(0, 1, 2)
    assert not gc.is_tracked(place) and not gc.is_tracked(Gather(place, np.arange(2)))
    assert objects_of(120) - objects_of(20) <= 3.1 * 100  # the step, its gathers, its places; tables that grow


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # MXNet's of scipy: pytest would keep each of them
def test_nothing_is_left_for_good(engine: str) -> None:
    on = import_module(f"experiments.host.on_{engine}")
    trees = Trees(on, 4, 0)
    given = trees.draw(np.random.RandomState(0))

    def left(minibatches: int) -> int:
        for _ in range(minibatches):
            pauses.train(on, trees.nets[1], given)
        gc.collect()
        return len(gc.get_objects())

    left(40)  # a report keeps some plans
    before = left(1)
    assert abs(left(40) - before) <= 40  # less than one object a minibatch


def test_the_command_tells_of_pauses(engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pauses.json"
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)
    assert pauses.main(["--engine", engine, "--minibatches", "12", "--batch-size", "3", "--json", str(path)]) in (0, 1)
    assert (gc.get_threshold(), gc.callbacks, gc.isenabled()) == (thresholds, callbacks, True)
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["minibatches"] == 12 and found["thresholds"] == list(thresholds)
    assert 0 <= found["long_by_the_collector"] <= found["long"] <= 12 and found["median_ms"] <= found["longest_ms"]
    assert found["objects"]["captured"] > 0 and found["objects"]["forward"] > 0
    assert "12 minibatches of 3" in capsys.readouterr().out


def _values(count: int) -> list[Value]:
    spec = intern_spec((3,), "float32", "cpu", "stack")
    return [Value(row, 0, spec, None, False) for row in range(count)]


def test_values_that_have_ended_are_used_again() -> None:
    """A minibatch makes thousands: the collector of garbage runs once in so many new objects of the process."""
    if FAST is None:
        pytest.skip("objects of classes in Python are always new")
    _values(2000)
    before = gc.get_count()[0]
    held = _values(1000)
    assert gc.get_count()[0] - before < 100 and len(held) == 1000


def test_a_long_chain_of_references_ends_one_by_one() -> None:
    spec = intern_spec((3,), "float32", "cpu", "stack")
    value: Any = None
    for row in range(200_000):
        value = Value(row, 0, spec, None, False, value)
    del value
