"""Stretches: steps that follow each other and are row programs run in one call, and fail and stop step by step."""

from __future__ import annotations

import signal
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from stretches_support import STEPS, Chain, same

import gluonjit
from gluonjit.compiled import ROWS

if ROWS is None:
    pytest.skip("steps run in C only where that was built", allow_module_level=True)

Run = Callable[[Any, int], Any]


def instead(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """Let launches run by something else: `run(the module's own, launch that comes next)`."""

    def replaced(programs: Any, launches: Any, args: Any, block: int, begin: int, threads: int) -> int:
        def own(count: int | None = None) -> int:
            until = len(launches) if count is None else begin + count
            return int(ROWS.run(programs, launches[:until], args, block, begin, threads))

        return int(run(own, begin))

    known = {name: getattr(ROWS, name) for name in ("OPS", "pack", "packed_size")}
    monkeypatch.setattr("gluonjit.rows.running.ROWS", SimpleNamespace(run=replaced, **known))


@pytest.fixture
def chain(engine: str) -> Chain:
    return Chain(engine)


def test_steps_that_follow_each_other_run_in_one_call(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = chain(False)
    calls: list[int] = []
    instead(monkeypatch, lambda own, begin: calls.append(begin) or own())
    found = chain(True)
    same(found, wanted)
    report = found[2]
    assert report is not None
    assert report.fused >= STEPS
    assert report.row_ms > 0
    assert calls == [0, 0]  # forward, backward


def test_other_steps_part_them(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = chain(False, chain.stop)
    calls: list[int] = []
    instead(monkeypatch, lambda own, begin: calls.append(begin) or own())
    found = chain(True, chain.stop)
    same(found, wanted)
    assert found[2] is not None
    assert found[2].unfused
    assert len(calls) == 4


def test_a_stretch_that_comes_back_goes_on(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = chain(False)
    calls: list[int] = []
    instead(monkeypatch, lambda own, begin: calls.append(begin) or own(1))
    same(chain(True), wanted)
    assert calls[:STEPS] == list(range(STEPS))
    assert calls.count(0) == 2


def test_the_step_that_fails_is_named(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    chain(True)

    raised: list[int] = []

    def failing(own: Any, begin: int) -> int:
        if begin == 3 or raised:  # and again, where MXNet's session tries the step once more
            raised.append(begin)
            raise MemoryError("no room is left")
        return int(own(1))

    named: list[int] = []
    session = import_module("gluonjit.hybrid.run.session")
    said = session.failed
    monkeypatch.setattr(session, "failed", lambda *given: named.append(given[1]) or said(*given))
    instead(monkeypatch, failing)
    with pytest.raises(gluonjit.FlushError, match="run together failed, though each runs by itself: no room is left"):
        chain(True)
    assert named == [3]


def test_an_interrupt_stops_it_between_steps(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = chain(False)
    done: list[int] = []

    def interrupted(own: Any, begin: int) -> int:
        done.append(begin)
        if begin == 2:
            signal.raise_signal(signal.SIGINT)
        return int(own(1))

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background ignores it
    try:
        with monkeypatch.context() as patch:
            instead(patch, interrupted)
            with pytest.raises(KeyboardInterrupt):
                chain(True)
    finally:
        signal.signal(signal.SIGINT, before)
    assert done == [0, 1, 2]
    same(chain(True), wanted)
