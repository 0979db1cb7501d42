"""The comparison of schedulers: what is counted is right on graphs counted by hand, and the command makes its table."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from problems import captured

from experiments.schedulers.baselines import BASELINES, Frontier
from experiments.schedulers.exact import fewest
from experiments.schedulers.policy import learned
from experiments.schedulers.problem import Problem, random_problem
from gluonjit.analysis import lower_bound, make_plan


def chains(*types: str) -> Problem:
    """A chain for each string, whose letters are types."""
    kinds: list[int] = []
    uses: list[list[int]] = []
    for chain in types:
        for place, letter in enumerate(chain):
            uses.append([len(kinds) - 1] if place else [])
            kinds.append("abc".index(letter))
    return Problem(kinds, uses, [False] * 3)


@pytest.mark.parametrize(
    "types, best, by_ratio",
    [(["ab", "ba"], 3, 3), (["aab", "ab"], 3, 3), (["abc", "cba", "bac"], 5, 6), (["ab", "aab", "aaab"], 4, 4)],
)
def test_launches_counted_by_hand(types: list[str], best: int, by_ratio: int) -> None:
    problem = chains(*types)
    assert fewest(problem) == best and BASELINES["ratio, ED-Batch"](problem) == by_ratio
    assert all(of(problem) >= best for of in BASELINES.values())


def test_the_bound_is_the_librarys_and_no_schedule_is_better_than_the_best() -> None:
    rng = random.Random(4)
    for _ in range(40):
        problem = random_problem(rng)
        graph, _values = captured(problem)
        plan = make_plan(graph, lambda spec, count: pytest.fail("there are no sums"))
        best = fewest(problem)
        assert lower_bound(plan) == problem.bound() <= best <= plan.launches
        assert all(of(problem) >= best for of in BASELINES.values())
        assert best <= learned(problem, 5) <= BASELINES["ratio, ED-Batch"](problem)


def test_a_frontier_has_the_nodes_that_none_of_their_type_comes_before() -> None:
    run = Frontier(chains("aab", "ba"))
    assert run.frontier == {0: 2, 1: 2}
    run.take(0)  # the first of aab; its second is ready, and that of ba waits for b
    assert run.frontier == {0: 2, 1: 2} and run.ready == {0: [1], 1: [3]}
    run.take(1)
    assert run.frontier == {0: 2, 1: 1} and sorted(run.ready[0]) == [1, 4]


def test_the_command_makes_its_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    from experiments.schedulers.cli import main

    page, figures = tmp_path / "page.md", tmp_path / "figures.json"
    options = (
        "--engine torch --models mv-rnn,dag-rnn --workloads treelstm-builtin --batch-size 4 --graphs 5 --episodes 2"
    )
    assert main([*options.split(), "--markdown", str(page), "--json", str(figures)]) == 0
    said, found = capsys.readouterr().out, json.loads(figures.read_text(encoding="utf-8"))
    assert [row["name"] for row in found["rows"]] == ["mv-rnn", "dag-rnn", "treelstm-builtin", "two-type trees"]
    for row in found["rows"]:
        launches = row["launches"]
        assert row["bound"] <= launches["beam"] <= launches["bound"] <= launches["depth"]
        assert launches["beam"] <= launches.get("policy, ED-Batch", launches["beam"])
    assert "| depth |" in said and said.strip() in page.read_text(encoding="utf-8")
    assert [row["scheduler"] for row in found["random"]][:3] == ["depth", "bound", "beam"]
