"""`python -m gluonjit calibrate`: the file it writes, what it prints, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import mxnet as mx
import pytest

from gluonjit.__main__ import main
from gluonjit.analysis.costs import Coefficients
from gluonjit.analysis.table import TABLE
from gluonjit.commands import calibrate
from gluonjit.engines.mxnet import engine
from gluonjit.hybrid.choose import costs


@pytest.fixture(autouse=True)
def process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A process that has no models yet, and a folder of its own for files."""
    monkeypatch.setattr(costs, "_models", {})
    monkeypatch.setenv("GLUONJIT_CACHE", str(tmp_path))
    return tmp_path


def test_a_calibration_is_stored_shown_and_used(process: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "--seconds", "1"]) == 0
    (path,) = process.iterdir()
    found = Coefficients.load(path)
    assert found != Coefficients()
    assert set(found.analysis) == set(TABLE)
    assert all(found.analysis[name] != TABLE[name] for name in TABLE), "measured"
    made = json.loads(path.read_text())["made"]
    assert made["engine"] == "mxnet" and made["versions"]["mxnet"] == mx.__version__
    printed = capsys.readouterr().out
    parts = ("analysis depth", "backward", "backward of steps", "capture", "compute", "gather", "inputs", "results")
    assert all(f"\n{part}: " in printed for part in parts)
    assert printed.endswith(f"stored in {path}\n")
    assert costs.cost_model("mxnet", engine.VERSIONS).coefficients == found


def test_an_interrupted_calibration_stores_nothing(
    process: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gluonjit.hybrid.run.calibration._perform", interrupted)
    before = costs.cost_model("mxnet", engine.VERSIONS)
    assert main(["calibrate", "--seconds", "1"]) == 130
    assert "interrupted, nothing was stored" in capsys.readouterr().err
    assert not list(process.iterdir())
    assert costs.cost_model("mxnet", engine.VERSIONS) is before


def test_a_file_that_cannot_be_written_is_told_with_the_next_step(
    process: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from gluonjit.analysis.costs.measured import Measured

    monkeypatch.setattr("gluonjit.commands.calibrate.measure", lambda *given: Measured())
    (process / "file").write_text("")
    assert main(["calibrate", "--output", str(process / "file" / "costs.json")]) == 1
    assert "Next: --output PATH" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["0", "-3", "nan", "inf", "many"])
def test_seconds_are_a_number_above_zero(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["calibrate", "--seconds", given])
    assert ended.value.code == 2
    assert "--seconds" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5, "2.5 s"), (1.25e-3, "1.25 ms"), (3e-6, "3 µs"), (4.56e-10, "456 ps"), (0.0, "0")]
)
def test_times_are_printed_with_three_digits_and_a_unit(seconds: float, text: str) -> None:
    assert calibrate.readable(seconds) == text
