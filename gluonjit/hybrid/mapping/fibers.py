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
from gluonjit.hybrid.run.state import LOCAL

_WAIT = "all samples of gluonjit.map wait for values"


class Group:
    """The samples of one call of `map`: those that have not begun, how many are under way, and what they returned."""

    def __init__(self, function: Callable[[Any], Any], samples: Iterable[Any], most: int | None) -> None:
        self.function, self.most = function, most
        self.samples: Iterator[Any] | None = iter(samples)
        self.living = 0
        self.found: list[Any] = []
        self.failed: dict[int, BaseException] = {}

    def next(self) -> tuple[int, Any] | None:
        """Takes the next sample, with its number; None if there is none, or if enough are under way."""
        if self.samples is None or (self.most is not None and self.living >= self.most):
            return None
        try:
            for sample in self.samples:
                self.living += 1
                self.found.append(None)
                return len(self.found) - 1, sample
        except Exception as error:
            self.failed[len(self.found)] = error
        self.samples = None
        return None

    def results(self) -> list[Any]:
        """Returns what the samples gave, in their order; raises the error of the first that failed."""
        if self.failed:
            number = min(self.failed)
            error = self.failed[number]
            if hasattr(error, "add_note"):
                error.add_note(f"in sample {number} of gluonjit.map")
            raise error
        return self.found


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
            group.found[self.number] = group.function(self.sample)
        except Exception as error:
            group.failed[self.number] = error
            group.samples = None  # as in a loop, what comes after it does not begin
        group.living -= 1


class Hub:
    """The fibers of one thread, and the batch that they capture in."""

    def __init__(self, batch: Batch) -> None:
        self.batch, self.state, self.home = batch, LOCAL.state, getcurrent()
        self.flags, self.opened = _flags(), len(self.state.explicit)
        self.ready: deque[Fiber] = deque()
        self.parked: list[Fiber] = []
        self.groups: dict[Fiber, Group] = {}  # whose end a fiber waits for
        self.closing = False

    def context(self) -> tuple[Any, ...]:
        """Returns what of the thread's state belongs to the fiber that runs."""
        state, marks = self.state, self.batch.graph.marks
        modes = [engine.current_mode() for engine in ENGINES]
        return state.inside, state.mode, modes, self.batch.asking, marks[-1][1] if marks else None

    def enter(self, context: tuple[Any, ...]) -> None:
        """Sets what belongs to the fiber that goes on."""
        state, batch, graph = self.state, self.batch, self.batch.graph
        state.inside, state.mode, modes, batch.asking, sample = context
        for engine, mode in zip(ENGINES, modes):
            if engine.current_mode() != mode:
                engine.set_mode(mode)
        graph.marks.append((graph.rows, sample))

    def park(self, owner: Any) -> bool:
        """Waits until a value's batch has run; False where that is to be done at once.

        So it is while something is traced or runs, and where a fiber is in a region that cannot be left.
        """
        fiber, state = getcurrent(), self.state
        if owner is not self.batch or fiber.__class__ is not Fiber or self.closing:
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
        self.home.switch()

    def branch(self, group: Group) -> list[Any]:
        """Runs a group's samples beside those under way, inside of one of these."""
        fiber = getcurrent()
        self.groups[fiber] = group
        self._leave(fiber)
        del self.groups[fiber]
        return group.results()

    def drive(self, group: Group) -> list[Any]:
        """Runs a group's samples until all have ended."""
        before = self.context()
        groups = self.groups
        groups[self.home] = group
        try:
            while group.living or group.samples is not None:
                self._advance(before)
                self.enter(before)
                if self.parked:
                    self.batch.flush(_WAIT, "map")
                    self.ready.extend(self.parked)
                    self.parked = []
        finally:
            self._unwind(before)
        return group.results()

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
                if up is not self.home and not group.living and up not in self.ready:
                    self.ready.append(up)
            if not begun and not self.ready:
                return

    def _go(self, fiber: Fiber) -> None:
        self.enter(fiber.context)
        fiber.switch()

    def _unwind(self, before: tuple[Any, ...]) -> None:
        """Ends what has not ended, after an interrupt or a failed batch; no value is waited for meanwhile."""
        self.closing = True
        for fiber in [*self.parked, *self.ready, *self.groups]:
            if fiber.__class__ is Fiber and not fiber.dead:
                self.enter(fiber.context)
                fiber.throw(GreenletExit)
        self.enter(before)


def _flags() -> list[Any]:
    return [engine.flags() for engine in ENGINES]


def run(function: Callable[[Any], Any], samples: Iterable[Any], most: int | None) -> list[Any]:
    """Runs a function on samples: beside those under way inside of one of these, else in the open batch."""
    state, group = LOCAL.state, Group(function, samples, most)
    before = state.hub
    if before is not None and getcurrent().__class__ is Fiber:
        return before.branch(group)  # type: ignore[no-any-return]
    assert state.batch is not None
    hub = state.hub = Hub(state.batch)
    try:
        return hub.drive(group)
    finally:
        state.hub = before
