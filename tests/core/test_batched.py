"""The rule cases that batch, and the calls of the framework by the zoo's cells, are those committed or better."""

from __future__ import annotations

import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from batched import COMMAND, calls, cases
from batched.cases import ALONE, ANY_ROWS, ONE_LAUNCH
from batched.committed import CHANGED, Committed, Differences


def advice(found: Differences) -> str:
    """Return the first lines of what differs, and the command that writes them."""
    return "\n".join(
        [f"{COMMAND}, with --because REASON if one is worse", *[*found.worse, *found.better, *found.new][:40]]
    )


def test_each_rule_case_batches_as_committed(engine: str) -> None:
    found = cases.committed(engine).differences(import_module(f"batched.cases_{engine}").rows())
    assert not any(found), advice(found)


def test_each_cell_of_the_zoo_makes_no_more_calls_than_committed(engine: str) -> None:
    version = import_module(engine).__version__
    if not version.startswith(calls.COUNTED_WITH[engine]):
        pytest.skip(f"calls are those of {engine} {calls.COUNTED_WITH[engine]}, and this is {version}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = calls.committed(engine).differences(calls.rows(engine))
    assert not found.worse and not found.new, advice(found)
    if found.better:
        warnings.warn(f"fewer calls than committed, {COMMAND}: {'; '.join(found.better)}", stacklevel=1)


BEFORE = {"exp": {ONE_LAUNCH: ["(x)"], ANY_ROWS: ["(y)"]}, "log": {ALONE: ["(x)"]}}


@pytest.mark.parametrize(
    ("now", "worse", "better", "new"),
    [
        (BEFORE, [], [], []),
        ({**BEFORE, "log": {ONE_LAUNCH: ["(x)"]}}, [], ["log(x): one launch, not alone"], []),
        ({**BEFORE, "log": {ALONE: ["(x)", "(y)"]}}, [], [], ["log(y): alone, and not committed"]),
        ({**BEFORE, "exp": {ALONE: ["(x)"], ANY_ROWS: ["(y)"]}}, ["exp(x): alone, not one launch"], [], []),
        ({**BEFORE, "exp": {ONE_LAUNCH: ["(x)", "(y)"]}}, ["exp(y): one launch, not any rows"], [], []),
        ({**BEFORE, "log": {}}, ["log(x): there is no such case, and it was alone"], [], []),
    ],
)
def test_cases_that_differ_are_found(now: Any, worse: list[str], better: list[str], new: list[str]) -> None:
    assert cases.differences(BEFORE, now) == (worse, better, new)


def test_of_equal_cases_the_worst_counts() -> None:
    found = cases.rows_of([("exp", "(x)", ANY_ROWS), ("exp", "(x)", ALONE), ("exp", "(x)", ONE_LAUNCH)])
    assert found == {"exp": {ALONE: ["(x)"]}}


@pytest.mark.parametrize(
    ("now", "worse", "better", "new"),
    [
        ({"cell": [9, 4]}, [], [], []),
        ({"cell": [8, 4]}, [], ["cell: [8, 4] calls, not [9, 4]"], []),
        ({"cell": [9]}, [], ["cell: [9] calls, not [9, 4]"], []),
        ({"cell": [9, 4, 3]}, [], ["cell: [9, 4, 3] calls, not [9, 4]"], []),
        ({"cell": [9, 5]}, ["cell: [9, 5] calls, not [9, 4]"], [], []),
        ({"cell": [9, 4, 4, 5]}, ["cell: [9, 4, 4, 5] calls, not [9, 4]"], [], []),
        ({"out": [2]}, ["cell: it does not run as a cell, in [9, 4] calls"], [], ["out: [2] calls, and not committed"]),
    ],
)
def test_cells_that_make_more_calls_are_found(now: Any, worse: list[str], better: list[str], new: list[str]) -> None:
    assert calls.differences({"cell": [9, 4]}, now) == (worse, better, new)


def test_what_is_worse_is_written_with_a_reason_alone(tmp_path: Path) -> None:
    of = Committed(tmp_path / "calls.json", calls.differences)
    of.write({"cell": [9]})
    with pytest.raises(ValueError, match=r"give a reason, --because REASON, for\ncell: \[10\] calls, not \[9\]"):
        of.write({"cell": [10]})
    assert of.read() == {"cell": [9]}
    of.write({"cell": [10]}, "it reads twice")
    assert of.read() == {"cell": [10]}
    assert of._all()[CHANGED] == {"it reads twice": ["cell: [10] calls, not [9]"]}
