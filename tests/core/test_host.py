"""What a captured call costs: what the command times, that it is what eager gives, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from experiments.data import builtin
from experiments.host import cli, launching
from experiments.host.launching import Launched
from experiments.host.measure import TOLERANCE, Calls, measure
from experiments.host.sorts import Sort
from experiments.host.table import tables
from gluonjit.compiled import ROWS

NODES = {"`x + y`, an equal call": 0, "`words[i]`": 0, "`words[i : i + 1]`": 0}  # of a call; others append one
SMALL = ["--calls", "3", "--rounds", "1", "--samples", "2", "--planned", "2,3", "--minibatch", "4", "--seed", "5"]


@pytest.fixture(scope="module")
def said_by_the_doctor(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The line about capture of a doctor that finds no framework, each of which it would try for seconds."""
    folder = tmp_path_factory.mktemp("absent")
    for name in ("mxnet", "torch"):
        (folder / f"{name}.py").write_text(f"raise ModuleNotFoundError('No module named {name}')\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder))
        return cli._capture()


@pytest.fixture
def on(engine: str) -> Any:
    """The calls of an engine."""
    return import_module(f"experiments.host.on_{engine}")


def test_every_sort_of_call_is_timed_and_gives_what_eager_gives(
    engine: str,
    on: Any,
    said_by_the_doctor: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cli, "_capture", lambda: said_by_the_doctor)
    monkeypatch.setattr(launching, "WORKLOADS", launching.WORKLOADS[1:])  # without files that take long to read
    monkeypatch.setattr(launching, "LENGTHS", (5, 45))
    for module in ("measure", "launching"):
        monkeypatch.setattr(f"experiments.host.{module}.WARM_UP", 1)
    monkeypatch.setattr(builtin, "SCENES", 20)
    monkeypatch.setattr(builtin, "SIZES", {"train": 64, "dev": 2, "test": 2})
    figures, page = tmp_path / "host.json", tmp_path / "page.md"
    page.write_text(f"before\n<!-- host, {engine}: begin -->\nold\n<!-- host, {engine}: end -->\nafter\n")
    assert cli.main(["--engine", engine, *SMALL, "--json", str(figures), "--markdown", str(page)]) == 0
    result = json.loads(figures.read_text(encoding="utf-8"))
    assert result["capture"].startswith("in ") and result["environment"][engine]
    rows = result["rows"]
    sorts = {sort.name: sort for sort in on.SORTS}
    names = [*sorts, "2 samples of the TreeModel", "a node replayed"]
    assert [(row["sort"], row["gradients"]) for row in rows] == [
        (each, mode) for each in names for mode in (False, True)
    ]
    for row in rows:
        assert 0 <= row["off"] <= TOLERANCE
        assert row["eager"] > 0 and 0 < row["fastest"] <= row["captured"] <= row["slowest"]
        if row["sort"] in sorts:
            assert row["calls"] == 3 and row["unit"] == "µs"
            assert row["nodes"] == NODES.get(row["sort"], 1)
            assert (row["door"] is None) == (sorts[row["sort"]].stub is None)
        elif row["sort"] == "a node replayed":
            assert row["unit"] == "µs" and row["calls"] > 4 and 0 < row["nodes"] <= 1
        else:
            assert row["unit"] == "ms" and row["nodes"] > 4
    assert [row["samples"] for row in result["planning"]] == [2, 3]
    assert all(
        0 < row["launches"] <= row["nodes"] and row["planning"] > 0 < row["analysis"] for row in result["planning"]
    )
    steps = result["steps"]
    assert all(steps[name] > 0 for name in ("flush", "recorded", "cold")) and steps["in_c"] == (ROWS is not None)
    assert [(row["batch_size"], row["phase"]) for row in result["minibatches"]] == [(4, "train"), (4, "inference")]
    assert all(row["row_ms"] < row["ms"] and (row["row_ms"] > 0) == (ROWS is not None) for row in result["minibatches"])
    printed = capsys.readouterr().out
    table = printed[printed.index("`python") :]
    assert table.startswith(f"`python -m experiments.host --engine {engine} {' '.join(SMALL)}` (capture: in ")
    assert all(printed.count(f"| {each} |") == 2 for each in names)
    lines = (f"<!-- host, {engine}: begin -->\n", f"<!-- host, {engine}: end -->\n")
    assert page.read_text() == f"before\n{lines[0]}{table}{lines[1]}after\n"


def test_the_documentation_has_a_place_for_the_tables() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "host.md").read_text(encoding="utf-8")
    assert all(f"<!-- host, {name}: begin -->" in page for name in ("mxnet", "torch"))
    assert tables([], [], None, [], "command`").startswith("`command`\n")


def test_results_that_differ_are_a_fault(
    engine: str, on: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make = on.calls
    monkeypatch.setattr(on, "calls", lambda batched, seed: make(batched, seed + batched))
    monkeypatch.setattr(on, "SORTS", on.SORTS[:1])
    monkeypatch.setattr(cli, "_capture", lambda: "in compiled code")
    monkeypatch.setattr(cli, "_planned", lambda engine, options: [])
    monkeypatch.setattr(cli, "_launched", lambda engine, options: (Launched(1, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0), []))
    assert cli.main(["--engine", engine, *SMALL]) == 1
    assert capsys.readouterr().err.count("fault: `x + y`: off by ") == 2


def test_calls_that_run_are_not_timed(on: Any) -> None:
    reading = Sort("reads", lambda net, at: [x if x.sum() > 0 else x * 2.0 for x in at.xs])
    nets = on.calls(False, 0), on.calls(True, 0)
    with pytest.raises(ValueError, match="reads: the batch ran while its calls were timed"):
        measure(on, Calls(on, nets, reading, 2), False, 1, 0)


def test_a_call_that_does_not_come_to_the_door_has_no_such_figure(on: Any) -> None:
    @contextmanager
    def elsewhere() -> Iterator[object]:
        yield object()

    nets = on.calls(False, 0), on.calls(True, 0)
    sort = replace(on.SORTS[0], stub=elsewhere)
    with pytest.raises(ValueError, match=r"`x \+ y`: a call has come to gluonjit by another way"):
        measure(on, Calls(on, nets, sort, 2), False, 1, 0)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--calls", "4097"], "4097 is more than 4096"),
        (["--rounds", "0"], "0 is less than 1"),
        (["--planned", "8,none"], "'none' is not an integer"),
        (["--engine", "jax"], "invalid choice: 'jax'"),
    ],
)
def test_wrong_arguments_are_named(arguments: list[str], what: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--engine", "torch", *arguments])
    assert what in capsys.readouterr().err
