"""Eager as one of the ways: keeps eager or batched execution, whichever is faster per outermost call.

The unit is seconds per outermost call: its forward pass and, in training, its share of backward and of what follows up
to the optimizer's step. It is measured over stretches (see `gluonjit.hybrid.choose.pacing`): eagerly first, then both
ways in turns.

Calls that are loops (with MXNet those of blocks with a `forward` of their own) are captured iteration by iteration, or
whole, as one node: `whole` first where calls of all shapes run together, or a minibatch has many of each shape, later
where it has several. If the first of both ways is slower than eager, the other one is compared with eager anew.

The cost of trials is bounded. A trial is a stretch in another way than the one kept: batched, as long as nothing is
decided; later with other schedulers, or captured otherwise. All trials together may lose the time of `_GRANT` calls and
the fraction `_SHARE` of all seconds so far. A trial that exceeds this is abandoned.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from copy import copy
from math import inf
from statistics import median
from typing import Any, NamedTuple

_CALLS, _STRETCHES = 8, 2  # that run eagerly before the first trial: the first ones take longer than those to come
_GRANT, _STRETCHES_LOST = 640.0, 10.0  # calls, but no more than this many stretches of them
_SHARE = 0.05
_LESS = 0.5  # of what an abandoned trial has lost the next one is to be allowed: some of its traces are there
_TRACE = 0.02  # seconds: the first trial is to be allowed a trace, which is not abandoned
_SURE = (2.0, 1.3, 1.0)  # by how much batches have to be faster where one, two, or three trials are to decide
_SLOWER = (4.0, 1.3, 1.0)  # and by how much slower: the first one finds everything cold
_ENOUGH = len(_SURE)
_FAR = _SURE[0]
_HOPELESS = 4.0  # and two that were traced in, if they were this many times as slow without what the tracing took
_SEEN, _LOSES = 8, 1.25  # and two in which half of so many calls alone took so many times as long as eager ones,
_ALL_SEEN, _ALL_LOSE = 3, 2.0  # or each of so many; one is enough if it was hopeless, too
_TIE = 0.95  # batches that are no faster than that are not worth their first minibatches
_MOST = 8  # trials after which it is decided by what there is: tracing is what this program does
_WORSE = 1.1  # batches that have become so much slower than eager was are compared anew
_MANY = 9  # batched stretches whose median may not be above that of the eager ones
_LONGEST = 256  # calls whose shapes are known
_KEPT = 15  # stretches of each way whose median counts
_DOUBTED = 3  # eager stretches that are timed of a choice that an earlier process has made
_OTHERWISE = 1.5  # and compared anew if the fastest of them is so much faster or slower than eager calls were then
_BEYOND = 4.0  # times what batches take now: eager calls that were slower then are not compared anew
_ALIKE = 2  # calls of each shape in a stretch, on average, from which on loops may be captured whole,
_MANY_ALIKE = 4  # and from which on they are at first
_PROBES = 3  # calls that are captured whole to see whether those of other shapes run together
_WHOLE = 0.5  # of what trials may lose in any case, which they may lose again then
_MOST_CALLS = 1 << 40  # of a stretch, in a file
_AGAIN = 256  # stretches after which eager is compared anew, and twice as many each time


class StretchOutcome(NamedTuple):
    """The outcome of a stretch: this many outermost calls, in this many seconds; 0 where it was not timed.

    rate: seconds of a call that was batched, without what tracing took, 0 where few were; unlike: whether something was
    done that is not in every minibatch; whole: whether it was not abandoned; explores: whether it was captured to see
    whether that is better than the way that is kept; way: the way to batch, as it is shown; loses: whether it was
    abandoned because its calls by themselves were slower than eager ones, seconds of one, else 0.
    """

    eager: bool
    seconds: float
    calls: int
    rate: float = 0.0
    unlike: bool = False
    whole: bool = True
    explores: bool = False
    way: str = ""
    loses: float = 0.0


class PaceSummary(NamedTuple):
    """A page on one phase of a block: all that is known of it.

    decided: "eager", "batched", or "" while both are compared; eager, batched: seconds of an outermost call, None
    where they are not known; calls: those of a stretch; way: the way to batch; origin: the day and file of what an
    earlier process has learned, as long as it has not been compared anew.
    """

    training: bool
    decided: str
    eager: float | None
    batched: float | None
    calls: int
    way: str
    origin: str = ""

    def __str__(self) -> str:
        phase = "training" if self.training else "inference"
        decided = {"": "not decided yet", "eager": "runs eagerly", "batched": "runs batched"}[self.decided]
        eager, batched = (None if each is None else f"{1e3 * each * self.calls:.1f}" for each in self[2:4])
        known = f"eager: {eager or '?'} ms per minibatch ({self.calls} calls)"
        if batched:
            known += f", {self.way or 'batched'} {batched}"
        return f"{known} in {phase}; {decided}{f' (kept from {self.origin})' if self.origin else ''}"


class Pace:
    """The pace of one phase, training or inference, of one block: all that is known of it."""

    seconds = 0.0  # of all stretches
    lost = 0.0  # of them what trials have taken longer than they would have in the way that is kept
    way = ""
    calls = 0  # of the last batched stretch
    kept_at = 0.0  # seconds of a batched call when that was decided; 0 where it has been doubted
    pinned = False  # whether it may not run batched
    single = False  # as each call is differentiated by itself, for the program to go on from
    written = 0  # of the first calls, which have written to weights
    loops = False  # whether there are calls that are loops
    whole = False  # whether these are captured whole
    few = False  # whether they come in few shapes
    probes = _PROBES  # that are left
    turned = False  # whether that has been changed, as it was slower than eager
    decided: bool | None = None  # True: eager

    def __init__(self, training: bool) -> None:
        self.training = training
        self.again = _AGAIN
        self.told: Callable[[], None] | None = None  # is called when it is decided
        self.shapes: deque[Hashable] = deque(maxlen=_LONGEST)  # of the last calls that were compared; None: of no shape
        self.compare_again()

    def compare_again(self) -> None:
        """Compares both ways again. The time lost by trials still counts."""
        self.returns = self.decided is False  # from batches, which are no trials
        self.decided = None  # first: an interrupt leaves no decision without its times
        self.eager: list[float] = []  # seconds a call
        self.batched: list[float] = []  # of whole stretches in which nothing was traced
        self.strange: list[float] = []  # of those in which something was
        self.met = 0  # eager calls
        self.trials = 0  # stretches that were batched, abandoned or not
        self.hopeless = 0  # of them far slower than eager, whatever was traced
        self.needed = _TRACE  # seconds that the next trial has to be allowed to lose
        # Seconds of a call in the way that is kept, as far as they are known; eagerly as long as none is.
        self.unit = 0.0
        self.origin = ""  # of what an earlier process has learned
        self.doubted: list[float] = []  # seconds of an eager call, in the first stretches since
        self.doubts = 0  # such stretches that are to come
        self.size = 0  # calls of the stretch by which it was decided
        self.since = 0  # stretches since
        self.unlike = 0  # of them, one after the other, that were of another size or slower

    def follow(self, other: Pace) -> None:
        """Goes on where `other`, of a block of the same sort, has come to, as long as both are undecided."""
        if self.decided is other.decided is None and not other.pinned:
            vars(self).update({name: copy(known) for name, known in vars(other).items()})

    def _measure(self) -> None:
        self.unit = _typical(self.batched if self.decided is False else self.eager)

    @property
    def grant(self) -> float:
        """Seconds that trials may lose in any case."""
        return min(_GRANT, _STRETCHES_LOST * max(self.calls, 1)) * self.unit

    @property
    def allowed(self) -> float:
        """Seconds that trials may lose now."""
        return self.grant + _SHARE * self.seconds - self.lost

    @property
    def wants_eager(self) -> bool:
        """True if the next stretch should run eagerly."""
        if self.pinned:
            return True
        if self.decided is not None:
            return self.decided
        return self._turns or (self.needed >= self.allowed and not self.returns)

    @property
    def _turns(self) -> bool:
        """True if it is eager's turn to be measured."""
        return len(self.eager) < _STRETCHES + self.trials or self.met < _CALLS

    @property
    def settled(self) -> bool:
        """True if the next stretch runs eagerly and need not be timed."""
        return self.wants_eager and not self.doubts and (self.decided is not None or not self._turns)

    @property
    def compares(self) -> bool:
        """True if the next stretch must be timed to its end."""
        return self.decided is None or self.doubts > 0

    @property
    def may_try(self) -> bool:
        """True if other ways to batch may be tried: once batching is decided."""
        return self.decided is False and self.allowed > self.needed

    def _repeats(self, times: int) -> bool:
        """True if calls come in few shapes: on average so many times each in a stretch."""
        count = min(len(self.shapes), max(self.calls, _SEEN))
        last = list(self.shapes)[-count:]
        return count >= _SEEN and None not in last and times * len(set(last)) <= count

    def joins(self, joined: bool) -> bool:
        """True if a loop is to be captured whole: those of its shape repeat, others are `joined`, or it is a probe."""
        if self.turned or self.few:
            return self.whole
        self.whole = joined
        self.probes -= not joined
        return joined or self.probes >= 0

    def begin(self, beside: Pace) -> None:
        """Begins a stretch; `beside` is the block's other phase, whose way to batch this one has first."""
        if not self.trials and self.decided is None and not self.turned:
            decided = beside.decided is False
            self.few = beside.few if decided else self._repeats(_MANY_ALIKE)
            self.whole = beside.whole if decided else self.few

    def spent(self, seconds: float, calls: int) -> bool:
        """True if a trial that has taken so long, for this many calls so far, has spent what it may lose."""
        return seconds - self.unit * calls > self.allowed

    def loses(self, took: list[float]) -> float:
        """Seconds of a call of a trial in which nothing was traced, if it loses, whatever follows; else 0.

        What comes after the calls, as backward passes do, is part of the time of eager ones.
        """
        if self.decided is not None or len(took) < _ALL_SEEN:
            return 0.0
        many = len(took) >= _SEEN
        each = median(took) if many else min(took)
        return each if each > (_LOSES if many else _ALL_LOSE) * self.unit else 0.0

    def add(self, ran: StretchOutcome) -> None:
        """Counts a stretch."""
        each = ran.seconds / ran.calls
        self.seconds += ran.seconds or self.unit * ran.calls
        usual = not (ran.unlike or ran.explores) and ran.whole
        if ran.eager:
            self.calls = max(self.calls, ran.calls) if usual else self.calls  # it may have ended before a minibatch
        elif ran.whole and not ran.explores:
            self.calls = ran.calls
        if not ran.eager and (self.decided is None or not usual):
            self._lose(ran)
        if self.decided is not None:
            self._watch(ran, each, usual)
        elif ran.eager and not ran.seconds:
            return  # it was not timed
        elif ran.eager:
            self.met += ran.calls
            self.eager = [*self.eager[1 - _KEPT :], each]
            self._measure()
            self._decide()
        else:
            self.trials += 1
            self.way = ran.way or self.way
            if ran.whole:
                faster = not ran.explores and each < _TIE * self.unit  # even with what comes once
                known = self.batched if usual or faster else self.strange
                known.append(each)
            self.hopeless += (ran.loses > 0) + (not usual and max(ran.loses, ran.rate) > _HOPELESS * self.unit)
            cold = _SLOWER[min(self.trials, _ENOUGH) - 1] if self.whole and not self.few else 1.0
            slower = ran.loses > 0 or ran.rate > (cold if ran.whole else _HOPELESS) * self.unit
            slower = slower and ran.calls >= _SEEN  # one of few calls may have been the first of its shape
            if slower and self.loops and not self.turned and (self.whole or self._repeats(_ALIKE)):
                self._turn()
            else:
                self._decide()

    def _lose(self, ran: StretchOutcome) -> None:
        """Counts the loss of a trial. Traces are not repeated; the next trial after an abandoned one may lose half."""
        lost = ran.seconds - self.unit * ran.calls
        self.lost = max(self.lost + lost, -self.grant)
        traced = self.decided is None and ran.whole
        less = _LESS * min(lost, self.grant)
        if 0.0 < ran.rate < self.unit:  # it was abandoned because of what it traced, which is there now
            less = min(less, _TRACE)
        self.needed = 0.0 if traced else lost if self.decided is False else less

    def _decide(self) -> None:
        """Keeps a way if it is far better, or if enough is known of both."""
        if not self.eager or not self.trials:
            return
        ratio, trials = _typical(self.batched) / self.unit, min(len(self.batched), _ENOUGH) - 1
        if self.batched and not 1 / _SURE[trials] < ratio < _SLOWER[trials]:
            self._keep(ratio > _TIE)
        elif not self.batched and self.strange and self.strange[-1] * _FAR < self.unit:  # even so
            self.batched.append(self.strange[-1])
            self._keep(False)
        elif self.trials >= _MOST and len(self.strange + self.batched) >= _ENOUGH:
            self.batched = [*self.strange, *self.batched][-_ENOUGH:]
            self._keep(median(self.batched) > _TIE * self.unit)
        elif self.trials >= _MOST or self.hopeless >= 2:
            self._keep(True)

    def _turn(self) -> None:
        """Compares anew, with the other way to capture loops."""
        self.whole, self.turned = not self.whole, True
        self.lost = min(self.lost, (1.0 - _WHOLE) * self.grant + _SHARE * self.seconds)
        self.compare_again()
        self._measure()

    def _keep(self, eager: bool) -> None:
        self.decided, self.size, self.since, self.unlike, self.needed = eager, self.calls, 0, 0, 0.0
        self._measure()
        self.kept_at = 0.0 if eager or self.kept_at else self.unit
        if self.told is not None:
            self.told()

    def _watch(self, ran: StretchOutcome, each: float, usual: bool) -> None:
        """Compares again at another size of stretches, if batches are slower than eager, or after a long time."""
        if ran.eager and ran.seconds and self.doubts:
            self._doubt(each)
        marked = self.training or not ran.eager  # else there is no telling how many calls come together
        self.since += 1 if marked else max(1, ran.calls // max(self.size, 1))
        if usual and not ran.eager:
            self.batched = [*self.batched[1 - _KEPT :], each]
            self._measure()
            self.way = ran.way or self.way
        other = marked and not self.size <= 2 * ran.calls <= 4 * self.size
        slow = usual and not ran.eager and bool(self.eager) and self._slow(each)
        self.unlike = self.unlike + 1 if other or slow else 0
        late = bool(self.decided) and self.since >= self.again
        if self._outgrown():
            self.compare_again()
        elif self.unlike >= _ENOUGH or late:
            self.again *= 2 if late else 1
            self.calls = 0 if other else self.calls
            self.compare_again()

    def _doubt(self, each: float) -> None:
        """Compares an earlier process's choice again if calls take another time than then."""
        self.doubts -= 1
        self.doubted.append(each)
        ratio = min(self.doubted) / median(self.eager)
        if not self.doubts and not 1 / _OTHERWISE < ratio < _OTHERWISE:
            self.compare_again()

    def _outgrown(self) -> bool:
        """Tells, once, that batches take so much less than when they were kept that eager calls would, too.

        Those would still be slower if they took several times as long then as batches do now.
        """
        last = self.batched[-_MANY:]
        if self.decided or len(last) < _MANY or median(last) * _OTHERWISE >= self.kept_at:
            return False
        return median(self.eager) < _BEYOND * median(last)

    def _slow(self, each: float) -> bool:
        """True if batches are slower than eager was: this one by far, or most of many."""
        eager, many = median(self.eager), len(self.batched) >= _MANY
        return each > _WORSE * eager or (many and median(self.batched[-_MANY:]) > eager)

    def summary(self) -> PaceSummary:
        """Sums up what is known."""
        decided = "eager" if self.decided or self.pinned else "" if self.decided is None else "batched"
        eager, batched = (median(known) if known else None for known in (self.eager, self.batched or self.strange))
        return PaceSummary(self.training, decided, eager, batched, self.calls, self.way, self.origin)

    def saved_state(self) -> dict[str, Any] | None:
        """Returns the state for a later process, as plain values; None before a decision."""
        if self.decided is None:
            return None
        batched = median(self.batched) if self.batched else None
        return {
            "eagerly": self.decided,
            "eager": median(self.eager),
            "batched": batched,
            "calls": self.calls,
            "way": self.way,
            "whole": self.whole,
        }

    def restore(self, state: dict[str, Any], origin: str) -> None:
        """Starts from the state of an earlier process. Raises KeyError, TypeError or ValueError for anything else."""
        eager, batched = ([] if state[way] is None else [float(state[way])] for way in ("eager", "batched"))
        calls = state["calls"]
        told = type(state["eagerly"]) is bool and isinstance(calls, int) and 0 <= calls <= _MOST_CALLS
        if not eager or not told or not all(0 < each < inf for each in eager + batched):
            raise ValueError(f"no pace: {state}")
        self.eager, self.batched = eager, batched
        self.calls, self.way, self.origin = calls, str(state["way"]), origin
        self.whole = state.get("whole") is True
        self.seconds = eager[0] * self.calls
        self._keep(state["eagerly"])
        self.doubts = _DOUBTED if self.decided else 0


def _typical(known: list[float]) -> float:
    """The median of seconds, or the least of a few, of which the first ones take longer; 0.0 of none."""
    return median(known) if len(known) >= _ENOUGH else min(known, default=0.0)
