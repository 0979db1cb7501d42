"""The commands of the experiment: what they write, how they go on after an end, and what they refuse."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("scipy", reason="the experiment needs the extra `experiments`")

from experiments.bench.files import write_json
from experiments.bench.table import findings, table
from experiments.data import builtin
from experiments.treelstm import agree as agree_module
from experiments.treelstm import train as train_module
from experiments.treelstm.cli import main
from experiments.treelstm.systems import System


@pytest.fixture(autouse=True)
def small_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtin, "SCENES", 20)
    monkeypatch.setattr(builtin, "SIZES", {"train": 45, "dev": 12, "test": 12})
    for name, count in (("WARM_UP", 2), ("FIRST_LOOK", 2), ("PROFILED", 1)):
        monkeypatch.setattr(f"experiments.bench.clock.{name}", count)


def run_training(path: Path, *more: str, mode: str = "handbatched") -> tuple[int, dict[str, Any]]:
    """Train for three epochs on the small corpus; returns the exit code and the JSON."""
    basic = ["train", "--mode", mode, "--epochs", "3", "--batch-size", "10", "--seed", "3"]
    code = main([*basic, "--json", str(path), *more])
    return code, json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def numbers(result: dict[str, Any]) -> list[Any]:
    """Return all that has to be the same in a resumed run."""
    epochs = [
        {key: value for key, value in epoch.items() if key not in ("seconds", "pairs_per_s")}
        for epoch in result["epochs"]
    ]
    return [epochs, [result[name] for name in ("test_pearson", "test_spearman", "test_mse", "dev_pearson")]]


def test_training_writes_what_it_reached(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, result = run_training(tmp_path / "train.json")
    assert code == 0
    assert {"test_pearson", "test_spearman", "test_mse", "dev_pearson", "epochs", "setting", "environment"} <= set(
        result
    )
    assert result["setting"]["batch_size"] == 10 and result["setting"]["learning_rate"] == 0.05
    assert [epoch["epoch"] for epoch in result["epochs"]] == [1, 2, 3]
    assert result["epochs"][2]["loss"] < result["epochs"][0]["loss"]
    assert result["dev_pearson"] == max(epoch["dev_pearson"] for epoch in result["epochs"])
    assert result["environment"]["mxnet"] == "1.9.1"
    assert "SYNTHETIC" in capsys.readouterr().out


@pytest.mark.parametrize("mode", ["handbatched", "dynamic"])
def test_a_killed_run_resumes_to_the_same_numbers(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C in the middle of the second epoch loses that epoch alone."""
    _, whole = run_training(tmp_path / "whole.json", mode=mode)
    keep = ["--checkpoint", str(tmp_path / "run")]
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=8)
        code, begun = run_training(tmp_path / "resumed.json", *keep, mode=mode)
    assert code == 130 and "--resume" in capsys.readouterr().out
    assert len(begun["epochs"]) == 1 and begun["test_pearson"] is None
    code, resumed = run_training(tmp_path / "resumed.json", *keep, "--resume", mode=mode)
    assert code == 0
    assert numbers(resumed) == numbers(whole)
    assert [path.name for path in sorted((tmp_path / "run").iterdir())] == ["epoch-0003", "state.json"]


def interrupt_at(patch: pytest.MonkeyPatch, step: int) -> None:
    """Press Ctrl-C in a training step."""
    steps = iter(range(1, step + 1))
    plain = System.step

    def interrupted(self: System, pairs: Any) -> Any:
        if next(steps) == step:
            raise KeyboardInterrupt
        return plain(self, pairs)

    patch.setattr(System, "step", interrupted)


def test_a_crash_while_saving_leaves_the_epoch_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, whole = run_training(tmp_path / "whole.json")
    keep = ["--checkpoint", str(tmp_path / "run")]
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=8)
        run_training(tmp_path / "resumed.json", *keep)
    with monkeypatch.context() as patch:
        patch.setattr(train_module.checkpoint.os, "replace", fail)
        assert run_training(tmp_path / "resumed.json", *keep, "--resume")[0] == 1
    assert "error: the disk is full" in capsys.readouterr().err
    _, resumed = run_training(tmp_path / "resumed.json", *keep, "--resume")
    assert numbers(resumed) == numbers(whole)


def fail(*_: Any) -> None:
    raise OSError("the disk is full")


def test_a_checkpoint_is_neither_overwritten_nor_mixed_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep = ["--checkpoint", str(tmp_path / "run")]
    run_training(tmp_path / "train.json", *keep)
    assert run_training(tmp_path / "train.json", *keep)[0] == 1
    assert "give --resume" in capsys.readouterr().err
    assert run_training(tmp_path / "train.json", *keep, "--resume", "--seed", "4")[0] == 1
    assert "seed = 3, but this one has 4" in capsys.readouterr().err
    (tmp_path / "run" / "state.json").write_text("{", encoding="utf-8")
    assert run_training(tmp_path / "train.json", *keep, "--resume")[0] == 2
    assert "state.json: it is no part of a checkpoint" in capsys.readouterr().err


def test_compare_measures_every_system_in_both_phases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, plot = tmp_path / "results" / "compare.json", tmp_path / "results" / "compare.png"
    arguments = "compare --batch-size 4 --modes imperative,handbatched,dynamic --repeats 2 --seconds 0.01"
    assert main([*arguments.split(), "--json", str(path), "--plot", str(plot)]) == 0
    result = json.loads(path.read_text(encoding="utf-8"))
    assert {"workload", "threads", "environment", "rows"} <= set(result)
    keys = [(row["system"], row["sharing"], row["phase"]) for row in result["rows"]]
    systems = [("imperative", None), ("handbatched", None), ("dynamic", True), ("dynamic", False)]
    assert keys == [(*system, phase) for system in systems for phase in ("train", "inference")]
    for row in result["rows"]:
        assert row["min"] <= row["samples_per_s"] <= row["max"]
        assert row["batch_size"] == 4 and row["samples_timed"] >= 4
        assert (row["launches_per_batch"] is None) == (row["sharing"] is None) == (row["ms"] is None)
    ours = [row for row in result["rows"] if row["sharing"]]
    assert all(row["launches_per_batch"] >= row["lower_bound_per_batch"] > 0 for row in ours)
    assert set(ours[0]["cache"]) == {"hits", "misses"}
    assert set(ours[0]["ms"]) == {"capture", "analysis", "gather", "compute", "backward"}
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert "dynamic, no sharing" in capsys.readouterr().out


def row(system: str, phase: str, found: float, sharing: bool | None = None) -> dict[str, Any]:
    return {
        "system": system, "phase": phase, "samples_per_s": found, "min": found, "max": found, "sharing": sharing,
        "samples_timed": 1, "launches_per_batch": None, "lower_bound_per_batch": None,
    }  # fmt: skip


def test_ratios_stand_beside_the_papers() -> None:
    rows = [row("imperative", "train", 50), row("dynamic", "train", 1000, True)]
    found = findings(rows)
    assert found == {"under_floor": [], "ratios": {"dynamic": {"train": {"imperative": 20.0}}}}
    assert "20.0x imperative (paper, its hardware: 5.96x)" in table({"rows": rows, **found})


def test_a_run_whose_baselines_are_too_slow_claims_nothing() -> None:
    rows = [row("imperative", "train", 30), row("dynamic", "train", 1000, True)]
    found = findings(rows)
    assert found == {"under_floor": ["imperative reached 30 pairs/s in training, its floor is 45"], "ratios": {}}
    assert "not fit for claims" in table({"rows": rows, **found})


def test_agree_says_whether_systems_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["agree", "--batches", "2", "--batch-size", "4", "--systems", "handbatched,dynamic"]
    assert main([*arguments, "--json", str(tmp_path / "agree.json")]) == 0
    result = json.loads((tmp_path / "agree.json").read_text(encoding="utf-8"))
    assert set(result["largest"]) == {"handbatched", "dynamic", "dynamic, no sharing"}
    monkeypatch.setattr(agree_module, "TOLERANCE", 0.0)
    assert main(arguments) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("train --mode fast --epochs 1", "invalid choice: 'fast'"),
        ("train --mode dynamic", "--epochs"),
        ("train --mode dynamic --epochs 0", "0 is less than 1"),
        ("train --mode dynamic --epochs two", "'two' is not an integer"),
        ("train --mode dynamic --epochs 1 --seed -1", "-1 is less than 0"),
        ("train --mode dynamic --epochs 1 --resume", "--resume needs --checkpoint"),
        ("compare --modes imperative,fast", "no mode is called 'fast'"),
        ("compare --modes dynamic,dynamic", "named twice"),
        ("compare --seconds never", "'never' is not a number of seconds"),
        ("compare --data words", "invalid choice: 'words'"),
    ],
)
def test_bad_arguments_are_explained(arguments: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments.split())
    assert caught.value.code == 2
    assert says in capsys.readouterr().err


def test_faults_of_the_data_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--data", "sick", "--data-dir", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(f"error: {tmp_path / 'sick' / 'train' / 'a.toks'}: no such file")
    assert main(["compare", "--batch-size", "46"]) == 1
    assert "45 pairs do not fill --batch-size 46" in capsys.readouterr().err


def test_results_are_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_json(path, {"good": 1})
    with pytest.raises(ValueError, match="JSON"):
        write_json(path, {"bad": float("nan")})
    assert json.loads(path.read_text(encoding="utf-8")) == {"good": 1}


def test_help_needs_no_framework() -> None:
    code = "import sys; from experiments.treelstm.cli import _parser; _parser(); assert 'mxnet' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
