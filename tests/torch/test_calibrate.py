"""`python -m gluonjit calibrate --engine torch` measures, stores and prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from gluonjit.__main__ import main
from gluonjit.analysis.costs import Coefficients


def test_a_calibration_of_torch_is_stored_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "costs.json"
    assert main(["calibrate", "--engine", "torch", "--seconds", "0.2", "--output", str(path)]) == 0
    assert Coefficients.load(path) != Coefficients()
    shown = capsys.readouterr().out
    assert "measuring torch for about 0.2 s" in shown and f"stored in {path}" in shown
