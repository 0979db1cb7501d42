"""The command that measures flushes that nobody waits for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments import ahead

GIVEN = ["--workload", "treelstm-builtin", "--limit", "8", "--batch-size", "4", "--turns", "2"]


def test_it_times_both_in_turns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ahead.main([*GIVEN, "--json", str(tmp_path / "ahead.json")]) == 0
    assert "minibatches of 4" in capsys.readouterr().out
    pairs = json.loads((tmp_path / "ahead.json").read_text(encoding="utf-8"))["seconds"]
    assert len(pairs) == 2
    assert all(seconds > 0 for pair in pairs for seconds in pair)


def test_other_numbers_are_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def loop(system: Any, minibatches: Any, wait: bool) -> tuple[float, list[np.ndarray]]:
        return 1.0, [np.array([float(wait)])]

    monkeypatch.setattr(ahead, "loop", loop)
    assert ahead.main(GIVEN) == 1
    assert "gives other numbers" in capsys.readouterr().err
