"""Eager as one of the ways: what is kept by what was measured, and what trials may lose."""

from __future__ import annotations

import pytest
from interrupts import interrupted

from gluonjit.analysis.pace import Pace, StretchOutcome

CALLS = 32


def run(pace: Pace, eager: float, batched: float, minibatches: int, traced: int = 0) -> list[bool]:
    """The ways of so many minibatches, where calls take so many seconds; the first trials trace something."""
    ways = []
    for _ in range(minibatches):
        way = pace.wants_eager
        unlike = not way and traced > 0
        traced -= not way
        each = eager if way else batched + eager * unlike
        pace.add(StretchOutcome(way, CALLS * each, CALLS, eager if way else batched, unlike=unlike))
        ways.append(way)
    return ways


def abandoning(pace: Pace, factor: float, minibatches: int, size: int = CALLS, trace: float = 0.0) -> list[float]:
    """Seconds of minibatches whose trials are abandoned when they have spent what they may; calls take 1 ms eagerly.

    The first batched call of each trial takes `trace` seconds more.
    """
    found = []
    for _ in range(minibatches):
        seconds = calls = 0.0
        way, whole = pace.wants_eager, True
        while calls < size:
            whole = whole and (way or not pace.spent(seconds, int(calls)))
            calls += 1
            seconds += 1e-3 * (1.0 if way or not whole else factor) + trace * (not way and calls == 1)
        pace.add(StretchOutcome(way, seconds, size, 1e-3 * factor, unlike=trace > 0 and not way, whole=whole))
        found.append(seconds)
    return found


@pytest.mark.parametrize("factor", [0.2, 0.7, 0.9])
def test_batches_that_are_faster_are_kept(factor: float) -> None:
    pace = Pace(False)
    ways = run(pace, 1e-3, factor * 1e-3, 20, traced=1)
    assert pace.decided is False and not any(ways[-8:])
    assert "runs batched" in str(pace.summary())


@pytest.mark.parametrize("factor", [1.0, 1.2, 1.9, 2.5, 40.0])
def test_batches_that_are_no_faster_are_not(factor: float) -> None:
    pace = Pace(True)
    ways = run(pace, 1e-3, factor * 1e-3, 40, traced=1)
    assert all(ways[-8:])
    assert pace.decided or factor > 2  # else no second trial was worth it so far


@pytest.mark.parametrize("trace", [0.0, 0.03])
@pytest.mark.parametrize("factor", [1.5, 4.0, 40.0, 400.0])
def test_what_looks_lose_is_bounded(factor: float, trace: float) -> None:
    """The first twenty minibatches and two hundred together, but for the call that was under way."""
    pace = Pace(True)
    spent = abandoning(pace, factor, 200, trace=trace)
    more = (factor * 1e-3 + trace) * (pace.trials or 2)
    assert sum(spent[:20]) < 1.5 * 20 * CALLS * 1e-3 + more
    assert sum(spent) < 1.15 * 200 * CALLS * 1e-3 + more


def test_one_sample_at_a_time_ends_in_eager() -> None:
    pace = Pace(True)
    spent = abandoning(pace, 8.0, 20, size=1, trace=0.02)
    assert sum(spent) < 1.5 * 20 * 1e-3  # no trial yet: it has to be worth a trace
    spent += abandoning(pace, 8.0, 980, size=1)
    assert pace.decided and sum(spent) < 1.15 * 1000 * 1e-3


def test_hopeless_whatever_was_traced() -> None:
    """A trial that was abandoned, and would have been far slower without what it traced, need not be seen whole."""
    pace = Pace(False)
    abandoning(pace, 30.0, 100, trace=0.01)
    assert pace.decided is True and not pace.batched


@pytest.mark.parametrize(("rate", "trials"), [(10e-3, 2), (0.0, 8)])
def test_few_calls_of_an_abandoned_trial_say_nothing(rate: float, trials: int) -> None:
    """The first calls do much that comes once, beside traces."""
    pace = Pace(False)
    while pace.decided is None:
        way = pace.wants_eager
        pace.add(StretchOutcome(way, CALLS * 1e-3, CALLS, 0.0 if way else rate, unlike=not way, whole=way))
    assert pace.decided is True and pace.trials == trials


def test_a_trial_whose_calls_alone_are_slower_need_not_be_seen_whole() -> None:
    """What follows the calls is part of what eager calls take, and comes on top here; tracing does not count."""
    pace = Pace(True)
    run(pace, 1e-3, 1e-3, 2)
    slow, fast = 1.5e-3, 1.1e-3
    assert not pace.loses([slow] * 7) and not pace.loses([fast] * 20) and not pace.loses([slow] * 4 + [fast] * 5)
    assert pace.loses([fast] * 4 + [slow] * 5) == slow
    assert pace.loses([5e-3] * 3) == 5e-3 and not pace.loses([5e-3] * 2 + [slow])  # far slower, each
    trials = 0
    while pace.decided is None:
        way = pace.wants_eager
        trials += not way
        pace.add(StretchOutcome(way, CALLS * 1e-3, CALLS, 2e-3, unlike=not way, whole=way, loses=0.0 if way else slow))
    assert pace.decided is True and trials == 2


def test_one_trial_whose_calls_alone_are_hopeless_decides() -> None:
    pace = Pace(True)
    run(pace, 1e-3, 1e-3, 2)
    pace.add(StretchOutcome(False, CALLS * 1e-3, CALLS, unlike=True, whole=False, loses=5e-3))
    assert pace.decided is True


def test_trials_that_are_slower_only_now_and_then_come_to_an_end() -> None:
    pace, count = Pace(False), 0
    while pace.decided is None:
        way = pace.wants_eager
        count += not way
        loses = 0.0 if way or count % 2 else 1.3e-3
        pace.add(StretchOutcome(way, CALLS * 1e-3, CALLS, 1e-3, whole=not loses, loses=loses))
    assert pace.decided is True and count == 4


def test_a_trace_in_every_minibatch_counts() -> None:
    pace = Pace(False)
    ways = run(pace, 1e-3, 0.3e-3, 200, traced=1000)  # which makes it 1.3 times as slow
    assert pace.decided is True and all(ways[-50:])
    pace = Pace(False)
    while pace.decided is None:
        way = pace.wants_eager
        pace.add(StretchOutcome(way, CALLS * (1e-3 if way else 0.8e-3), CALLS, unlike=not way))
    assert pace.decided is False  # it is faster, and traces


def test_compared_anew_where_minibatches_have_another_size() -> None:
    pace = Pace(True)
    run(pace, 1e-3, 0.5e-3, 20)
    assert pace.decided is False
    for _ in range(3):
        pace.add(StretchOutcome(False, 4 * 3e-3, 4))  # few samples at once: no longer faster
    assert pace.decided is None
    for _ in range(20):
        way = pace.wants_eager
        pace.add(StretchOutcome(way, 4 * (1e-3 if way else 3e-3), 4))
    assert pace.decided is True


def test_compared_anew_where_batches_have_become_slow() -> None:
    pace = Pace(True)
    run(pace, 1e-3, 0.7e-3, 20)
    assert pace.decided is False
    ways = run(pace, 1e-3, 2.5e-3, 20)
    assert pace.decided is True and all(ways[-5:])


def test_compared_anew_after_a_long_time_and_then_after_a_longer_one() -> None:
    pace = Pace(True)
    run(pace, 1e-3, 3e-3, 20)
    assert pace.decided is True
    ways = run(pace, 1e-3, 0.5e-3, 300)  # batching has become faster
    assert pace.decided is False and not ways[-1] and pace.again == 512


def test_one_slow_minibatch_changes_nothing() -> None:
    pace = Pace(False)
    run(pace, 1e-3, 0.7e-3, 20)
    pace.add(StretchOutcome(False, 1.0, CALLS))
    run(pace, 1e-3, 0.7e-3, 2)
    assert pace.decided is False


def test_looks_at_other_ways_to_batch_have_a_budget() -> None:
    """None before it is decided that batches are faster; then until they have lost what they may, and later again."""
    pace = Pace(False)
    assert not pace.may_try
    run(pace, 1e-3, 0.5e-3, 20)
    assert pace.decided is False and pace.may_try
    while pace.may_try:
        pace.add(StretchOutcome(False, CALLS * 5e-3, CALLS, explores=True))
    assert pace.decided is False and pace.unit == 0.5e-3
    run(pace, 1e-3, 0.5e-3, 500)
    assert pace.may_try


def test_eager_stretches_between_looks_need_not_be_timed() -> None:
    """Where the next trial has to wait until it may lose something."""
    pace = Pace(True)
    for _ in range(2):
        assert pace.wants_eager and not pace.settled
        pace.add(StretchOutcome(True, CALLS * 1e-3, CALLS))
    pace.add(StretchOutcome(False, CALLS * 11e-3, CALLS, 2e-3, unlike=True, whole=False))
    assert pace.wants_eager and not pace.settled  # it is eager's turn
    pace.add(StretchOutcome(True, CALLS * 1e-3, CALLS))
    waited = 0
    while pace.settled and waited < 200:
        waited += 1
        pace.add(StretchOutcome(True, 0.0, CALLS))
    assert 20 < waited < 200 and not pace.wants_eager and len(pace.eager) == 3


@pytest.mark.parametrize(("now", "anew"), [(1e-3, False), (1.3e-3, False), (0.25e-3, True), (4e-3, True)])
def test_a_kept_choice_is_compared_anew_where_eager_calls_take_another_time(now: float, anew: bool) -> None:
    """An earlier process may have timed other things of the program's, between its calls or beside them."""
    pace = Pace(False)
    kept = {"eagerly": True, "eager": 1e-3, "batched": 1.05e-3, "calls": CALLS, "way": "cell/depth"}
    pace.restore(kept, "a day")
    assert not pace.settled
    for _ in range(3):
        assert pace.wants_eager and pace.compares
        pace.add(StretchOutcome(True, CALLS * now, CALLS))
    assert (pace.decided is None) is anew
    assert pace.settled is not anew
    run(pace, now, 0.3 * now, 20)
    assert (pace.decided is False) is anew


def test_one_cold_look_does_not_decide_for_eager() -> None:
    """The first batch that ran whole still found everything cold: it was slower than eager, and later ones are not."""
    pace = Pace(False)
    cold, ways = 2.3e-3, []
    for _ in range(40):
        way = pace.wants_eager
        each = 1e-3 if way else cold
        cold = cold if way else 0.7e-3
        pace.add(StretchOutcome(way, CALLS * each, CALLS, each))
        ways.append(way)
    assert pace.decided is False and not any(ways[-8:])


def test_a_batch_that_was_traced_in_tells_how_many_calls_come_together() -> None:
    """A trial that follows may lose the time of these minibatches, not of longer ones that were assumed."""
    pace = Pace(False)
    for calls in (3, 32, 5):
        pace.add(StretchOutcome(True, 0.1 * calls, calls))
    assert pace.calls == 32
    pace.add(StretchOutcome(False, 2.0, 4, 0.2, unlike=True, whole=False))
    assert pace.calls == 32
    pace.add(StretchOutcome(False, 2.0, 8, 0.2, unlike=True))
    assert pace.calls == 8 and pace.grant == pytest.approx(10 * 8 * 0.1)


def test_a_trial_that_is_faster_even_with_its_traces_counts() -> None:
    """What comes once only makes it slower: such a trial is no proof against batches, but one for them."""
    pace = Pace(True)
    for _ in range(12):
        way = pace.wants_eager
        each = 1e-3 if way else 0.7e-3
        pace.add(StretchOutcome(way, CALLS * each, CALLS, 0.5e-3, unlike=not way))
        if pace.decided is not None:
            break
    assert pace.decided is False and pace.trials == 2


def loops(pace: Pace, shapes: int, iterations: float, whole: float, minibatches: int) -> list[bool]:
    """The trials in which loops were captured whole; calls of so many shapes take these milliseconds, eagerly one."""
    trials = []
    beside = Pace(True)
    for _ in range(minibatches):
        pace.begin(beside)
        pace.loops = True
        pace.shapes.extend(k % shapes for k in range(CALLS))
        way = pace.wants_eager
        each = 1e-3 * (1.0 if way else whole if pace.whole else iterations)
        if not way:
            trials.append(pace.whole)
        pace.add(StretchOutcome(way, CALLS * each, CALLS, each))
    return trials


def test_loops_of_few_shapes_are_captured_whole_at_once() -> None:
    pace = Pace(False)
    assert all(loops(pace, 7, 3.0, 0.4, 20)) and pace.decided is False


def test_loops_of_some_shapes_are_captured_whole_where_iterations_are_slower() -> None:
    pace = Pace(False)
    trials = loops(pace, 14, 3.0, 0.4, 20)
    assert not trials[0] and trials[-1] and pace.decided is False
    assert not any(loops(Pace(False), 14, 0.5, 0.4, 20))


def test_iterations_are_tried_where_whole_loops_are_slower() -> None:
    pace = Pace(False)
    trials = loops(pace, 4, 0.5, 2.0, 20)
    assert trials[0] and not trials[-1] and pace.decided is False


def test_single_calls_do_not_change_how_loops_are_captured() -> None:
    """The first one of a shape that is slow finds everything cold."""
    pace = Pace(False)
    pace.whole = pace.loops = True
    pace.shapes.extend([0] * CALLS)
    for _ in range(8):
        pace.add(StretchOutcome(True, 1e-3, 1, 1e-3))
    pace.add(StretchOutcome(False, 5e-3, 1, 2e-3, unlike=True))
    assert pace.whole and not pace.turned


def test_loops_that_are_slower_in_any_way_run_eagerly() -> None:
    pace = Pace(False)
    loops(pace, 4, 3.0, 2.0, 60)
    assert pace.decided


@pytest.mark.parametrize("shape", [None, 0])
def test_loops_of_no_shape_or_many_are_not_captured_whole(shape: object) -> None:
    pace = Pace(False)
    for number in range(40):
        pace.begin(Pace(True))
        pace.loops = True
        pace.shapes.extend(shape if shape is None else number * CALLS + k for k in range(CALLS))
        way = pace.wants_eager
        pace.add(StretchOutcome(way, CALLS * (1e-3 if way else 3e-3), CALLS, 1e-3 if way else 3e-3))
        assert not pace.whole
    assert pace.decided


def test_the_other_phase_begins_as_the_first_one_runs() -> None:
    training, inference = Pace(True), Pace(False)
    loops(training, 7, 3.0, 0.4, 20)
    inference.begin(training)
    assert inference.whole


def test_the_way_to_capture_loops_is_kept() -> None:
    pace, later = Pace(False), Pace(False)
    loops(pace, 7, 3.0, 0.4, 20)
    state = pace.saved_state()
    assert state is not None
    later.restore(state, "a day")
    assert later.whole


def test_what_was_measured_on_a_busy_machine_is_compared_again() -> None:
    pace = Pace(False)
    run(pace, 60e-3, 40e-3, 12)
    assert pace.decided is False
    run(pace, 17e-3, 18e-3, 60)
    assert pace.decided
    steady = Pace(False)
    assert not any(run(steady, 60e-3, 40e-3, 12)[-4:]) and not any(run(steady, 50e-3, 30e-3, 60))
    far = Pace(False)
    assert not any(run(far, 60e-3, 12e-3, 12)[-4:]) and not any(run(far, 30e-3, 5e-3, 60))  # eager cannot catch up


def test_loops_of_many_shapes_are_captured_whole_where_they_run_together() -> None:
    pace = Pace(False)
    assert [pace.joins(joined) for joined in (False, False, True, True)] == [True] * 4 and pace.whole
    assert [pace.joins(False) for _ in range(4)] == [True, False, False, False] and not pace.whole


@pytest.mark.parametrize("joined", [False, True])
def test_loops_of_few_shapes_are_captured_whole_however_they_run(joined: bool) -> None:
    pace = Pace(False)
    loops(pace, 7, 3.0, 0.4, 20)
    assert all([pace.joins(joined) for _ in range(8)])


def test_loops_that_run_together_may_be_slow_at_first_but_are_not_for_long() -> None:
    pace = Pace(False)
    pace.loops = True
    run(pace, 1e-3, 1e-3, 2)
    for slow, turned in ((2.0, False), (2.0, True)):
        assert pace.joins(True)
        pace.add(StretchOutcome(False, CALLS * slow * 1e-3, CALLS, slow * 1e-3))
        assert pace.turned is turned
    assert not pace.joins(True)


def test_an_interrupt_where_ways_are_compared_again_leaves_no_decision_without_its_times() -> None:
    pace, lines = Pace(True), 0
    run(pace, eager=1.0, batched=0.5, minibatches=30)
    for _ in interrupted(lambda: pace.compare_again(), 1):
        pace.saved_state()
        run(pace, eager=1.0, batched=0.5, minibatches=30)
        assert pace.decided is False
        lines += 1
    assert lines > 10


def test_batches_that_were_kept_wait_for_no_bound_when_they_are_compared_anew() -> None:
    """They take less and less, so eager calls might, too, while the first trial has lost all that may be lost."""
    pace = Pace(True)
    run(pace, 1e-3, 0.9e-3, 16)
    assert pace.decided is False
    pace.lost = 10 * pace.grant
    ways = run(pace, 1e-3, 0.5e-3, 60)
    assert pace.allowed < 0 and pace.decided is False and any(ways)
    assert ways[-20:] == [False] * 20


def test_a_model_goes_on_where_another_one_of_its_sort_has_come_to() -> None:
    pace, trials = Pace(True), 0
    for _ in range(100):
        later = Pace(True)
        later.follow(pace)
        assert later.trials == trials and (later.seconds, later.lost) == (pace.seconds, pace.lost)
        if later.decided is not None:
            break
        ways = run(later, 1e-3, 0.9e-3, 2, traced=1)
        assert pace.trials == trials  # which has its own numbers
        trials, pace = trials + ways.count(False), later
        if pace.decided is not None:
            break
    assert pace.decided is True and trials == 8  # as each model traces


@pytest.mark.parametrize("what", ["decided", "pinned"])
def test_a_model_does_not_follow_what_is_decided_or_how_another_one_is_used(what: str) -> None:
    pace, later = Pace(True), Pace(True)
    run(pace, 1e-3, 0.9e-3, 3)
    setattr(pace, what, True)
    later.follow(pace)
    assert not later.eager and later.decided is None and not later.pinned
