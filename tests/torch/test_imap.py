"""`gluonjit.imap`: results as they end, while the caller does what it likes in between."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
import torch

import gluonjit
from gluonjit.errors import GluonJITWarning, OptionError
from gluonjit.hybrid.mapping import mapping
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.state import LOCAL
from tests.torch.test_map import Halting, Tree, assert_same, pair, samples, trained

pytest.importorskip("greenlet")


def assert_clean(eager: Any, net: Any) -> None:
    """Nothing is left open, and what comes next is as ever."""
    state = LOCAL.state
    assert (state.hub, state.explicit, state.inside, state.paused) == (None, [], 0, 0)
    assert_same(gluonjit.map(lambda sample: net(*sample), samples()), [eager(*sample) for sample in samples()])


def test_results_come_as_they_end_with_their_numbers() -> None:
    eager, net = pair(Halting)
    expected = [eager(*sample) for sample in samples()]
    found = list(gluonjit.imap(lambda sample: net(*sample), samples()))
    numbers = [number for number, _ in found]
    assert sorted(numbers) == list(range(12))
    assert numbers != sorted(numbers)  # those with a low limit end first
    values = [value for _, value in sorted(found, key=lambda pair: pair[0])]
    assert_same(values, expected)
    assert_same(trained(net, values), trained(eager, expected))


def test_results_have_run_and_no_batch_is_open_between_them() -> None:
    eager, net = pair(Halting)
    expected = [eager(*sample) for sample in samples()]
    for number, value in gluonjit.imap(lambda sample: net(*sample), samples(), in_flight=5):
        before = gluonjit.explain().flushes
        assert LOCAL.state.batch is None and not LOCAL.state.explicit
        assert_same([value.sum()], [expected[number].sum()])
        with gluonjit.batching(), torch.no_grad():
            assert_same([net(*samples()[number])], [expected[number]])
        assert before >= 1
    assert_clean(eager, net)


def test_samples_are_full_while_results_are_read() -> None:
    _, net = pair(Halting)
    under_way = 0

    def run(sample: Any) -> Any:
        nonlocal under_way
        under_way += 1
        found = net(*sample)
        under_way -= 1
        return found

    met = []
    for _, value in gluonjit.imap(run, iter(samples(40)), in_flight=8):
        value.sum().item()
        met.append(under_way)
    assert max(met) == 8
    assert met[:20] == [8] * 20


def test_a_caller_that_stops_early_ends_those_under_way() -> None:
    eager, net = pair(Halting)
    left: list[int] = []

    def run(number: int) -> Any:
        try:
            return net(*samples()[number])
        finally:
            left.append(number)

    found = []
    for number, value in gluonjit.imap(run, range(12), in_flight=6):
        found.append((number, value))
        if len(found) == 3:
            break
    assert len(left) < 12
    assert sorted(left) == list(range(len(left)))
    assert_same([value for _, value in found], [eager(*samples()[number]) for number, _ in found])
    assert_clean(eager, net)


def test_a_caller_that_raises_leaves_nothing_open() -> None:
    eager, net = pair(Halting)
    results = gluonjit.imap(lambda sample: net(*sample), samples(), in_flight=4)
    with pytest.raises(ZeroDivisionError):
        for _ in results:
            1 / 0  # noqa: B018
    assert_clean(eager, net)  # though the generator is still there
    for number, value in results:
        assert_same([value], [eager(*samples()[number])])
    assert_clean(eager, net)


def test_it_goes_on_after_other_work_of_the_caller() -> None:
    eager, net = pair(Halting)
    first, second = [gluonjit.imap(lambda sample: net(*sample), samples(), in_flight=3) for _ in range(2)]
    found: dict[int, Any] = {}
    for (number, value), _ in zip(first, second):
        found[number] = value
        gluonjit.map(lambda sample: net(*sample), samples(4))
    assert_same([found[number] for number in range(12)], [eager(*sample) for sample in samples()])
    assert_clean(eager, net)


def test_samples_without_end_that_read_nothing_come_one_by_one() -> None:
    _, net = pair(Halting)
    begun = []

    def run(number: int) -> Any:
        begun.append(number)
        return net.cell(samples()[0][0], torch.zeros(6))

    for number, _ in gluonjit.imap(run, count(), in_flight=4):
        if number == 9:
            break
    assert len(begun) <= 9 + 8


def test_an_error_is_raised_when_the_rest_has_been_taken() -> None:
    eager, net = pair(Halting)

    def run(number: int) -> Any:
        found = net(*samples()[number])
        if number == 3:
            raise ValueError("no 3")
        return found

    found = []
    with pytest.raises(ValueError, match="no 3"):
        for number, _ in gluonjit.imap(run, range(12)):
            found.append(number)
    assert sorted(found) == [0, 1, 2, *range(4, 12)]
    assert_clean(eager, net)


def test_inside_of_a_sample_it_runs_beside_the_others_and_may_stop() -> None:
    eager, net = pair(Tree)
    ended: list[int] = []

    def branch(scale: float, x: Any) -> Any:
        try:
            return net(x * scale, 1)
        finally:
            ended.append(1)

    def run(x: Any) -> Any:
        for number, value in gluonjit.imap(lambda scale: branch(scale, x), [0.5, 1.5, 2.5]):
            if value.sum() < 100:
                return number, value
        raise AssertionError

    inputs = [x for x, _ in samples()]
    for x, (number, value) in zip(inputs, gluonjit.map(run, inputs)):
        assert_same([value], [eager(x * [0.5, 1.5, 2.5][number], 1)])
    assert len(ended) == 3 * 12
    assert gluonjit.explain().flushes <= 6
    assert LOCAL.state.hub is None


def test_modes_are_those_of_each_sample_and_of_the_caller() -> None:
    _, net = pair(Halting)

    def run(sample: Any) -> bool:
        with torch.no_grad():
            net(*sample).sum().item()
        return torch.is_grad_enabled()

    for _, found in gluonjit.imap(run, samples(), in_flight=3):
        assert found
        assert torch.is_grad_enabled()


def test_in_a_region_of_batching_it_is_part_of_it() -> None:
    eager, net = pair(Halting)
    with gluonjit.batching() as batch:
        results = gluonjit.imap(lambda sample: net(*sample), samples(), in_flight=6)
        found = [next(results)]
        assert LOCAL.state.batch is batch
    found += results  # goes on when the region has ended
    assert batch.report.flushes > 2
    assert_same([value for _, value in sorted(found, key=lambda pair: pair[0])], [eager(*s) for s in samples()])
    assert_clean(eager, net)


def test_it_goes_on_in_the_thread_and_mode_that_it_began_in() -> None:
    eager, net = pair(Halting)
    results = gluonjit.imap(lambda sample: net(*sample), samples(), in_flight=2)
    next(results)
    said: list[str] = []

    def elsewhere() -> None:
        try:
            list(results)
        except RuntimeError as error:
            said.append(str(error))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert "in which it began" in said[0]
    results = gluonjit.imap(lambda sample: net(*sample), samples(), in_flight=2)
    next(results)
    with torch.autocast("cpu"), pytest.raises(RuntimeError, match="in which it began"):
        list(results)
    assert_clean(eager, net)


def test_one_that_outlives_its_sample_is_refused() -> None:
    eager, net = pair(Halting)

    def run(sample: Any) -> Iterator[Any]:
        results = gluonjit.imap(lambda sample: net(*sample), samples(), in_flight=2)
        next(results)
        return results

    for results in gluonjit.map(run, samples(2)):
        with pytest.raises(RuntimeError, match="in which it began"):
            list(results)
    assert_clean(eager, net)


def test_an_interrupt_between_results_ends_all() -> None:
    eager, net = pair(Halting)
    left = []

    def run(number: int) -> Any:
        try:
            return net(*samples()[number])
        finally:
            left.append(number)

    with pytest.raises(KeyboardInterrupt):
        for _ in gluonjit.imap(run, range(6)):
            raise KeyboardInterrupt
    assert sorted(left) == list(range(6))
    assert_clean(eager, net)


def test_without_greenlet_samples_run_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    eager, net = pair(Halting)
    monkeypatch.setitem(sys.modules, "greenlet", None)
    monkeypatch.delitem(sys.modules, "gluonjit.hybrid.mapping.fibers", raising=False)
    monkeypatch.delattr("gluonjit.hybrid.mapping.fibers", raising=False)
    with pytest.warns(GluonJITWarning, match="pip install"):
        found = list(gluonjit.imap(lambda sample: net(*sample), samples()))
    assert [number for number, _ in found] == list(range(12))
    assert_same([value for _, value in found], [eager(*sample) for sample in samples()])


def test_wrong_arguments_are_named_at_once() -> None:
    with pytest.raises(OptionError, match=r"gluonjit.imap\(\): in_flight=0"):
        gluonjit.imap(abs, [1], in_flight=0)
    with pytest.raises(TypeError, match=r"gluonjit.imap\(\): 3 is no function"):
        gluonjit.imap(3, [1])  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"gluonjit.imap\(\)"):
        gluonjit.imap(abs, [1], bogus=1)


def test_it_runs_in_turn_where_map_has_found_that_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    eager, net = pair(Halting)
    monkeypatch.setattr("gluonjit.hybrid.mapping.mapping.PINNED", [])
    monkeypatch.setattr("gluonjit.analysis.pace.Pace.settled", True)
    found = list(gluonjit.imap(lambda sample: net(*sample), samples()))
    assert [number for number, _ in found] == list(range(12))
    assert_same([value for _, value in found], [eager(*sample) for sample in samples()])


def test_times_of_few_functions_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gluonjit.hybrid.mapping.mapping.PINNED", [])
    made = [eval(f"lambda x: x + {number}") for number in range(3 * mapping._MOST)]
    first = [mapping._paces_of(function, Options()) for function in made]
    assert mapping._paces_of(made[-1], Options()) is first[-1]
    assert len(mapping._known[type(made[0])]) <= mapping._MOST
