"""Faults to build into gluonjit on purpose: a fuzzer that finds none of them finds nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import gluonjit
from experiments.fuzz.framework import Framework, Patch


@contextmanager
def planted(framework: Framework, name: str | None) -> Iterator[None]:
    """Build a fault in for a region; None builds in none."""
    patches = framework.plants[name]() if name else []
    originals = [(owner, what, getattr(owner, what)) for owner, what, _ in patches]
    gluonjit.clear_caches()
    for owner, what, replacement in patches:
        setattr(owner, what, replacement)
    try:
        yield
    finally:
        for owner, what, original in originals:
            setattr(owner, what, original)
        gluonjit.clear_caches()


def wrong_row(session: ModuleType) -> list[Patch]:
    """The last row that a gather takes of three or more is that of its neighbour."""
    original = session.FusedSteps

    def made(plan: Any, *rest: Any) -> Any:
        for step in plan.steps:
            for gather in step.gathers:
                if gather.index is not None and len(gather.index) > 2:
                    gather.index[-1] = gather.index[-2]
        return original(plan, *rest)

    return [(session, "FusedSteps", made)]


def wrong_order(session: ModuleType) -> Patch:
    """The third and the fourth step of a plan change places."""
    original = session.Session.run

    def run(self: Any, number: int) -> None:
        if len(self.plan.steps) > 3:
            number = {2: 3, 3: 2}.get(number, number)
        original(self, number)

    return (session.Session, "run", run)
