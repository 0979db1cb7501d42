"""The table of calls, nodes and launches: the programs of the collection run in no more launches than it says.

All programs of the zoo and the README, and some of the habits; `python -m experiments.coverage` compares all.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
from frameworks_support import INSTALLED

from experiments.coverage.collection import collection
from experiments.coverage.counting import Counts, measure
from experiments.coverage.program import Program
from experiments.coverage.table import faults, read, updated, worse

HABITS = 10  # one in so many is run here
ROWS = read()


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def programs(engine: str, source: str) -> list[Program]:
    return [program for program in collection(source) if program.name.split("/")[1] == engine]


@pytest.mark.parametrize("source", ["zoo", "readme"])
def test_programs_are_as_well_batched_as_the_table_says(engine: str, source: str) -> None:
    counted = {program.name: measure(program) for program in programs(engine, source)}
    assert not list(faults(ROWS, counted)), "python -m experiments.coverage --write --because REASON"


def test_some_habits_are_as_well_batched_as_the_table_says(engine: str) -> None:
    counted = {program.name: measure(program) for program in programs(engine, "habits")[::HABITS]}
    assert len(counted) >= 50
    assert not list(faults(ROWS, counted)), "python -m experiments.coverage --write --because REASON"


def test_the_table_has_each_program_once_and_no_other() -> None:
    known = {name for name in ROWS if not name.startswith("programs/") and name.split("/")[1] in INSTALLED}
    assert known == {program.name for source in ("zoo", "readme", "habits") for program in collection(source)}


ROW = {"calls": 9, "nodes": 8, "launches": 4, "flushes": 1, "reasons": ["part: it prints"]}


@pytest.mark.parametrize(
    ("now", "found"),
    [
        (Counts(9, 8, 4, 1, ("part: it prints",)), []),
        (Counts(9, 9, 3, 1, ()), []),
        (Counts(9, 7, 4, 1, ()), ["7 nodes, not 8"]),
        (Counts(9, 8, 5, 1, ()), ["5 launches, not 4"]),
        (Counts(9, 8, 4, 1, ("part: it sleeps",)), ["no node: part: it sleeps"]),
    ],
)
def test_what_is_worse_is_found(now: Counts, found: list[str]) -> None:
    assert worse(ROW, now) == found
    assert list(faults({"a": ROW}, {"a": now})) == ([f"a: {found[0]}"] if found else [])


def test_a_program_without_a_row_is_found() -> None:
    assert list(faults({}, {"a": Counts(1, 1, 1, 1, ())})) == ["a: it has no row: --write"]


def test_a_reason_stays_with_the_row_that_is_worse() -> None:
    now = {"a": Counts(9, 7, 4, 1, ()), "b": Counts(9, 9, 4, 1, ())}
    rows = updated({"a": ROW, "b": ROW}, now, "it printed too little")
    assert rows["a"]["changed"] == ["it printed too little"] and "changed" not in rows["b"]
    assert updated(rows, now, "")["a"]["changed"] == ["it printed too little"]
    assert not list(faults(rows, now))
