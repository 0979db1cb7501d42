"""The recipes of docs/extending.md, done: their code goes into a copy of the checkout, whose tests then run."""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from gluonjit.compiled import ROWS

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").exists())
ENGINE = ROOT / "gluonjit" / "engines" / "numpy"
PLACE = re.compile(r"^(?:#|/\*) ([\w./]+)(?:, after (.*?))?(?: \*/)?$")


def recipe(name: str) -> str:
    """The section of the page with this title."""
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    return page.split(f"\n## {name}\n")[1].split("\n## ")[0]


def blocks(text: str, *languages: str) -> list[str]:
    return [code for language, code in re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL) if language in languages]


def apply(code: str, folder: Path) -> None:
    """Write a block as a file, or put it after the line of a file that its own first line names."""
    first, body = code.split("\n", 1)
    found = PLACE.match(first)
    assert found, f"{first!r} names no file"
    path, after = folder / found[1], found[2]
    if after is None:
        assert not path.exists(), f"{path} is there already"
        path.write_text(body, encoding="utf-8")
        return
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    places = [number for number, line in enumerate(lines) if after in line]
    assert len(places) == 1, f"{after!r} is in {len(places)} lines of {found[1]}"
    lines.insert(places[0] + 1, body)
    path.write_text("".join(lines), encoding="utf-8")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what recipes touch and run."""
    left = shutil.ignore_patterns("__pycache__", ".*")
    for name in ("gluonjit", "experiments", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=left)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, tmp_path / name)
    return tmp_path


def run(command: str, folder: Path) -> str:
    words = shlex.split(command)
    assert words[0] == "python"
    environment = {**os.environ, "PYTHONPATH": str(folder), "GLUONJIT_CACHE": str(folder / "cache")}
    done = subprocess.run([sys.executable, *words[1:]], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def done(name: str, checkout: Path) -> None:
    """Apply a recipe, and run what checks it."""
    text = recipe(name)
    for code in blocks(text, "python", "c"):
        apply(code, checkout)
    for command in [line for code in blocks(text, "bash") for line in code.splitlines()]:
        said = run(command, checkout)
        assert "pytest" not in command or re.search(r"\b[1-9]\d* passed", said), f"{command} tests nothing"


def test_an_operators_row(checkout: Path) -> None:
    pytest.importorskip("torch")
    done("An operator's row", checkout)


def test_a_scheduler(checkout: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("matplotlib")
    done("A scheduler", checkout)
    code = """
        from experiments.fuzz.torch.framework import CHOICES
        from experiments.tradeoff.configurations import configurations
        from experiments.tradeoff.plot import MARKERS
        from gluonjit import Options
        from gluonjit.analysis.costs import Coefficients, CostModel

        Options().updated("batching()", {"scheduler": "widest"})
        assert CostModel(Coefficients()).analysis("widest", 0, 0) == 430e-6, "it is not priced"
        assert CostModel(Coefficients(analysis={})).analysis("widest", 0, 0) == 430e-6, "the calibration is older"
        assert any(way.scheduler == "widest" for way in configurations()), "it is not measured"
        assert len(set(MARKERS.values())) == len(MARKERS) and "widest" in MARKERS, "it is not drawn"
        (values,) = [values for _, name, values in CHOICES.options if name == "scheduler"]
        assert "widest" in values, "it is not fuzzed"
    """
    run(f"python -c {shlex.quote(dedent(code))}", checkout)


@pytest.mark.slow
@pytest.mark.skipif(ROWS is None, reason="gluonjit._rows is not there, or GLUONJIT_PURE is set")
def test_a_row_instruction(checkout: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    setup = checkout / "setup.py"
    setup.write_text(
        setup.read_text(encoding="utf-8").replace('"-O3"', '"-O0"'), encoding="utf-8"
    )  # a third of the time
    others = [path for path in checkout.glob("gluonjit/_*.so") if not path.name.startswith("_rows.")]
    for path in others:
        os.utime(path)  # newer than any source
    before = [path.stat().st_mtime_ns for path in others]
    done("A row instruction", checkout)
    assert [path.stat().st_mtime_ns for path in others] == before, "what had not changed was built again"


def test_a_workload(checkout: Path) -> None:
    pytest.importorskip("mxnet")
    done("A workload", checkout)


def test_the_engine_on_numpy_is_small_and_uses_what_its_recipe_names() -> None:
    texts = [path.read_text(encoding="utf-8") for path in sorted(ENGINE.glob("*.py"))]
    assert sum(len(text.splitlines()) for text in texts) < 800
    named = recipe("An engine")
    for node in [node for text in texts for node in ast.parse(text).body]:
        module = str(node.module) if isinstance(node, ast.ImportFrom) else ""
        if module.startswith("gluonjit") and not module.startswith("gluonjit.engines.numpy"):
            missing = [alias.name for alias in node.names if not re.search(rf"\b{alias.name}\b", named)]
            assert not missing, f"docs/extending.md does not say what these are for: {missing}"
