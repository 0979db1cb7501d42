"""The command `demo`, where no framework is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.test_environments import run


def numbers(text: str) -> dict[str, list[float]]:
    rows = [line.rsplit(None, 3) for line in text.splitlines() if line.startswith("losses")]
    return {name.strip(): [float(part.replace(",", "")) for part in parts] for name, *parts in rows}


@pytest.mark.parametrize("missing", ["", "matplotlib"])
def test_it_needs_numpy_alone_and_batched_is_equal(tmp_path: Path, missing: str) -> None:
    figure = tmp_path / "demo.png"
    hidden = ["mxnet", "torch", *missing.split()]
    done = run(tmp_path, hidden, "-m", "gluonjit", "demo", "--samples", "12", "--figure", str(figure))
    assert (done.returncode, done.stderr) == (0, "")
    found = numbers(done.stdout)
    assert len(found) == 4
    for what in ("losses", "losses and gradients"):
        one, together = found[f"{what}, one by one"], found[f"{what}, batched"]
        assert together[0] < one[0] / 2 and min(one[1], together[1]) > 0
        assert together[2] == pytest.approx(one[2], rel=1e-5)
    if missing:
        assert "no figure" in done.stdout and not figure.exists()
    elif figure.exists():
        assert figure.read_bytes()[:4] == b"\x89PNG"
