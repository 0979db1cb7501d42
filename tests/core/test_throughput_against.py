"""Two checkouts in turns: what is measured of them, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from sysconfig import get_config_var

import pytest
from frameworks_support import INSTALLED

from experiments.throughput.against import checkouts, compare
from experiments.throughput.against.checkouts import HERE
from experiments.throughput.against.paired import ratio
from experiments.throughput.cli import main
from gluonjit.compiled import FAST, ROWS

TINY = ["--workload", "treelstm-synthetic", "--limit", "4", "--repeats", "2", "--seconds", "0.001"]
compiled = pytest.mark.skipif(FAST is None or ROWS is None, reason="the modules in C are not built, or left out")


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "WARM_UP", 2)


def test_the_interval_of_fifteen_ratios_is_the_fourth_to_the_twelfth() -> None:
    pairs = [(1.0, 1 + k / 100) for k in (7, 3, 11, 1, 15, 9, 5, 13, 2, 8, 4, 14, 6, 12, 10)]
    found = ratio(pairs)
    assert found.median == pytest.approx(1.08)
    assert (found.low, found.high) == pytest.approx((1.04, 1.12))
    assert found.coverage == pytest.approx(1 - 2 * (1 + 15 + 105 + 455) / 2**15)
    assert ratio([(2.0, 1.0)]) == (0.5, 0.5, 0.5, 0.0)
    assert ratio([(1.0, 1.0), (1.0, 3.0)])[:3] == (2.0, 1.0, 3.0)


@compiled
@pytest.mark.parametrize("engine", INSTALLED)
def test_a_checkout_against_itself_gives_equal_losses_and_ratios(engine: str, tmp_path: Path) -> None:
    path = tmp_path / "against.json"
    given = ["--engine", engine, "--against", str(HERE), "--batch-size", "2,4", *TINY, "--json", str(path)]
    assert main(given) == 0
    result = json.loads(path.read_text(encoding="utf-8"))
    assert result["agreement"] == {"losses": 0.0, "gradients": 0.0, "losses_after_a_step": 0.0}
    phases = [(row["batch_size"], row["phase"]) for row in result["rows"]]
    assert phases == [(2, "train"), (2, "inference"), (4, "train"), (4, "inference")]
    for row in result["rows"]:
        assert len(row["seconds"]) == 2
        ratios = sorted(other / mine for mine, other in row["seconds"])
        found = row["ratio"]
        assert [found["low"], found["high"]] == pytest.approx(ratios)
        assert found["median"] == pytest.approx(sum(ratios) / 2)
    assert result["versions"]["this"] == result["versions"]["other"]
    assert (result["engine"], result["system"]) == (engine, "dynamic")
    assert result["threads"] >= 1 and result["environment"]["cores"]


@compiled
@pytest.mark.parametrize("engine", INSTALLED)
def test_a_model_of_the_zoo_is_measured_too(engine: str, tmp_path: Path) -> None:
    path = tmp_path / "against.json"
    given = ["--engine", engine, "--against", str(HERE), "--batch-size", "2", *TINY, "--json", str(path)]
    assert main([*given, "--workload", "zoo/tree-gru"]) == 0
    result = json.loads(path.read_text(encoding="utf-8"))
    assert result["agreement"] == {"losses": 0.0, "gradients": 0.0, "losses_after_a_step": 0.0}
    assert [(row["phase"], row["minibatches_per_turn"] > 0) for row in result["rows"]] == [
        ("train", True),
        ("inference", True),
    ]


def test_a_model_of_the_zoo_is_measured_against_a_checkout_only(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--workload", "zoo/tree-gru"])
    assert "zoo/tree-gru is measured with --against" in capsys.readouterr().err


@compiled
@pytest.mark.parametrize("engine", INSTALLED[:1])  # what an engine has a part in is tested above, of each
def test_code_of_the_other_checkout_runs_and_has_to_compute_the_same(
    engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("gluonjit", "experiments"):
        shutil.copytree(HERE / name, tmp_path / name, ignore=ignored)
    shutil.copy(HERE / "setup.py", tmp_path)
    package = tmp_path / "experiments" / "throughput" / "__init__.py"
    text = package.read_text(encoding="utf-8")
    assert "RATE = 0.01" in text
    package.write_text(text.replace("RATE = 0.01", "RATE = 0.5"), encoding="utf-8")
    assert main(["--engine", engine, "--against", str(tmp_path), "--batch-size", "2", *TINY]) == 1
    said = capsys.readouterr().err
    assert "other and this differ in losses after a step" in said and said.count("\n") == 1


def test_a_folder_that_is_no_checkout_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--against", str(tmp_path / "nowhere"), *TINY]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: --against ") and "not a checkout of gluonjit" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("more", [["--peers", "dynet"], ["--plot", "a.png"], ["--systems", "imperative,dynamic"]])
def test_what_is_measured_otherwise_is_refused(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--against", ".", *TINY, *more])
    assert "--against measures one system" in capsys.readouterr().err


def test_modules_that_are_missing_or_older_than_a_source_are_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package = tmp_path / "gluonjit"
    (package / "native" / "rows").mkdir(parents=True)
    modules = [package / f"{name}{get_config_var('EXT_SUFFIX')}" for name in checkouts.MODULES]
    sources = [package / "native" / "tensors.c", package / "native" / "rows" / "check.c"]
    for path in sources:
        path.touch()
    writes = f"import pathlib\nfor name in {[str(path) for path in modules]!r}: pathlib.Path(name).touch()\n"
    (tmp_path / "setup.py").write_text(writes, encoding="utf-8")
    checkouts.build(tmp_path)
    assert "building its modules in C, _fast is missing" in capsys.readouterr().out
    checkouts.build(tmp_path)
    assert capsys.readouterr().out == ""
    later = modules[1].stat().st_mtime + 10
    os.utime(sources[1], (later, later))
    (tmp_path / "setup.py").write_text("raise SystemExit('no compiler')", encoding="utf-8")
    with pytest.raises(checkouts.PeerError, match=r"check\.c is newer than _rows: no compiler"):
        checkouts.build(tmp_path)
