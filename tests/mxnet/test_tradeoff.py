"""The trade-off experiment: what it writes, its arithmetic, and what is left after an interruption."""

from __future__ import annotations

import copy
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib", reason="the experiment needs the extra `experiments`")

from experiments.bench.engines import engine_of
from experiments.data import builtin
from experiments.tradeoff import measuring
from experiments.tradeoff.cli import main
from experiments.tradeoff.configurations import Configuration, configurations
from experiments.tradeoff.measuring import LEAST, PHASES, Measurement, Run, Timing
from experiments.tradeoff.plot import draw
from experiments.tradeoff.processor import without_pauses
from experiments.tradeoff.summary import crossings, errors, fastest, markdown, regret, row_of, summary, table
from experiments.workloads import load

COLUMNS = {
    "workload", "granularity", "scheduler", "sharing", "batch_size", "phase", "nodes", "launches", "analysis_ms",
    "predicted_ms", "measured_ms", "interval_ms", "times_ms", "samples_per_s", "capture_ms", "execution_ms",
    "repeats", "choice", "outside_ms", "error", "spread",
}  # fmt: skip
CELLS = [Configuration("cell", "depth", True), Configuration("cell", "bound", False)]
SOME = [Configuration("op", "depth", True), *CELLS]
ENGINE = engine_of("tradeoff", "mxnet")


@pytest.fixture
def small_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtin, "SCENES", 5)
    monkeypatch.setattr(builtin, "SIZES", {"train": 12, "dev": 2, "test": 2})


def row(granularity: str, size: int, ms: float, phase: str = "training", **more: Any) -> dict[str, Any]:
    """A row that was made up; `granularity` may be auto."""
    automatic = granularity == "auto"
    return {
        "workload": "made up", "granularity": granularity, "scheduler": "auto" if automatic else "depth",
        "sharing": "auto" if automatic else True, "batch_size": size, "phase": phase,
        "nodes": 10.0 * size,
        "launches": 5.0, "capture_ms": ms / 4, "analysis_ms": ms / 4, "execution_ms": ms / 2, "predicted_ms": None,
        "measured_ms": ms, "interval_ms": [ms * 0.9, ms * 1.1], "times_ms": [ms * 0.9, ms, ms * 1.1],
        "samples_per_s": 1e3 * size / ms, "repeats": 5, "outside_ms": ms / 10, "error": None, "spread": 0.02,
        "choice": "cell, depth, sharing on" if automatic else None, **more,
    }  # fmt: skip


def result_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    made = {"workload": "made up", "engine": "mxnet", "threads": 1, "interrupted": False}
    return {**made, "rows": rows, "summary": summary(rows)}


def test_every_way_that_the_version_knows_is_compared() -> None:
    found = configurations()
    fixed = [chosen for chosen in found if not chosen.automatic]
    assert {chosen.granularity for chosen in fixed} >= {"op", "cell"}
    assert len(fixed) == 3 * len({chosen.granularity for chosen in fixed}) + 1
    assert len(set(found)) == len(found)
    assert not Configuration("cell", "by luck", True).usable


@pytest.mark.usefixtures("small_corpus")
def test_a_run_writes_every_row_with_all_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("experiments.tradeoff.configurations.configurations", lambda: SOME)
    path, plot = tmp_path / "new" / "tradeoff.json", tmp_path / "new" / "tradeoff.png"
    arguments = "--workload treelstm-builtin --batch-sizes 1,3 --repeats 2 --calibration 0 --seed 2".split()
    assert main([*arguments, "--json", str(path), "--plot", str(plot)]) == 0
    result = json.loads(path.read_text(encoding="utf-8"))
    assert {"rows", "summary", "environment", "command", "note", "threads"} <= set(result)
    assert result["command"] == f"python -m experiments.tradeoff {' '.join(arguments[:6])} --seconds 4 --seed 2"
    assert not result["interrupted"]
    names = ("granularity", "scheduler", "sharing", "batch_size", "phase")
    keys = [tuple(found[name] for name in names) for found in result["rows"]]
    expected = [(*found, size, phase) for size in (1, 3) for phase in PHASES for found in SOME]
    assert keys == expected
    for found in result["rows"]:
        assert set(found) == COLUMNS
        low, high = found["interval_ms"]
        assert 0 < low <= found["measured_ms"] <= high
        assert found["samples_per_s"] == pytest.approx(1e3 * found["batch_size"] / found["measured_ms"])
        assert 0 < found["launches"] <= found["nodes"]
        assert found["repeats"] == 2
    by = {key: found for key, found in zip(keys, result["rows"])}
    for size in (1, 3):
        fine, coarse = (by[name, "depth", True, size, "forward"] for name in ("op", "cell"))
        assert fine["nodes"] > coarse["nodes"] and fine["launches"] > coarse["launches"]
    assert set(result["summary"]["errors"]) == set(PHASES) == set(result["summary"]["regret"])
    assert set(result["summary"]["regret"]["forward"]) == {"1", "3"}
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert "SYNTHETIC" in capsys.readouterr().out


@pytest.mark.usefixtures("small_corpus")
def test_all_ways_get_the_same_minibatches_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    measurement = Measurement(ENGINE, load("treelstm-builtin"), CELLS, seed=0)
    once, seen = Measurement._once, []

    def noted(self: Measurement, configuration: Configuration, phase: str, samples: Any) -> Run:
        seen.append((configuration, phase, [id(sample) for sample in samples]))
        return once(self, configuration, phase, samples)

    monkeypatch.setattr(Measurement, "_once", noted)
    measurement.run([2], repeats=3, seconds=60)
    timed = {phase: [entry for entry in seen if entry[1] == phase][-12:] for phase in PHASES}
    for entries in timed.values():
        assert [entry[0] for entry in entries] == [*CELLS, *CELLS, *CELLS[::-1], *CELLS[::-1], *CELLS, *CELLS]
        minibatches = [entry[2] for entry in entries]
        assert minibatches[::2] == minibatches[1::2]
        assert len({tuple(minibatch) for minibatch in minibatches}) == 3
    assert [len(timing.pairs) for timing in measurement.timings] == [3] * 4


@pytest.mark.usefixtures("small_corpus")
def test_a_slow_way_is_repeated_less_often_and_says_so() -> None:
    measurement = Measurement(ENGINE, load("treelstm-builtin"), CELLS[:1], seed=0)
    measurement.run([1], repeats=LEAST + 2, seconds=1e-9)
    assert [row_of("made up", timing)["repeats"] for timing in measurement.timings] == [LEAST, LEAST]


@pytest.mark.usefixtures("small_corpus")
def test_nets_of_all_ways_share_their_parameters() -> None:
    workload = load("treelstm-builtin")
    twin = ENGINE.batched(workload.net, CELLS[0].options)
    assert list(twin.collect_params().values()) == list(workload.net.collect_params().values())
    assert all(
        one is other for one, other in zip(twin.collect_params().values(), workload.net.collect_params().values())
    )
    expected = [float(loss.asscalar()) for loss in workload.losses(workload.train[:3])]
    found = [float(workload.loss(twin, pair).asscalar()) for pair in workload.train[:3]]
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.usefixtures("small_corpus")
def test_an_interruption_keeps_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tradeoff.json"
    arguments = "--workload treelstm-builtin --batch-sizes 1,2 --repeats 2 --calibration 0".split()
    monkeypatch.setattr("experiments.tradeoff.configurations.configurations", lambda: CELLS)
    interrupt_at(monkeypatch, "forward", 2)
    assert main([*arguments, "--json", str(path)]) == 130
    assert f"interrupted: 4 rows were measured; written to: {path}" in capsys.readouterr().out
    result = json.loads(path.read_text(encoding="utf-8"))
    assert result["interrupted"]
    assert [(row["batch_size"], row["phase"], row["repeats"]) for row in result["rows"]] == [
        (1, phase, 2) for phase in PHASES for _ in CELLS
    ]
    path.unlink()
    interrupt_at(monkeypatch, "forward", 1)
    assert main([*arguments, "--json", str(path)]) == 130
    assert "nothing was written" in capsys.readouterr().err
    assert not path.exists()


def interrupt_at(patch: pytest.MonkeyPatch, phase: str, size: int) -> None:
    """Press Ctrl-C in the first minibatch of this size in this phase."""
    once = measuring.Measurement._once

    def interrupted(self: Measurement, configuration: Configuration, at: str, samples: Any) -> Run:
        if (at, len(samples)) == (phase, size):
            raise KeyboardInterrupt
        return once(self, configuration, at, samples)

    patch.setattr(measuring.Measurement, "_once", interrupted)


def test_a_row_has_the_medians_of_its_repeats() -> None:
    runs = [
        Run(0.010, 0.002, 0.001, 0.001, 40, 10, 12.0, None),
        Run(0.030, 0.004, 0.002, 0.000, 60, 14, 24.0, None),
        Run(0.020, 0.003, 0.005, 0.002, 50, 12, 18.0, None),
        Run(0.020, 0.003, 0.005, 0.002, 50, 12, 18.0, "cell, depth, sharing on"),
    ]
    found = row_of("made up", Timing(CELLS[0], 8, "training", 3, runs))
    assert [found[name] for name in ("nodes", "launches", "repeats")] == [50, 12, 2]
    assert found["times_ms"] == pytest.approx([20, 20]) and found["spread"] == pytest.approx(0.25)
    assert found["outside_ms"] == pytest.approx(1.5) and found["error"] == pytest.approx(0.1)
    assert found["measured_ms"] == pytest.approx(20) and found["interval_ms"] == pytest.approx([10, 30])
    assert (found["capture_ms"], found["analysis_ms"], found["execution_ms"]) == pytest.approx((3, 3.5, 12))
    assert found["predicted_ms"] == 18 and found["samples_per_s"] == pytest.approx(400)
    assert found["choice"] == "cell, depth, sharing on"


def test_the_error_of_predictions_is_relative_to_what_was_measured() -> None:
    rows = [row("op", 1, 10, error=0.1), row("cell", 1, 20, error=0.3, spread=0.1), row("op", 4, 9, error=0.01)]
    assert errors(rows) == pytest.approx({"error": 0.41 / 3, "spread": 0.14 / 3, "beyond": 0.28 / 3, "worst": 0.2})
    assert errors([row("op", 1, 10)]) is None


def test_regret_is_against_the_fastest_row_of_training() -> None:
    rows = [row("op", 4, 50), row("cell", 4, 40), row("cell", 4, 1, "forward"), row("auto", 4, 44)]
    found = summary([*rows, row("cell", 8, 10), row("auto", 8, 20)])
    training = found["regret"]["training"]
    assert {size: lost["regret"] for size, lost in training.items()} == pytest.approx({"4": 0.1, "8": 1.0})
    assert {size: lost["beyond"] for size, lost in training.items()} == pytest.approx({"4": 0.06, "8": 0.96})
    assert training["8"]["best"] == "cell depth" and training["8"]["depth"] == pytest.approx(0.5)
    assert found["regret"]["forward"] == {"4": None, "8": None}
    assert found["errors"] == {"training": None, "forward": None}
    assert regret([rows[1], row("auto", 4, 30)])["regret"] == 0


def test_the_table_names_the_fastest_of_each_granularity() -> None:
    rows = [row("cell", 4, 40), row("cell", 4, 20, scheduler="bound", sharing=False), row("auto", 4, 25)]
    assert fastest(rows, "training", "cell")[4]["scheduler"] == "bound"
    text = table(rows, summary(rows))
    assert "cell, bound, sharing off" in text and "auto, auto, cell, depth, sharing on" in text
    assert "automatic choice, training, batch 4: 25.0% from the best, 21.0% beyond spread" in text
    page = markdown(rows, summary(rows))
    assert "| training | 4 |  | 20.0 | 25.0 | cell, depth, sharing on | 1.60x | cell bound | 25.0% | 21.0% |" in page
    assert "predictions, training: none made" in text


def test_pauses_in_steps_are_left_out() -> None:
    assert without_pauses([10, 20], 100) == [10, 20]
    assert without_pauses([10, 5000, 20, 30], 100) == [10, 27, 20, 27]


def test_curves_cross_where_they_are_equal_on_logarithmic_axes() -> None:
    ((size, height),) = crossings({1: 1.0, 16: 4.0}, {1: 2.0, 16: 2.0})
    assert (size, height) == pytest.approx((4.0, 2.0))
    assert math.isclose(crossings({1: 2.0, 16: 2.0}, {1: 1.0, 16: 4.0})[0][0], 4.0)
    assert crossings({1: 1.0, 16: 4.0}, {1: 2.0, 16: 5.0}) == []
    assert crossings({1: 1.0}, {16: 2.0}) == []


def test_a_plot_needs_neither_predictions_nor_all_granularities(tmp_path: Path) -> None:
    rows = [row(name, size, ms) for name, ms in (("op", 9), ("cell", 7), ("auto", 7)) for size in (1, 4)]
    rows += [row("cell", 4, 3, "forward")]
    draw(result_of(rows), tmp_path / "without.png")
    predicted = [{**copy.deepcopy(found), "predicted_ms": found["measured_ms"] * 1.05, "error": 0.05} for found in rows]
    draw(result_of(predicted), tmp_path / "with.png")
    without, with_them = ((tmp_path / name).read_bytes() for name in ("without.png", "with.png"))
    assert without.startswith(b"\x89PNG") and without != with_them


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--batch-sizes 1", "--workload"),
        ("--workload trees", "invalid choice: 'trees'"),
        ("--workload bilstm --batch-sizes 4,1", "4,1 is not ascending"),
        ("--workload bilstm --batch-sizes 4,4", "4,4 is not ascending"),
        ("--workload bilstm --batch-sizes 4,x", "'x' is not an integer"),
        ("--workload bilstm --repeats 0", "0 is less than 1"),
        ("--workload bilstm --seconds never", "'never' is not a number of seconds"),
    ],
)
def test_bad_arguments_are_explained(arguments: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments.split())
    assert caught.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.usefixtures("small_corpus")
def test_faults_of_the_data_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--workload", "treelstm-sst", "--data-dir", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(f"error: {tmp_path / 'sst' / 'train.txt'}: no such file")
    assert main(["--workload", "treelstm-builtin", "--batch-sizes", "1,13"]) == 1
    assert "12 samples do not fill 13 of --batch-sizes" in capsys.readouterr().err


def test_help_needs_no_framework() -> None:
    code = "import sys; from experiments.tradeoff.cli import _parser; _parser(); assert 'mxnet' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
