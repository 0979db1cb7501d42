"""Every model of the zoo equals itself run sample by sample, and needs as many launches as the documentation says."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from itertools import product
from math import exp
from pathlib import Path
from typing import Any

import pytest
from zoo_page import LINES

import gluonjit
from experiments.bench.engines import engine_of
from experiments.bench.page import markers
from experiments.data.arrays import maker
from experiments.zoo import measure as measuring
from experiments.zoo.cli import BATCH_SIZE, NAMES, SEED, main
from experiments.zoo.measure import RUNS, TOLERANCE, distance, measure
from experiments.zoo.row import Arrays
from experiments.zoo.samples import integers
from experiments.zoo.samples.trees import TAGS
from experiments.zoo.table import line

ROOT = Path(__file__).resolve().parents[2]
ENGINE = engine_of("zoo", "mxnet")
BEGIN, END = markers("mxnet")


@pytest.mark.parametrize("name", NAMES)
def test_a_model_equals_itself_in_as_many_launches_as_documented(name: str) -> None:
    found = measure(ENGINE, name, BATCH_SIZE, SEED)
    assert not found.faults()
    assert set(found.runs) == {run for run, _, _ in RUNS}
    for counts in found.runs.values():
        assert counts.flushes == 1
        assert counts.lower_bound <= counts.launches
    assert line(found) == LINES["mxnet"][name], "make the table anew: python -m experiments.zoo --markdown docs/zoo.md"


@pytest.mark.parametrize("name", NAMES)
def test_a_fresh_model_learns_its_shapes_batched(name: str) -> None:
    """As a user would: no eager call comes before the first minibatch, which has other samples than the table's."""
    row = ENGINE.ROWS[name]
    samples, net = ENGINE.samples(row, 6, seed=7), ENGINE.make_net(row, seed=7)
    ENGINE.batch(net)
    batched = ENGINE.run(net, samples, row, training=False)
    assert gluonjit.explain().flushes == 1
    ENGINE.unbatch(net)
    assert distance(batched, ENGINE.run(net, samples, row, training=False)) <= TOLERANCE


@pytest.mark.parametrize("left_out", [*gluonjit.Options.SWITCHES, "all"])
@pytest.mark.parametrize("name", NAMES)
def test_each_optimization_can_be_left_out(name: str, left_out: str) -> None:
    net, samples, expected = case(name)
    without = tuple(gluonjit.Options.SWITCHES) if left_out == "all" else (left_out,)
    ENGINE.batch(net, without=without)
    found = ENGINE.run(net, samples, ENGINE.ROWS[name], training=True)
    ENGINE.unbatch(net)
    assert distance(found, expected) <= TOLERANCE


@cache
def case(name: str) -> tuple[Any, list[Any], Arrays]:
    """A model, samples of it, and what it gives one by one."""
    row = ENGINE.ROWS[name]
    net, samples = ENGINE.make_net(row, seed=3), ENGINE.samples(row, 4, seed=3)
    for sample in samples:
        row.loss(net, sample)
    return net, samples, ENGINE.run(net, samples, row, training=True)


def test_the_probabilities_of_all_tags_of_a_tree_add_up_to_one() -> None:
    row, make = ENGINE.ROWS["tree-crf"], maker("mxnet")
    net, tokens, tree = ENGINE.make_net(row, seed=1), make(integers([3, 0, 7])), (1, [(0, []), (2, [])])
    every = [integers(tags) for tags in product(range(TAGS), repeat=3)]
    losses = [float(row.loss(net, (tokens, tree, make(tags))).asscalar()) for tags in every]
    assert abs(sum(exp(-loss) for loss in losses) - 1) < 1e-4 and len(set(losses)) > 100


def test_the_command_writes_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, figures = tmp_path / "docs" / "page.md", tmp_path / "zoo.json"
    arguments = "--models set-attention,mv-rnn --batch-size 3 --seed 5".split()
    assert main([*arguments, "--json", str(figures), "--markdown", str(page)]) == 0
    printed = capsys.readouterr().out
    assert f"`python -m experiments.zoo {' '.join(arguments)}`" in printed
    assert page.read_text(encoding="utf-8") == f"{BEGIN}\n{printed}{END}\n"
    page.write_text(f"# Before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    assert main([*arguments, "--markdown", str(page)]) == 0
    assert page.read_text(encoding="utf-8") == f"# Before\n{BEGIN}\n{printed}{END}\nafter\n"
    result = json.loads(figures.read_text(encoding="utf-8"))
    assert result["engine"] == "mxnet"
    assert (result["batch_size"], result["seed"]) == (3, 5)
    assert [model["name"] for model in result["models"]] == ["set-attention", "mv-rnn"]
    assert {run for model in result["models"] for run in model["runs"]} == {run for run, _, _ in RUNS}


def test_a_page_without_a_place_for_the_table_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Nothing here\n", encoding="utf-8")
    assert main(["--models", "set-attention", "--batch-size", "2", "--markdown", str(page)]) == 1
    assert "has no place for the table" in capsys.readouterr().err
    assert page.read_text(encoding="utf-8") == "# Nothing here\n"


def test_a_model_that_is_not_right_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measuring, "TOLERANCE", -1.0)
    assert main(["--models", "set-attention", "--batch-size", "2"]) == 1
    assert "fault: set-attention, training: off by" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--models treelstm", "no model is called 'treelstm'; the models are treelstm-cell, "),
        ("--models mpnn,mpnn", "named twice"),
        ("--batch-size 0", "0 is less than 1"),
        ("--batch-size many", "'many' is not an integer"),
        ("--seed -1", "-1 is less than 0"),
    ],
)
def test_bad_arguments_are_explained(arguments: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments.split())
    assert caught.value.code == 2
    assert says in capsys.readouterr().err


def test_help_and_samples_need_no_framework() -> None:
    code = (
        "import sys; from experiments.zoo.cli import _parser; from experiments.zoo.samples import graphs, sequences, "
        "sets, trees; _parser(); assert not {'mxnet', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
