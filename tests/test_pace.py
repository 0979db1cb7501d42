"""Eager as one of the ways: what is kept by what was measured, and that results do not depend on it."""

from __future__ import annotations

import pytest

from gluonjit.analysis.pace import Pace

CALLS = 32


def run(pace: Pace, eager: float, batched: float, minibatches: int, traced: int = 0) -> list[bool]:
    """The ways of so many minibatches, where calls take so many seconds; the first looks trace something."""
    if not pace.least:
        pace.probed(eager)
    ways = []
    for _ in range(minibatches):
        way = pace.wants_eager
        usual = way or traced <= 0
        traced -= not way
        pace.add(way, CALLS * (eager if way else batched if usual else 4 * batched), CALLS, usual)
        ways.append(way)
    return ways


@pytest.mark.parametrize("factor", [0.2, 0.7, 0.9])
def test_batches_that_are_faster_are_kept(factor: float) -> None:
    pace = Pace(False)
    ways = run(pace, 1e-3, factor * 1e-3, 20, traced=1)
    assert pace.decided is False and not any(ways[-8:])
    assert "runs batched" in str(pace.shown())


@pytest.mark.parametrize("factor", [1.2, 1.9, 2.5, 40.0])
def test_batches_that_are_slower_are_not(factor: float) -> None:
    pace = Pace(True)
    ways = run(pace, 1e-3, factor * 1e-3, 40, traced=1)
    assert all(ways[-8:])
    assert (pace.decided is True) == (factor < 5)  # else no second look was ever worth it


@pytest.mark.parametrize("factor", [1.5, 4.0, 40.0, 400.0])
@pytest.mark.parametrize("training", [False, True])
def test_what_looks_lose_is_bounded(factor: float, training: bool) -> None:
    """A look that is abandoned when its budget is spent: the first twenty minibatches and all of them together."""
    pace, eager, spent = Pace(training), 1e-3, []
    pace.probed(eager / (3 if training else 1))
    for _ in range(200):
        seconds = calls = 0.0
        way, whole = pace.wants_eager, True
        while calls < CALLS:
            calls += 1
            seconds += eager if way or not whole else factor * eager
            whole = whole and (way or not pace.spent(seconds, int(calls)))
        pace.add(way and whole, seconds, CALLS, way, whole)
        spent.append(seconds)
    assert sum(spent[:20]) < 1.5 * 20 * CALLS * eager + factor * eager  # one call more than may be lost
    assert sum(spent) < 1.15 * 200 * CALLS * eager + factor * eager


def test_compared_anew_where_minibatches_have_another_size() -> None:
    pace = Pace(True)
    run(pace, 1e-3, 0.5e-3, 20)
    assert pace.decided is False
    for _ in range(3):
        pace.add(False, 4 * 3e-3, 4)  # few samples at once: no longer faster
    assert pace.decided is None
    for _ in range(20):
        way = pace.wants_eager
        pace.add(way, 4 * (1e-3 if way else 3e-3), 4)
    assert pace.decided is True


def test_compared_anew_where_batches_have_become_slow() -> None:
    pace = Pace(True)
    run(pace, 1e-3, 0.7e-3, 20)
    assert pace.decided is False
    ways = run(pace, 1e-3, 2.5e-3, 20)
    assert pace.decided is True and all(ways[-5:])


def test_one_slow_minibatch_changes_nothing() -> None:
    pace = Pace(False)
    run(pace, 1e-3, 0.7e-3, 20)
    pace.add(False, 1.0, CALLS)
    run(pace, 1e-3, 0.7e-3, 2)
    assert pace.decided is False


def test_where_something_is_traced_in_every_look_it_runs_eagerly() -> None:
    pace = Pace(False)
    ways = run(pace, 1e-3, 0.3e-3, 60, traced=1000)
    assert pace.decided is True and ways[-1]
