"""The page about the zoo has all models on each engine, and models are written as if there were no batching."""

from __future__ import annotations

import pytest
from zoo_page import LINES, PAGE

from experiments.zoo.cli import BATCH_SIZE, ENGINES, NAMES, SEED
from experiments.zoo.models import source_of

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
    assert 45 <= source.count("\n") <= 150
