"""Flushes shared by threads: as many as the framework says, and values and gradients to the last bit as with one."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from stretches_support import Chain, same

from gluonjit.compiled import ROWS

if ROWS is None:
    pytest.skip("steps run in C only where that was built", allow_module_level=True)


@pytest.fixture
def chain(engine: str) -> Iterator[Chain]:
    """Wide enough, and of enough samples, that every step is shared."""
    before = ROWS.worth(0)
    yield Chain(engine, 45, 150)
    ROWS.worth(before)


def let(monkeypatch: pytest.MonkeyPatch, engine: str, threads: int, cores: int = 8) -> None:
    """Let the framework's operators take so many threads, on a machine of so many cores."""
    monkeypatch.setattr("gluonjit.rows.steps.cores", lambda: cores)
    monkeypatch.setattr(f"gluonjit.engines.{engine}.run.fused_steps.FusedSteps.threads", staticmethod(lambda: threads))
    if engine == "torch":  # its operators keep theirs: after a fork, a child whose parent's had several hangs
        monkeypatch.setattr("torch.set_num_threads", lambda count: None)


def equal(found: tuple[Any, ...], wanted: tuple[Any, ...]) -> bool:
    """Whether results and gradients are, bit by bit."""
    pairs = zip([*found[0], found[1]], [*wanted[0], wanted[1]])
    return all((mine.view(np.uint32) == other.view(np.uint32)).all() for mine, other in pairs)


@pytest.mark.parametrize(("threads", "cores", "wanted"), [(1, 8, 1), (3, 8, 3), (8, 2, 2)])
def test_the_framework_says_how_many_and_never_more_than_cores(
    chain: Chain, monkeypatch: pytest.MonkeyPatch, threads: int, cores: int, wanted: int
) -> None:
    let(monkeypatch, chain.engine, threads, cores)
    given: list[int] = []

    def run(*arguments: Any) -> int:
        given.append(arguments[5])
        return int(ROWS.run(*arguments))

    known = {name: getattr(ROWS, name) for name in ("OPS", "pack", "packed_size")}
    monkeypatch.setattr("gluonjit.rows.running.ROWS", SimpleNamespace(run=run, **known))
    chain(True)
    assert set(given) == {wanted} and len(given) >= 2  # forward, backward, and whenever Python looks at signals


def test_values_and_gradients_are_as_with_one_thread(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    eager = chain(False)
    let(monkeypatch, chain.engine, 1)
    alone = chain(True)
    same(alone, eager)
    for threads in (2, 3, 4):
        let(monkeypatch, chain.engine, threads)
        assert equal(chain(True), alone)


def test_two_threads_flush_at_once(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    let(monkeypatch, chain.engine, 1)
    chains = [chain, Chain(chain.engine, 45, 150)]
    alone = [one(True) for one in chains]
    let(monkeypatch, chain.engine, 3)
    found: list[bool] = []

    def flush(number: int) -> None:
        found.extend([equal(chains[number](True), alone[number]) for _ in range(5)])

    callers = [Thread(target=flush, args=(number,)) for number in range(2)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert found == [True] * 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_process_flushes(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    let(monkeypatch, chain.engine, 3)
    wanted = chain(True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        right = False
        try:
            right = equal(chain(True), wanted)
        finally:
            os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert equal(chain(True), wanted)
