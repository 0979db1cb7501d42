"""Models that decide, in PyTorch: side by side they give what they give one after the other; the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from experiments.bench.engines import engine_of
from experiments.deciding import measure as measuring
from experiments.deciding.cli import main
from experiments.deciding.measure import Setting, measure
from experiments.deciding.programs import NAMES, HaltingGRU

pytest.importorskip("greenlet")
SMALL = Setting(engine="torch", batch_size=5, hidden=8, in_flight=6, seed=1)


@pytest.fixture(autouse=True)
def few_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "WARM_UP", 0)
    monkeypatch.setattr(measuring, "REPEATS", 1)


@pytest.mark.parametrize("name", NAMES)
def test_a_model_gives_in_every_way_what_it_gives_eagerly(name: str) -> None:
    for timed in measure(engine_of("zoo", "torch"), name, SMALL):
        assert not timed.faults()
        assert set(timed.off) >= {"map", "in flight"}
        assert len(timed.sizes) > 1  # it decides
        assert sum(timed.full) >= sum(timed.sizes)
        assert len(timed.full) < len(timed.apart)


def test_the_halting_gru_takes_6_of_24_steps() -> None:
    limits = [HaltingGRU.sample(np.random.RandomState(number))[1] for number in range(2000)]
    assert 5.6 < np.mean(np.ceil(np.array(limits) / 0.5)) < 6.2
    assert max(limits) / 0.5 <= 24


def test_the_command_writes_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, figures, picture = tmp_path / "page.md", tmp_path / "found.json", tmp_path / "sizes.png"
    arguments = "--engine torch --models halting-gru,early-exit --batch-size 3 --hidden 8 --in-flight 4".split()
    written = ["--json", str(figures), "--markdown", str(page), "--plot", str(picture)]
    assert main([*arguments, *written]) == 0
    assert f"`python -m experiments.deciding {' '.join(arguments)}`" in capsys.readouterr().out
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [line.split("`")[1] for line in lines[5:-1]] == ["halting-gru", "early-exit"]
    assert all("x; " in line.split("|")[5] for line in lines[5:-1])  # than with masks
    assert [row["model"] for row in json.loads(figures.read_text())["rows"]] == ["halting-gru"] * 2 + ["early-exit"] * 2
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_model_that_differs_is_a_fault(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(measuring, "TOLERANCE", -1.0)
    assert main("--models ponder --batch-size 2 --hidden 4 --in-flight 2".split()) == 1
    assert "fault: ponder, training, map: off by" in capsys.readouterr().err


def test_unknown_models_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--models", "guessing"])
    assert "no model is called 'guessing'" in capsys.readouterr().err
