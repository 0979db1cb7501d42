"""Samples that go on side by side: one that reads a value that waits is parked until all others wait, too.

Each sample runs in a fiber (greenlet), so its program is written as for one sample. When none can go on, the batch runs
once, and all go on. What a fiber has of its thread's state travels with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

from gluonjit.hybrid.run.batch import RUNNING, Batch
from gluonjit.hybrid.run.engine import ENGINES
from gluonjit.hybrid.run.failures import note_sample
from gluonjit.hybrid.run.state import LOCAL

_WAIT = "all samples of gluonjit.map wait for values"
_ELSEWHERE = "gluonjit.imap() goes on in the thread, sample and mode in which it began: take its results there"


class Group:
    """The samples of one call of `map`: those that have not begun, how many are under way, and what they returned.

    each: results are taken as they end, of which no more wait than may be under way; hub: that of the sample that has
    called, if one has; ended: what was returned and not yet taken, with its number; closing: nothing waits any more.
    """

    def __init__(self, function: Callable[[Any], Any], samples: Iterable[Any], most: int | None, each: bool) -> None:
        self.function, self.most, self.each = function, most, each
        self.samples: Iterator[Any] | None = iter(samples)
        self.hub: Hub | None = getattr(getcurrent(), "hub", None)
        self.begun = self.living = 0
        self.ended: deque[tuple[int, Any]] = deque()
        self.failed: dict[int, BaseException] = {}
        self.closing = False

    @property
    def waits(self) -> bool:
        """True while there is nothing to take, and more to come."""
        return (self.living > 0 or self.samples is not None) and not (self.each and self.ended)

    def next(self) -> tuple[int, Any] | None:
        """Takes the next sample, with its number; None if there is none, or if enough are under way."""
        most = self.most
        if self.samples is None or (most and (self.living >= most or (self.each and len(self.ended) >= most))):
            return None
        try:
            for sample in self.samples:
                self.living += 1
                self.begun += 1
                return self.begun - 1, sample
        except Exception as error:
            self.failed[self.begun] = error
        self.samples = None
        return None

    def check(self) -> None:
        """Raises the error of the first sample that failed."""
        if self.failed:
            number = min(self.failed)
            note_sample(self.failed[number], number)
            raise self.failed[number]


class Fiber(greenlet):  # type: ignore[misc]
    """One sample under way. `context` has what of its thread's state travels with it."""

    def __init__(self, hub: Hub, group: Group, number: int, sample: Any, context: tuple[Any, ...]) -> None:
        super().__init__(parent=hub.home)
        self.hub, self.group, self.number, self.sample, self.context = hub, group, number, sample, context
        self.gr_context = copy_context()

    def run(self) -> None:
        """Calls the function on the sample."""
        group = self.group
        try:
            group.ended.append((self.number, group.function(self.sample)))
        except Exception as error:
            group.failed[self.number] = error
            group.samples = None  # as in a loop, what comes after it does not begin
        finally:
            group.living -= 1


class Hub:
    """The fibers of one thread, and the batch that they capture in."""

    def __init__(self, batch: Batch) -> None:
        self.batch, self.state, self.home, self.flags = batch, LOCAL.state, getcurrent(), _flags()
        self.opened = 0
        self.ready: deque[Fiber] = deque()
        self.parked: list[Fiber] = []
        self.groups: dict[Fiber, Group] = {}  # what a fiber waits for

    def context(self) -> tuple[Any, ...]:
        """Returns what of the thread's state belongs to the fiber that runs."""
        state, marks = self.state, self.batch.graph.marks
        modes = [engine.current_mode() for engine in ENGINES]
        return state.inside, modes, self.batch.asking, marks[-1][1] if marks else None

    def enter(self, context: tuple[Any, ...]) -> None:
        """Sets what belongs to the fiber that goes on."""
        state, batch, graph = self.state, self.batch, self.batch.graph
        state.inside, modes, batch.asking, sample = context
        for engine, mode in zip(ENGINES, modes):
            if engine.current_mode() != mode:
                engine.set_mode(mode)
            if engine is batch.engine:  # not the one the batch was opened for, before it was another's
                state.mode = mode
        graph.marks.append((graph.rows, sample))

    def park(self, owner: Any) -> bool:
        """Waits until a value's batch has run; False where that is to be done at once.

        So it is while something is traced or runs, and where a fiber is in a region that cannot be left.
        """
        fiber, state = getcurrent(), self.state
        if owner is not self.batch or fiber.__class__ is not Fiber or fiber.group.closing:
            return False
        if state.batch is not owner or state.paused or state.trace is not None or state.recorded is not None:
            return False
        if len(state.explicit) != self.opened or RUNNING._is_owned() or _flags() != self.flags:  # type: ignore[attr-defined]
            return False
        self.parked.append(fiber)
        self._leave(fiber)
        return True

    def _leave(self, fiber: Fiber) -> None:
        fiber.context = self.context()
        _away(self.home.switch)

    def wait(self, group: Group) -> None:
        """Goes on with a group's samples, beside those under way, inside of one of these."""
        fiber = getcurrent()
        if fiber.group.closing:
            raise GreenletExit
        self.groups[fiber] = group
        try:
            self._leave(fiber)
        finally:
            self.groups.pop(fiber, None)

    def drive(self, group: Group) -> None:
        """Goes on with a group's samples, and all in them, in the hub's batch; what is taken has run."""
        state, batch, self.home = self.state, self.batch, getcurrent()
        opened, outer, above = state.explicit, state.batch, state.hub
        before = self.context()
        self.opened = len(opened) + 1
        self.groups[self.home] = group
        state.explicit, state.batch, state.hub = [*opened, batch], batch, self
        try:
            while group.waits:
                self._advance(before)
                self.enter(before)
                if self.parked or group.each:
                    batch.flush(_WAIT, "map")
                    self.ready.extend(self.parked)
                    self.parked = []
        finally:
            state.explicit, state.batch, state.hub = opened, outer, above
            self.groups.pop(self.home, None)
            self.enter(before)

    def _advance(self, before: tuple[Any, ...]) -> None:
        """Lets every fiber go on until it waits or ends."""
        while True:
            while self.ready:
                self._go(self.ready.popleft())
            begun = False
            for up, group in list(self.groups.items()):
                context = before if up is self.home else up.context
                while (following := group.next()) is not None:
                    begun = True
                    self._go(Fiber(self, group, *following, context))
                if up is not self.home and not group.waits:
                    self.ready.append(up)
                    self.groups.pop(up, None)
            if not begun and not self.ready:
                return

    def _go(self, fiber: Fiber) -> None:
        self.enter(fiber.context)
        if fiber.parent is not self.home:
            fiber.parent = self.home
        _away(fiber.switch)

    def unwind(self, group: Group) -> None:
        """Ends those of a group that have not ended: after an interrupt, a failed batch, or if nobody takes results.

        They wait for no value meanwhile.
        """
        if (not group.living and group.hub is not None) or self.state is not LOCAL.state:
            return
        before = self.context()
        for fiber in [*self.parked, *self.ready, *self.groups]:
            if fiber.__class__ is Fiber and (group.hub is None or fiber.group is group) and not fiber.dead:
                fiber.group.closing, fiber.parent = True, getcurrent()
                self.enter(fiber.context)
                _away(fiber.throw, GreenletExit)
        self.enter(before)
        self.parked = [fiber for fiber in self.parked if not fiber.dead]
        self.ready = deque(fiber for fiber in self.ready if not fiber.dead)


def _away(go: Callable[..., Any], *given: Any) -> None:
    """Leaves this stack; gives back what C code has of it when it goes on, or an error has ended another."""
    held = [engine.held() for engine in ENGINES]
    try:
        go(*given)
    finally:
        for engine, each in zip(ENGINES, held):
            engine.hold(each)


def _flags() -> list[Any]:
    return [engine.flags() for engine in ENGINES]


def run(
    function: Callable[[Any], Any], samples: Iterable[Any], most: int | None, batch: Batch, each: bool = False
) -> Iterator[tuple[int, Any]]:
    """Runs a function on samples: beside those under way inside of one of these, else in a batch.

    Yields their numbers with what they returned, as they end, `each` as soon as it can be taken; raises the error of
    the first that failed in the end.
    """
    group = Group(function, samples, most, each)
    hub = Hub(batch) if group.hub is None else group.hub
    try:
        while group.living or group.samples is not None:
            if getattr(getcurrent(), "hub", None) is not group.hub or hub.state is not LOCAL.state:
                raise RuntimeError(_ELSEWHERE)
            if group.hub is None and _flags() != hub.flags:
                raise RuntimeError(_ELSEWHERE)
            (hub.drive if group.hub is None else hub.wait)(group)
            while group.ended:
                yield group.ended.popleft()
    finally:
        hub.unwind(group)
    group.check()
