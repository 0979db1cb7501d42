"""Mechanisms that can be turned off: each is, and the table says what fails or loses then."""

from __future__ import annotations

from typing import Any

import pytest
from frameworks_support import INSTALLED

import gluonjit
from experiments.coverage import FORCED
from experiments.mechanisms.mechanism import PACKAGE, Mechanism
from experiments.mechanisms.page import fails, line, loses
from experiments.mechanisms.table import MECHANISMS
from experiments.mechanisms.working import Worker, differences


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda each: each.name)
def test_a_mechanism_has_files_and_options_that_there_are(mechanism: Mechanism) -> None:
    assert [name for name in mechanism.files if not (PACKAGE / name).exists()] == []
    assert bool(mechanism.paths()) == bool(mechanism.files)
    gluonjit.Options().updated("hybridize()", {**FORCED, **mechanism.without})
    gluonjit.Options().updated("hybridize()", {**FORCED, **mechanism.on})


def test_names_are_different() -> None:
    assert len({mechanism.name for mechanism in MECHANISMS}) == len(MECHANISMS)


def every_patch() -> Mechanism:
    """What turns all of them off."""
    found: dict[str, dict[str, Any]] = {"returns": {}, "passes": {}, "empties": {}}
    for mechanism in MECHANISMS:
        for sort, patches in found.items():
            patches.update(getattr(mechanism, sort))
    return Mechanism("all", (), **found)


def test_everything_that_is_patched_is_there() -> None:
    """In a process of its own; a program runs there, right, without any of it."""
    name = f"readme/{INSTALLED[0]}"
    worker = Worker(every_patch())
    try:
        assert name in worker.ask("names", "readme")
        found = worker.ask("measure", name, FORCED)
    finally:
        worker.close()
    assert found["launches"] > 0 and not found["wrong"]


def test_an_error_of_a_program_is_handed_over() -> None:
    worker = Worker(None)
    try:
        with pytest.raises(RuntimeError, match="KeyError: 'nowhere'"):
            worker.ask("measure", "nowhere", FORCED)
        assert worker.ask("names", "readme")
    finally:
        worker.close()


FINE = {"launches": 10, "wrong": []}


@pytest.mark.parametrize(
    ("without", "failing", "losing"),
    [
        (FINE, False, False),
        ({"launches": 12, "wrong": []}, False, True),
        ({"launches": 10, "wrong": ["result differs"]}, True, False),
        ({"error": "ValueError: no"}, True, False),
    ],
)
def test_what_fails_and_what_loses(without: dict[str, Any], failing: bool, losing: bool) -> None:
    row = {"with": FINE, "without": without}
    assert (fails(row), loses(row)) == (failing, losing)
    assert not fails({"with": {"error": "ValueError: no"}, "without": without})


@pytest.mark.parametrize("when", ["first", "later"])
def test_what_takes_longer_loses_if_most_rounds_say_so(when: str) -> None:
    row = {"with": FINE, "without": FINE}
    assert loses({**row, when: {"median": 1.3, "low": 1.2}}) and not loses({**row, when: {"median": 1.3, "low": 1.0}})


def test_a_row_of_the_page() -> None:
    mechanism = Mechanism("unrolling", (), returns={"a:b": None})
    cells = {"zoo": {"zoo/a": {"with": FINE, "without": {"launches": 20, "wrong": []}}}, "habits": {}}
    assert line(mechanism, cells) == "| unrolling |  | 1 zoo | 0 | 1 | 10, 20 |  | zoo/a |"
    cells["zoo"]["zoo/a"]["first"] = {"median": 1.25, "low": 1.0}
    assert line(mechanism, cells) == "| unrolling |  | 1 zoo | 0 | 1 | 10, 20 | first 1.25 (1) | zoo/a |"


@pytest.mark.parametrize(("one", "other"), [(1.0, 1.1), ([1.0], [1.0, 2.0]), ({"a": 1.0}, {"a": 1.1}), ("a", "b")])
def test_results_that_differ_are_found(one: Any, other: Any) -> None:
    assert differences(one, other, "zoo/a") and not differences(other, other, "zoo/a")
