"""The measurement of peepholes runs every row of the table with and without."""

from __future__ import annotations

import json
from pathlib import Path

import mxnet  # noqa: F401  # before anything of its engine
import pytest

from experiments.peepholes import ALL, ZEROS, functions, main
from gluonjit.engines.mxnet.peepholes import PEEPHOLES


def test_every_peephole_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "times.json"
    assert main(["--rows", "2", "3", "--width", "4", "--rounds", "1", "--json", str(path)]) == 0
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert [(row["peephole"], row["rows"]) for row in rows] == [
        (name, n) for name in (*functions(), ZEROS, ALL) for n in (2, 3)
    ]
    assert all(row["training"] > 0 and row["forward_without"] > 0 for row in rows)
    assert {row.name for row in PEEPHOLES} <= set(functions())
    assert len(capsys.readouterr().out.splitlines()) == 2 + len(rows)
