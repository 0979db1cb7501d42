"""Faults to build into gluonjit on purpose: a fuzzer that finds none of them is useless."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import gluonjit
from experiments.fuzz.framework import Framework, Patch
from gluonjit.hybrid.capture.guards.follower import Follower
from gluonjit.hybrid.capture.guards.variants import Noted, Variant
from gluonjit.hybrid.choose import pacing
from gluonjit.hybrid.mapping.fibers import Fiber


def end_turns() -> None:
    """Let calls run as they do by default again, after a program in which they run eagerly in turns."""
    pacing.FORCED.clear()
    pacing.drop()


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


def but_the_last(original: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a capture function that treats calls as equal if they differ only in their last operand."""
    shared: dict[Any, Any] = {}

    def captured(batch: Any, record: Any, operands: Any) -> Any:
        if len(operands) < 2 or not record.kind.pure or not batch.sharing:
            return original(batch, record, operands)
        key = (record, *[value.rows for value in operands[:-1]])
        if key not in shared:
            shared[key] = original(batch, record, operands)
        return shared[key]

    return captured


def stale_state() -> list[Patch]:
    """Readings of Python's state hold for ever, as they were when a call was traced."""

    def variant(self: Any, key: Any) -> Variant:
        return Variant(key, None, (), self.kept, self.traced)

    return [(Noted, "variant", variant)]


def lost_effect() -> list[Patch]:
    """Let a traced call write to objects that outlive it: this happens once, and not for each sample."""
    space = {"__name__": "gluonjit"}  # what is called while a call is traced must be no code of the program's
    exec("def writable(self, item, name):\n    return item", space)
    return [*stale_state(), (Follower, "writable", space["writable"])]


def swapped_samples() -> list[Patch]:
    """Results of two samples side by side are swapped where the second ends before the first."""
    original = Fiber.run

    def run(self: Any) -> None:
        original(self)
        ended = self.group.ended
        if len(ended) > 1 and ended[-2][0] > ended[-1][0]:
            (first, one), (second, other) = ended.pop(), ended.pop()
            ended.extend([(second, one), (first, other)])

    return [(Fiber, "run", run)]


def wrong_row(session: ModuleType) -> list[Patch]:
    """The last row that a gather takes of three or more is that of its neighbour."""
    original = session.Session.fused_steps

    def made(given: Any, *rest: Any) -> Any:
        for step in given.plan.steps:
            for gather in step.gathers:
                if gather.index is not None and len(gather.index) > 2:
                    gather.index[-1] = gather.index[-2]
        return original(given, *rest)

    return [(session.Session, "fused_steps", staticmethod(made))]


def wrong_order(session: ModuleType, sevens: Callable[[Any], Any]) -> list[Patch]:
    """The steps of a plan run in reverse, which is wrong by every schedule; memory not written to yet holds sevens."""
    original, room = session.Session.run, session.NODES.room_for

    def run(self: Any, number: int) -> None:
        original(self, len(self.plan.steps) - 1 - number)

    return [(session.Session, "run", run), (session.NODES, "room_for", lambda spec, rows: sevens(room(spec, rows)))]


def stale_parameter(
    program: ModuleType, fused_steps: ModuleType, copied: Callable[[Any], Any], learns: Callable[[Any], bool]
) -> list[Patch]:
    """A batched program uses the values that its weights had when it ran first."""
    original, constant = program.Batched.__call__, fused_steps.FusedSteps.constant
    first: dict[int, tuple[Any, Any]] = {}

    def known(own: Any) -> Any:
        if id(own) not in first:
            first[id(own)] = own, copied(own)
        return first[id(own)][1]

    def call(self: Any, operands: Any, consts: Any, *rest: Any) -> Any:
        stale = [const if learns(const) else known(own) for const, own in zip(consts, self.consts)]
        return original(self, operands, stale, *rest)

    def fused(self: Any, array: Any) -> Any:
        return constant(self, known(array))

    return [(program.Batched, "__call__", call), (fused_steps.FusedSteps, "constant", fused)]
