"""What holds for all tests: they are of what batches do, so nothing runs eagerly where no way is named."""

from __future__ import annotations

import faulthandler
import gc
import os
import random
import sys
from collections.abc import Iterator
from math import inf
from operator import attrgetter

import numpy as np
import pytest
from frameworks_support import FRAMEWORKS, INSTALLED

import gluonjit
from gluonjit.hybrid.capture.guards.variants import AGAIN
from gluonjit.hybrid.capture.outlining.outlines import AS_WRITTEN
from gluonjit.hybrid.choose import kept, pacing
from gluonjit.hybrid.run.state import LOCAL

pacing.PINNED.append(True)

collect_ignore = [framework for framework in FRAMEWORKS if framework not in INSTALLED]
"""The folders of tests that are left out: those of frameworks that are not installed."""


_HANGS = 600  # seconds
_errors: list[int] = []  # where what is written is not captured


def pytest_configure() -> None:
    """Remember where errors go, before tests have it captured."""
    _errors.append(os.dup(2))


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """End the process of a test that hangs, and say where: else nobody learns its name."""
    faulthandler.dump_traceback_later(_HANGS, exit=True, file=_errors[-1])
    yield
    faulthandler.cancel_dump_traceback_later()


def pytest_report_header() -> list[str]:
    """Say what is left out."""
    return [f"tests/{framework} is left out: {framework} is not installed" for framework in collect_ignore]


def pytest_collection_finish() -> None:
    """Let collections of garbage look at what tests make alone, not each time at the frameworks and at all tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def same_draws() -> None:
    """Let each test draw the same numbers, whatever has run before."""
    random.seed(0)
    np.random.seed(0)
    for framework, draws in (("torch", "default_generator.manual_seed"), ("mxnet", "random.seed")):
        if framework in sys.modules:
            attrgetter(draws)(sys.modules[framework])(0)


@pytest.fixture(autouse=True)
def fresh_stretch() -> Iterator[None]:
    """No test goes on with the stretch of calls of another."""
    pacing.drop()
    yield
    pacing.drop()


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    """No test leaves capture paused or a call open, as an interrupt at a bad moment could: it fails, not all others."""
    yield
    state = LOCAL.state
    left = {name: getattr(state, name) for name in ("inside", "paused", "eagerly", "trace", "recorded", "hub")}
    state.inside = state.paused = state.eagerly = 0
    state.trace = state.recorded = state.hub = None
    assert not any(left.values()), f"left open: {left}"


@pytest.fixture(autouse=True, scope="module")
def fresh_caches() -> None:
    """No file's programs depend on what operators were called with in other files, unless GLUONJIT_TOGETHER is set.

    Those that fail together alone show state that is kept where it should not be. Samples of a file are counted from 0,
    whatever the last test of another one has left pending.
    """
    LOCAL.state.batch = None
    if not os.environ.get("GLUONJIT_TOGETHER"):
        gluonjit.clear_caches()


@pytest.fixture
def as_written() -> Iterator[None]:
    """Models run as they are written, no cells are made from source: for tests that count or name operators."""
    with AS_WRITTEN:
        yield


@pytest.fixture
def traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No call that was found is traced again to see that it is the same, as one in a thousand is."""
    monkeypatch.setattr(AGAIN, "resting", inf)


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured decides between eager and batched, as it does by default; nothing is kept from other tests."""
    monkeypatch.setenv("GLUONJIT_CACHE", os.devnull)
    monkeypatch.setattr(kept, "_last", {})
    monkeypatch.setattr(pacing, "PINNED", [])
