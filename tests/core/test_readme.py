"""The README keeps its word: its example runs, its commands and links exist."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


def test_the_example_comes_early() -> None:
    before = README[: README.index("hybridize(dynamic_batch=True)")]
    assert before.count("\n") < 50
    assert README.count("\n") < 150


@pytest.mark.parametrize(("framework", "number", "read"), [("mxnet", 0, "asscalar"), ("torch", 1, "item")])
def test_the_examples_run_with_and_without_batching(framework: str, number: int, read: str) -> None:
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    code = blocks("python")[number] + f"print('sum of losses', total.sum().{read}())"
    ways = [code.replace("dynamic_batch=True", f"dynamic_batch={batched}") for batched in (True, False)]
    assert ways[0] != ways[1]
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", "\n".join(f"exec({way!r}, {{}})" for way in ways)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.count("sum of losses") == 2, done.stderr


def test_every_make_target_is_there() -> None:
    targets = re.findall(r"^make (\w+)", "\n".join(blocks("bash")), flags=re.MULTILINE)
    assert targets == ["experiment", "test"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for target in targets)


def test_every_extra_is_there() -> None:
    extras = set(re.findall(r"gluonjit\[(\w+)\]", README))
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert all(re.search(rf"^{extra} = \[", settings, flags=re.MULTILINE) for extra in extras)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []


def test_the_import_names_exist() -> None:
    for name in re.findall(r"^\| `[^|]*\| `(gluonjit[\w.]*)` \|", README, flags=re.MULTILINE):
        assert importlib.util.find_spec(name) is not None
