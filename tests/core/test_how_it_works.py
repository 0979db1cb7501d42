"""The idea in one file: it runs, it is short, and it would notice a rule that is wrong."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PATH = Path(__file__).resolve().parents[2] / "docs" / "how_it_works.py"
SOURCE = PATH.read_text(encoding="utf-8")


def run(source: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60)


def test_it_is_short_and_needs_numpy_alone() -> None:
    assert len(SOURCE.splitlines()) <= 200
    modules = re.findall(r"^(?:from|import) (\w+)", SOURCE, flags=re.MULTILINE)
    assert set(modules) - set(sys.stdlib_module_names if sys.version_info >= (3, 10) else modules) <= {"numpy"}


def test_batched_is_equal_to_one_by_one() -> None:
    done = subprocess.run([sys.executable, str(PATH)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    samples, calls, nodes, launches = map(int, re.findall(r"\d+", done.stdout))
    assert launches < nodes / 4 and nodes < calls and samples == 25


def test_it_names_folders_that_are_there() -> None:
    named = set(re.findall(r"gluonjit/[\w/*]+(?:\.py)?", SOURCE))
    assert len(named) >= 5
    assert all(list(PATH.parents[1].glob(name)) for name in named), named


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("(1 - Y * Y)", "(1 - Y)"),
        ("[G * y, G * x]", "[G * y, G * y + G]"),
        ("[G, -G]", "[G, G]"),
        ("x @ W.T", "(x @ W.T + 1)"),
        ("G.sum(0)", "G.mean(0)"),
        ("np.add.at(grads[arena], rows, gradient)", "grads[arena][rows] += gradient"),
        ("for step in reversed(steps)", "for step in steps"),
        ("    for step in steps:", "    for step in steps[::-1]:"),
        ("(*sample, graph.p)", "(*samples[0], graph.p)"),
    ],
)
def test_what_is_wrong_is_noticed(right: str, wrong: str) -> None:
    assert SOURCE.count(right) == 1
    done = run(SOURCE.replace(right, wrong))
    assert done.returncode == 1 and "AssertionError: \nNot equal" in done.stderr
