"""Stretches: the outermost calls of a thread, timed in one way, eager or batched, from their first to their end.

A stretch ends at an optimizer's step, at the first call after a backward pass (in inference, after a flush), at a
change of phase, but for single calls without gradients between those that train, or, if nothing marks an end, after as
many calls as a batch had, or at a pause far longer than those before. A pause between two calls that is ten calls long
belongs to the program and does not count. The way changes only if no captured value is pending.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from math import inf
from typing import Any
from weakref import WeakSet

from gluonjit.analysis.pace import Pace, StretchOutcome
from gluonjit.analysis.ways import Setting
from gluonjit.hybrid.choose.clock import CLOCK
from gluonjit.hybrid.options import EAGER, Options

_PAUSE = 10.0  # calls: a longer time between two of them does not count
_UNMARKED = 32  # calls of an eager stretch in inference, where neither a batch nor training has told how many there are
_APART, _MARKS = 4.0, 0.25  # times any earlier pause in it, and times a call: as long a pause ends such a stretch, too
_LONGEST = 1024  # calls of any stretch
_SLIGHT = 0.02  # of the time of a stretch: tracing that takes no more makes it none of its own sort
_FEW = 8  # calls: from fewer it is hard to tell what a call takes once nothing is new
_WATCHED = 4  # calls that run eagerly, the first ones
_BETWEEN = 8  # calls without gradients, and half of those so far, that may follow each other in a stretch of training

SPENT = "a trial of another way to run exceeded its time budget"
"""The reason for running a batch in the middle of a minibatch, without any fault of the program."""
FORCED: list[Callable[[], bool]] = []
"""The last one says whether the next stretch runs eagerly, in place of what is measured: for tests and the fuzzer."""
PINNED: list[bool] = []
"""Not empty where blocks for which no way is named run batched: for tests of what batches do."""


class Paces:
    """The paces of a block, by phase. `open` if it may run eagerly, `named` if it must."""

    __slots__ = ("__weakref__", "named", "open", "phases")

    def __init__(self, open: bool, named: bool = False) -> None:
        self.open = open
        self.named = named
        self.phases = (Pace(False), Pace(True))
        _known.add(self)

    def saved_state(self) -> list[dict[str, Any] | None]:
        """The studies for a later process, by phase: inference, training."""
        return [pace.saved_state() for pace in self.phases]

    def restore(self, state: list[dict[str, Any] | None], origin: str) -> None:
        """Starts from the state of an earlier process, or raises as `Pace.restore` does and changes nothing."""
        phases = (Pace(False), Pace(True))
        for pace, known in zip(phases, state):
            if known is not None:
                pace.restore(known, origin)
        self.phases = phases

    def tell(self, told: Callable[[], None]) -> None:
        """Registers a function to call at each decision."""
        for pace in self.phases:
            pace.told = told

    def __reduce__(self) -> Any:
        return Paces, (self.open, self.named)


_known: WeakSet[Paces] = WeakSet()
NO_CHOICE = Paces(False)
"""Those of what always runs batched."""


def paces_for(options: Options) -> Paces:
    """Returns the paces of a block with these options."""
    drop()
    named = options.granularity == EAGER
    return Paces(named or (options.leave_the_way_open and not PINNED), named)


def clear_paces() -> None:
    """Drops the times of eager and batched calls."""
    drop()
    for paces in _known:
        paces.phases = (Pace(False), Pace(True))


class CallStretch:
    """A stretch of outermost calls of one thread, in one way."""

    calls = 0
    others = 0  # the last calls, one after the other, that were of the other phase
    given = 0  # calls that run eagerly without coming here, at most
    inside = 0
    seconds = 0.0
    traced = 0.0  # seconds
    traces = 0
    ended = False  # the next call begins another one
    follows = False  # without an optimizer's step in between
    unlike = False
    explores: Any = None  # the chooser that tries another way to capture
    whole = True
    rate = 0.0  # seconds of a call that was batched, where this was abandoned and they were not few
    loses = 0.0
    way = ""
    pauses = False  # the rest of this call runs eagerly

    def __init__(self, state: Any, paces: Paces, training: bool, engine: Any) -> None:
        self.pace = pace = paces.phases[training]
        beside = paces.phases[not training]
        pace.begin(beside)
        self.state = state  # of this thread
        named = paces.named
        self.wait: Callable[[], None] = engine.wait
        forced = bool(FORCED) and not HERE.held
        self.free = not (named or forced or HERE.held) and bool(engine.may_choose())
        self.eager = pace.wants_eager if self.free else named or (forced and FORCED[-1]())
        self.timed = self.free and not pace.settled
        settled = self.eager and not self.timed
        unmarked = self.eager and not training and not named and pace.compares
        self.most = max(pace.calls or beside.calls or _UNMARKED, _FEW) if unmarked else _LONGEST
        self.apart = 0.0 if unmarked and self.timed else inf  # seconds of its longest pause between two calls
        if settled:
            self.given = state.spare = self.most - 1
            state.spare_mode, state.spare_of = 2 * training, paces
        self.pause = _PAUSE * pace.unit  # a longer time between two calls does not count
        self.took: list[float] = []  # seconds of each call, up to the next one, in which nothing was traced
        self.marked = 0.0, 0  # seconds and traces when the last call began
        if self.timed:
            CLOCK.start()
        if self.timed and pace.compares:
            self.wait()
        self.last = CLOCK.now()

    def enter(self) -> None:
        """Begins work: a call, a flush or a backward pass, possibly nested."""
        self.inside += 1
        if self.inside == 1:
            now = CLOCK.now()
            gap = now - self.last
            if gap < (self.pause or _PAUSE * self.seconds / max(self.calls - 1, 1)):
                self.seconds += gap
            self.last = now

    def leave(self) -> None:
        """Ends work."""
        self.inside -= 1
        if not self.inside:
            now = CLOCK.now()
            self.seconds += now - self.last
            self.last = now

    @property
    def watched(self) -> bool:
        """True if the call that has begun is one of the first, of which it is told what they write to."""
        return self.timed and self.pace.met + self.calls <= _WATCHED

    def count(self) -> None:
        """Counts the calls that bypassed this function; from now on all come here."""
        if self.given:
            self.calls += self.given - self.state.spare
            self.given = self.state.spare = 0

    def end(self) -> None:
        """Ends the stretch at the next call, unless each call of a minibatch would be one."""
        if not self.pace.single:
            self.count()
            self.ended = True

    def parted(self) -> bool:
        """True if the pause before the next call is so long that results were read and samples made in it."""
        pause = CLOCK.now() - self.last
        longest, self.apart = self.apart, max(self.apart, pause)
        return self.calls > 1 and pause > max(_APART * longest, _MARKS * self.seconds / self.calls)

    def over(self, training: bool) -> bool:
        """True if the next call begins another stretch, unless a captured value is pending.

        Calls without gradients between those that train are part of the minibatch, as those of a teacher are.
        """
        if self.ended or self.calls >= self.most or (self.apart < inf and self.parted()):
            return True
        self.others = 0 if self.pace.training is training else self.others + 1
        return self.others > (_BETWEEN + self.calls // 2 if self.pace.training else 0)

    def abandon(self) -> None:
        """Continues in the kept way, or eagerly: in training to the minibatch's end, as backward is still to come."""
        self.whole, self.rate = False, self._rate() if self.calls >= _FEW else 0.0
        self.loses = self.pace.loses(self.took)
        if self.explores is not None:
            self.explores.give_up(self.pace.training)
            return
        self.eager = True
        self.ended = not self.pace.training

    def spent(self) -> bool:
        """True if this trial has exceeded its budget, or would with one more trace."""
        is_trial = self.pace.decided is None or self.explores is not None
        if self.eager or not (self.free and self.whole and is_trial):
            return False
        coming = self.traced / self.traces if self.traces else 0.0
        return self.pace.loses(self.took) > 0 or self.pace.spent(self._so_far() + coming, self.calls)

    def mark(self) -> None:
        """Notes what the call that ends here took, before the next one of a trial begins."""
        seconds, traces = self.marked
        self.marked = self.seconds, self.traces
        if self.calls and traces == self.traces:
            self.took.append(self.seconds - seconds)

    def _so_far(self) -> float:
        return self.seconds + (CLOCK.now() - self.last if self.inside else 0.0)

    def _rate(self) -> float:
        return (self._so_far() - self.traced) / self.calls

    def drop(self) -> None:
        """Ends it without counting it."""
        self.count()
        if self.timed:
            CLOCK.stop()

    def close(self) -> None:
        """Adds its time."""
        if not self.calls or not self.free:
            self.drop()
            return
        if self.timed and self.pace.compares:
            self.enter()
            self.wait()
            self.leave()
        eager, explores = self.eager and self.whole, self.explores is not None
        if explores and self.whole and self.pace.spent(self.seconds, self.calls):
            self.explores.give_up(self.pace.training)
        rate = self._rate() if self.whole else self.rate
        seconds = self.seconds if self.timed else 0.0
        self.drop()
        unlike = self.unlike or self.traced > _SLIGHT * self.seconds
        self.pace.add(
            StretchOutcome(eager, seconds, self.calls, rate, unlike, self.whole, explores, self.way, self.loses)
        )


def begin(state: Any, paces: Paces, training: bool, engine: Any) -> CallStretch:
    """Returns the stretch of an outermost call that begins now; `state` is the thread's."""
    stretch = before = HERE.stretch
    batch = state.batch
    waits = batch is not None and not batch.empty
    if stretch is not None and not stretch.inside:
        if not stretch.eager and stretch.pace.decided is None:
            stretch.mark()
        if stretch.given:
            stretch.count()
            stretch.ended = stretch.ended or (not training and state.spare_of is not paces)
        if stretch.spent():
            if waits:
                batch.flush(SPENT)
                waits = False
            stretch.abandon()
        if not waits and stretch.over(training):
            HERE.stretch = None
            stretch.close()
            stretch = None
    if stretch is None:
        stretch = HERE.stretch = CallStretch(state, paces, training, engine)
        HERE.paces = paces
        stretch.follows = before is not None and before.pace is stretch.pace
    stretch.calls += 1
    if stretch.timed:
        stretch.enter()
    return stretch


def may_try() -> bool:
    """True if other ways to batch may be tried now: if eager is excluded, or batches are faster."""
    stretch = HERE.stretch
    return stretch is None or not stretch.free or stretch.pace.may_try


def keep_eager(inside: bool = True) -> None:
    """Never batch calls of what runs eagerly now: it asks for gradients of results `inside` of them, or after each one.

    A batch may have to refuse that, as it is one function to autograd, and could run nothing together in any case.
    """
    stretch = HERE.stretch
    if stretch is not None and stretch.free and stretch.eager and not stretch.pace.pinned:
        stretch.count()
        stretch.pace.single = not inside and stretch.follows and stretch.calls == 1
        stretch.pace.pinned = inside or stretch.pace.single


def turn_eager() -> bool:
    """Never batch calls of what is batched now and asks for what a batch refuses; False if its way is named."""
    stretch = HERE.stretch
    if stretch is None or not stretch.free:
        return False
    stretch.pace.pinned = True
    return True


def captures_whole(joined: bool | None = None) -> bool:
    """True if calls that are loops are captured whole now.

    joined: whether such calls of other shapes run together; None where nobody looks for that.
    """
    stretch = HERE.stretch
    if stretch is None or joined is None:
        return stretch is not None and stretch.pace.whole
    return stretch.pace.joins(joined)


def note_loop() -> None:
    """Notes that a call is a loop, and captured iteration by iteration."""
    stretch = HERE.stretch
    if stretch is not None:
        stretch.pace.loops = True


def note_order() -> None:
    """Notes that one of the first calls has written to weights: if others do, too, their order matters.

    A single one may have set them up by its sample. Batched, what waits would run before each write.
    """
    stretch = HERE.stretch
    if stretch is not None and stretch.free:
        stretch.pace.written += 1
        stretch.pace.pinned = stretch.pace.pinned or stretch.pace.written > 1


def measured() -> list[str]:
    """Returns the pace of the block that this thread called last, if it is timed against eager execution."""
    paces = HERE.paces
    return [] if paces is None else [str(pace.summary()) for pace in paces.phases if pace.seconds]


def note_flush(way: Setting, named: bool, unlike: bool) -> None:
    """Adds a flush to the stretch; one with a named way belongs to another block, whose report shows no paces.

    unlike: whether schedulers were compared in it, or its steps profiled.
    """
    stretch = HERE.stretch
    if named:
        HERE.paces = None
    elif stretch is not None:
        stretch.unlike = stretch.unlike or unlike
        stretch.way = f"{way.granularity}/{way.scheduler}"


def note_trial(chooser: Any) -> None:
    """Notes that a batch starts as a trial of another way, by its `chooser`."""
    stretch = HERE.stretch
    if stretch is not None:
        stretch.explores = chooser


class _Here(threading.local):
    stretch: CallStretch | None = None
    paces: Paces | None = None
    held = 0  # regions in which nothing runs eagerly by choice
    begun = 0.0  # when something began to be traced


HERE = _Here()
"""The stretch of this thread."""


def close() -> None:
    """Ends a stretch, at an optimizer's step or the end of a scope."""
    stretch = HERE.stretch
    if stretch is not None and not stretch.inside:
        HERE.stretch = None
        stretch.count()
        stretch.close()


def drop() -> None:
    """Ends a stretch without counting it."""
    stretch, HERE.stretch = HERE.stretch, None
    if stretch is not None:
        stretch.drop()


class _Work:
    """A context: work inside belongs to the stretch, and `marks` its end if outermost."""

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
                stretch.end()


FLUSH = _Work(False)
"""For `with`: a flush, after which a stretch of inference has ended."""
BACKWARD = _Work(True)
"""For `with`: a backward pass, after which a stretch of training has ended."""


class _Trace:
    """A context in which something is traced, for the first time or again."""

    __slots__ = ()

    def __enter__(self) -> None:
        HERE.begun = CLOCK.now()

    def __exit__(self, *error: object) -> None:
        stretch = HERE.stretch
        if stretch is not None:
            stretch.traced += CLOCK.now() - HERE.begun
            stretch.traces += 1


TRACE = _Trace()
"""For `with`: what is traced inside is not traced again."""


class _Batched:
    """A context in which nothing runs eagerly by choice."""

    __slots__ = ()

    def __enter__(self) -> None:
        close()
        HERE.held += 1

    def __exit__(self, *error: object) -> None:
        HERE.held -= 1
        drop()


BATCHED = _Batched()
"""For `with`: what is to be seen inside is what batches do."""
