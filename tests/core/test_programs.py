"""The models beside eager execution: what the command times, says, and writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.programs.cli import main

FIGURES = ("eager_ms", "gluonjit_ms", "faster", "first", "whole", "late")


def test_both_phases_of_a_model_are_timed_and_equal_eager(
    engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures, page = tmp_path / "programs.json", tmp_path / "page.md"
    arguments = ["--engine", engine, "--models", "treelstm-cell", "--batch-sizes", "2", "--minibatches", "40"]
    assert main([*arguments, "--json", str(figures), "--markdown", str(page)]) == 0
    printed = capsys.readouterr().out
    assert f"`python -m experiments.programs {' '.join(arguments)}`" in printed
    table = printed[printed.index("`python") :]
    assert page.read_text() == f"<!-- programs, {engine}: begin -->\n{table}<!-- programs, {engine}: end -->\n"
    rows = json.loads(figures.read_text())["rows"]
    assert [row["phase"] for row in rows] == ["training", "inference"]
    for row in rows:
        assert row["minibatches"] == 40
        assert all(row[name] > 0 for name in FIGURES)
        assert row["eagerly"] == ("runs eagerly" in row["way"])


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--minibatches", "39"], "39 is less than 40"),
        (["--models", "treelstm"], "no model is called 'treelstm'"),
        (["--batch-sizes", "8,none"], "'none' is not an integer"),
        (["--seconds", "0"], "0 is not a positive number of seconds"),
    ],
)
def test_wrong_arguments_are_named(arguments: list[str], what: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert what in capsys.readouterr().err
