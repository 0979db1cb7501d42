"""Every model of the zoo in PyTorch equals itself run one by one, in as many launches as the documentation says."""

from __future__ import annotations

import json
from functools import cache
from itertools import count, product
from math import exp
from pathlib import Path
from typing import Any

import pytest
from zoo_page import LINES

import gluonjit
from experiments.bench.engines import engine_of
from experiments.bench.page import markers
from experiments.data.arrays import maker
from experiments.zoo.cli import BATCH_SIZE, NAMES, SEED, main
from experiments.zoo.measure import RUNS, TOLERANCE, distance, measure
from experiments.zoo.row import Arrays
from experiments.zoo.samples import integers
from experiments.zoo.samples.trees import TAGS
from experiments.zoo.table import line
from gluonjit.analysis.pace import Pace

ENGINE = engine_of("zoo", "torch")
BEGIN, END = markers("torch")
QUESTIONS = (0, 1, 2, 3, 5, 8, 13, 21)  # after so many a look is abandoned: at first, each may be another place
WAYS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    **{f"without {name}": {"without": (name,)} for name in gluonjit.Options.SWITCHES},
    "without all": {"without": tuple(gluonjit.Options.SWITCHES)},
    "sharing off": {"sharing": False},
    "operators": {"granularity": "op"},
}


@pytest.mark.parametrize("name", NAMES)
def test_a_model_equals_itself_in_as_many_launches_as_documented(name: str) -> None:
    found = measure(ENGINE, name, BATCH_SIZE, SEED)
    assert not found.faults()
    assert set(found.runs) == {run for run, _, _ in RUNS}
    for counts in found.runs.values():
        assert counts.flushes == 1
        assert counts.lower_bound <= counts.launches
    assert line(found) == LINES["torch"][name], (
        "make the table anew: python -m experiments.zoo --engine torch --markdown docs/zoo.md"
    )


@pytest.mark.parametrize("name", ["lattice-lstm", "shift-reduce", "mv-rnn"])
@pytest.mark.parametrize("scheduler", ["bound", "beam"])
def test_few_launches_more_than_the_bound_by_search(name: str, scheduler: str) -> None:
    row = ENGINE.ROWS[name]
    samples, net = ENGINE.samples(row, BATCH_SIZE, SEED), ENGINE.make_net(row, SEED)
    wanted = ENGINE.run(net, samples, row, training=True)
    ENGINE.batch(net, granularity="cell", scheduler=scheduler)
    assert distance(ENGINE.run(net, samples, row, training=True), wanted) < TOLERANCE
    report = gluonjit.explain()
    assert report.launches <= 1.3 * report.lower_bound


@cache
def case(name: str) -> tuple[Any, list[Any], Arrays]:
    """A model, samples of it, and what it gives one by one."""
    row = ENGINE.ROWS[name]
    net, samples = ENGINE.make_net(row, seed=3), ENGINE.samples(row, 4, seed=3)
    return net, samples, ENGINE.run(net, samples, row, training=True)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NAMES)
def test_every_way_to_batch_gives_the_same_losses_and_gradients(name: str, way: str) -> None:
    net, samples, expected = case(name)
    ENGINE.batch(net, **WAYS[way])
    found = ENGINE.run(net, samples, ENGINE.ROWS[name], training=True)
    report = gluonjit.explain()
    ENGINE.unbatch(net)
    assert report.flushes == 1 and (report.nodes > report.launches or way == "samples")
    assert len(expected) > 1 and distance(found, expected) <= TOLERANCE


@pytest.mark.parametrize("name", NAMES)
def test_a_look_abandoned_before_any_trace_gives_the_same_losses_and_gradients(
    name: str, free: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looks are abandoned at the first question, at the second, and at some later ones, where there are as many."""
    net, samples, expected = case(name)
    monkeypatch.setattr(Pace, "wants_eager", False)
    for after in QUESTIONS:
        questions = count()
        monkeypatch.setattr(Pace, "spent", lambda self, seconds, calls, q=questions, last=after: next(q) >= last)
        ENGINE.batch(net, granularity="auto")
        gluonjit.clear_caches()
        found = ENGINE.run(net, samples, ENGINE.ROWS[name], training=True)
        ENGINE.unbatch(net)
        assert distance(found, expected) <= TOLERANCE, f"abandoned at question {after}"
        if next(questions) <= after:
            break


def test_the_probabilities_of_all_tags_of_a_tree_add_up_to_one() -> None:
    row, make = ENGINE.ROWS["tree-crf"], maker("torch")
    net, tokens, tree = ENGINE.make_net(row, seed=1), make(integers([3, 0, 7])), (1, [(0, []), (2, [])])
    every = [integers(tags) for tags in product(range(TAGS), repeat=3)]
    losses = [float(row.loss(net, (tokens, tree, make(tags)))) for tags in every]
    assert abs(sum(exp(-loss) for loss in losses) - 1) < 1e-4 and len(set(losses)) > 100


def test_the_command_writes_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, figures = tmp_path / "page.md", tmp_path / "zoo.json"
    arguments = "--engine torch --models set-attention,mv-rnn --batch-size 3 --seed 5".split()
    assert main([*arguments, "--json", str(figures), "--markdown", str(page)]) == 0
    printed = capsys.readouterr().out
    assert f"`python -m experiments.zoo {' '.join(arguments)}`" in printed
    assert page.read_text(encoding="utf-8") == f"{BEGIN}\n{printed}{END}\n"
    result = json.loads(figures.read_text(encoding="utf-8"))
    assert result["engine"] == "torch"
    assert [model["name"] for model in result["models"]] == ["set-attention", "mv-rnn"]
