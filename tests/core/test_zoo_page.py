"""The page about the zoo has all models on each engine, and models are written as if there were no batching."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from zoo_page import LINES, PAGE

from experiments.zoo.cli import BATCH_SIZE, ENGINES, NAMES, SEED
from experiments.zoo.models import source_of

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
EACH = [(engine, name) for engine in ENGINES for name in NAMES]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_documented_table_has_every_model(engine: str) -> None:
    assert tuple(LINES[engine]) == NAMES
    said = "" if engine == "mxnet" else f" --engine {engine}"
    assert f"`python -m experiments.zoo{said} --batch-size {BATCH_SIZE} --seed {SEED}`" in PAGE


@pytest.mark.parametrize(("engine", "name"), EACH)
def test_the_documentation_says_why_a_model_is_far_from_its_bound(engine: str, name: str) -> None:
    ratio = float(LINES[engine][name].split(" | ")[5])
    assert ratio <= 1.5 or f"* `{name}`: " in PAGE


@pytest.mark.parametrize(("engine", "name"), EACH)
def test_a_model_is_written_as_if_there_were_no_batching(engine: str, name: str) -> None:
    source = source_of(engine, name)
    assert "gluonjit" not in source and "hybridize" not in source
    assert 35 <= source.count("\n") <= 150


@pytest.mark.parametrize("engine", ENGINES)
def test_the_example_of_the_readme_is_the_one_in_the_zoo(engine: str) -> None:
    examples = re.findall(r"^```python\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)
    shown = classes(examples[ENGINES.index(engine)])
    assert "TreeModel" in shown and classes(source_of(engine, "readme-tree")) == shown


def classes(source: str) -> dict[str, str]:
    """The classes of a source by name, without docstrings and annotations."""
    found = {}
    for node in [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]:
        for inner in ast.walk(node):
            if isinstance(inner, (ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(inner) is not None:
                del inner.body[0]
            if isinstance(inner, ast.FunctionDef):
                inner.returns = None
            if isinstance(inner, ast.arg):
                inner.annotation = None
        found[node.name] = ast.unparse(node)
    return found
