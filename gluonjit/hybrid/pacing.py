"""Stretches: the outermost calls of a thread, timed in one way, eager or batched, from their first to their end.

A stretch ends at an optimizer's step, at the first call after a backward pass (in inference, after a flush), where the
phase changes, or after as many calls as a batch had where nothing marks an end. A time between two calls that is ten
calls long is the program's own and does not count. The way changes only where no captured value waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter
from typing import Any
from weakref import WeakSet

from gluonjit.analysis.pace import Pace, Shown
from gluonjit.hybrid.options import EAGER, MEASURED, Options

_PAUSE = 10.0  # calls: a longer time between two of them does not count
_PROBES = 2  # calls that run eagerly before the first look, to know what a call takes
_UNMARKED = 32  # calls of an eager stretch in inference, where no batch has told how many come together
_LONGEST = 1024  # calls of any stretch

SPENT = "a look at another way to run took longer than it may"
"""The reason for running a batch in the middle of a minibatch, without any fault of the program."""
FORCED: list[Callable[[], bool]] = []
"""The last one says whether the next stretch runs eagerly, in place of what is measured: for tests."""


class Paces:
    """The paces of a block, by phase. `open` where it may run eagerly, `named` where it has to."""

    __slots__ = ("__weakref__", "named", "open", "phases")

    def __init__(self, open: bool, named: bool = False) -> None:
        self.open = open
        self.named = named
        self.phases = (Pace(False), Pace(True))
        _known.add(self)

    def shown(self) -> list[Shown]:
        """The phases that have been seen."""
        return [pace.shown() for pace in self.phases if pace.least]

    def __reduce__(self) -> Any:
        return Paces, (self.open, self.named)


_known: WeakSet[Paces] = WeakSet()
NO_CHOICE = Paces(False)
"""Those of what always runs batched."""


def paces_for(options: Options) -> Paces:
    """Those of a block with these options."""
    return Paces(options.granularity in (EAGER, MEASURED), options.granularity == EAGER)


def clear_paces() -> None:
    """Forget what eager and batched calls took."""
    for paces in _known:
        for pace in paces.phases:
            pace.forget()


class Stretch:
    """Outermost calls of one thread, in one way."""

    __slots__ = (
        "calling",
        "calls",
        "eager",
        "ended",
        "explores",
        "free",
        "inside",
        "last",
        "pace",
        "pauses",
        "probing",
        "seconds",
        "timed",
        "usual",
        "wait",
        "whole",
    )

    def __init__(self, pace: Pace, engine: Any, named: bool) -> None:
        self.pace = pace
        self.wait: Callable[[], None] = engine.wait
        self.free = not named and not FORCED and bool(engine.may_choose())
        self.probing = self.free and not pace.least
        if self.free:
            self.eager = self.probing or pace.wants_eager
        else:
            self.eager = named or bool(FORCED and FORCED[-1]())
        self.timed = self.free and not (self.eager and pace.decided)
        self.calls = 0
        self.calling = False
        self.inside = 0
        self.seconds = 0.0
        self.ended = False  # the next call begins another one
        self.usual = self.whole = True
        self.explores: Any = None
        self.pauses = False  # the rest of this call runs eagerly
        if self.free and pace.decided is None:
            self.wait()
        self.last = perf_counter()

    def enter(self) -> None:
        """Work begins: a call, a flush or a backward pass; maybe inside of another one."""
        self.inside += 1
        if self.inside == 1:
            now = perf_counter()
            gap = now - self.last
            if not self.pace.least or gap < _PAUSE * self.pace.expected:
                self.seconds += gap
            self.last = now

    def leave(self) -> None:
        """It has ended."""
        self.inside -= 1
        if not self.inside:
            now = perf_counter()
            self.seconds += now - self.last
            self.last = now

    def left_call(self) -> None:
        """An outermost call has ended."""
        self.calling = False
        if not self.timed:
            return
        before = self.last
        self.leave()
        if self.probing:
            self.wait()
            self.pace.probed(perf_counter() - before)
            self.ended = self.calls >= _PROBES

    def over(self, training: bool) -> bool:
        """Tells whether the next call begins another stretch, as far as no captured value waits."""
        if self.ended or self.pace.training is not training or self.calls >= _LONGEST:
            return True
        return self.eager and not training and not self.probing and self.calls >= (self.pace.calls or _UNMARKED)

    def abandon(self) -> None:
        """Go on eagerly: in training up to the end of the minibatch, which has a backward pass to come."""
        self.eager, self.usual, self.whole = True, False, False
        self.ended = not self.pace.training

    def spent(self) -> bool:
        """Tells whether this look has spent its budget."""
        if self.eager or not self.free:
            return False
        since = perf_counter() - self.last if self.inside else 0.0
        return self.pace.spent(self.seconds + since, self.calls)

    def close(self) -> None:
        """Tell what it took."""
        if self.probing or not self.calls or not self.free:
            return
        if self.pace.decided is None:
            self.enter()
            self.wait()
            self.leave()
        if self.explores and self.pace.far_off(self.seconds, self.calls):
            self.explores.give_up(self.pace.training)
        self.pace.add(self.eager and self.whole, self.seconds, self.calls, self.usual, self.whole)


def begin(batch: Any, paces: Paces, training: bool, engine: Any) -> Stretch:
    """The stretch of an outermost call that begins now; `batch` is the open one, if there is one."""
    stretch = HERE.stretch
    waits = batch is not None and not batch.empty
    if stretch is not None and not stretch.inside:
        if stretch.spent():
            stretch.abandon()
            if waits:
                batch.flush(SPENT)
                waits = False
        if not waits and stretch.over(training):
            HERE.stretch = None
            stretch.close()
            stretch = None
    if stretch is None:
        stretch = HERE.stretch = Stretch(paces.phases[training], engine, paces.named)
        HERE.paces = paces
    stretch.calls += 1
    stretch.calling = True
    if stretch.timed:
        stretch.enter()
    return stretch


def chosen() -> bool:
    """Tells whether the way of the call that is made now has been chosen."""
    stretch = HERE.stretch
    return stretch is not None and stretch.calling


def measured() -> list[str]:
    """Returns the pace of the block that this thread has called last, where it is measured beside eager execution."""
    paces = HERE.paces
    return [] if paces is None else [str(shown) for shown in paces.shown()]


def note_flush(unusual: bool, explores: Any) -> None:
    """Tell the stretch of a flush that is `unusual`: something was traced or measured in it that is not in every one.

    `explores` is the chooser where it was captured to see whether another way to batch is better.
    """
    stretch = HERE.stretch
    if stretch is not None:
        stretch.usual = stretch.usual and not unusual
        stretch.explores = explores


class _Here(threading.local):
    stretch: Stretch | None = None
    paces: Paces | None = None


HERE = _Here()
"""The stretch of this thread."""


def close() -> None:
    """A stretch ends here: an optimizer's step, or the end of a scope."""
    stretch = HERE.stretch
    if stretch is not None and not stretch.inside:
        HERE.stretch = None
        stretch.close()


class _Work:
    """For `with`: what runs inside belongs to the stretch, and where it is outermost `marks` its end."""

    __slots__ = ("phase",)

    def __init__(self, phase: bool) -> None:
        self.phase = phase

    def __enter__(self) -> None:
        stretch = HERE.stretch
        if stretch is not None:
            stretch.enter()

    def __exit__(self, *error: object) -> None:
        stretch = HERE.stretch
        if stretch is not None:
            stretch.leave()
            if not stretch.inside and stretch.pace.training is self.phase:
                stretch.ended = True


FLUSH = _Work(False)
"""For `with`: a flush, after which a stretch of inference has ended."""
BACKWARD = _Work(True)
"""For `with`: a backward pass, after which a stretch of training has ended."""
