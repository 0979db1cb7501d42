"""Eager as one of the ways: keeps, of eager and batched execution, the one in which an outermost call takes less.

The unit is seconds for an outermost call: its forward pass and, in training, its share of backward and of what follows
up to the optimizer's step. They are measured over stretches (see `gluonjit.hybrid.pacing`), in both ways in turns.
Looks at batching have a budget, in seconds that they lose against eager: a few calls' worth at first, and a part of
what eager calls take later. A look that has spent it is abandoned.
"""

from __future__ import annotations

from statistics import median
from typing import NamedTuple

_GRANT = 96.0  # calls' worth of eager seconds that looks may lose before anything is known
_SHARE = 0.08  # and the part of eager seconds that they may lose later
_TRAINING = 3.0  # a training call takes at least about so many forward passes
_ENOUGH = 3  # stretches of each way that decide
_MOST = 16  # looks after which it is decided by what there is
_FAR = 2.0  # one look decides where a way is so many times as fast
_SLACK = 8  # calls' worth that a look at another way to batch may take in any case
_WORSE = 1.1  # batches that have become so much slower than eager was are compared anew
_KEPT = 9  # stretches of each way whose median counts


class Shown(NamedTuple):
    """A page on one phase of a block: all that is known of it.

    decided: "eager", "batched", or "" while both are looked at; eager, batched: seconds of an outermost call, None
    where they are not known; calls: those of the last stretch.
    """

    training: bool
    decided: str
    eager: float | None
    batched: float | None
    calls: int

    def __str__(self) -> str:
        ways = (("eager", self.eager), ("batched", self.batched))
        known = [f"{name} {1e3 * each * self.calls:.1f} ms" for name, each in ways if each is not None]
        phase = "training" if self.training else "inference"
        kept = f"runs {self.decided}" if self.decided else "not decided yet"
        return f"{phase}, {self.calls} calls a minibatch: {', '.join(known) or 'not measured yet'}; {kept}"


class Pace:
    """The pace of one phase, training or inference, of one block: all that is known of it."""

    __slots__ = (
        "batched",
        "calls",
        "credit",
        "decided",
        "eager",
        "least",
        "looks",
        "needed",
        "size",
        "training",
        "unlike",
    )

    def __init__(self, training: bool) -> None:
        self.training = training
        self.forget()

    def forget(self) -> None:
        """Know nothing."""
        self.eager: list[float] = []  # seconds a call, of whole stretches
        self.batched: list[float] = []  # of whole ones in which nothing was traced
        self.least = 0.0  # seconds of an eager call, as single ones took
        self.credit = 0.0  # seconds that looks may lose
        self.decided: bool | None = None  # True: eager
        self.looks = 0  # not those that were abandoned
        self.needed = 0.0  # credit that the next one needs
        self.calls = 0  # of the last batched stretch
        self.size = 0  # of the one by which it was decided
        self.unlike = 0  # stretches since, one after the other, that were of another size or slower

    @property
    def expected(self) -> float:
        """Seconds of an eager call, as far as they are known."""
        return median(self.eager) if self.eager else self.least

    def probed(self, seconds: float) -> None:
        """Note the forward pass of a single eager call, before the first look."""
        seconds *= _TRAINING if self.training else 1.0
        self.least = min(self.least or seconds, seconds)
        self.credit = _GRANT * self.least

    @property
    def wants_eager(self) -> bool:
        """Tells whether the next stretch should run eagerly."""
        if self.decided is not None:
            return self.decided
        if len(self.eager) < (self.looks > 0) + len(self.batched):
            return True  # in turns
        return self.needed > self.credit

    def spent(self, seconds: float, calls: int) -> bool:
        """Tells whether a look that has taken so long, for so many calls so far, has spent the budget."""
        return self.decided is None and seconds - self.expected * calls > self.credit

    def far_off(self, seconds: float, calls: int) -> bool:
        """Tells whether another way to batch, which has taken so long for so many calls, is far off."""
        each = median(self.batched) if self.batched else self.expected
        return not self.decided and seconds > _FAR * each * (calls + _SLACK)

    def add(self, eager: bool, seconds: float, calls: int, usual: bool = True, whole: bool = True) -> None:
        """Take a stretch into account: not a `usual` one where something was traced in it, nor `whole` if abandoned."""
        each = seconds / calls
        if usual and not (eager and self.calls):
            self.calls = calls
        if self.decided is not None:
            self._watch(eager, each, calls, usual)
        elif eager:
            self.eager = [*self.eager[1 - _KEPT :], each]
            self.credit += _SHARE * seconds
            self._decide(each)
        else:
            self.looks += whole
            lost = seconds - self.expected * calls
            self.credit -= lost
            self.needed = 0.0 if whole else lost  # what was traced is not traced again
            if usual:
                self.batched = [*self.batched[1 - _KEPT :], each]
            self._decide(each)

    def _decide(self, each: float) -> None:
        """Keep a way where one is far better, or where enough is known of both."""
        if not self.eager or not self.looks:
            return
        if not self.batched:
            if self.looks >= _MOST:  # something is traced in every one
                self._keep(True)
            return
        ratio = median(self.batched) / self.expected
        enough = min(len(self.batched), len(self.eager)) >= _ENOUGH or self.looks >= _MOST
        if enough or not 1 / _FAR < ratio < _FAR:
            self._keep(ratio > 1)

    def _keep(self, eager: bool) -> None:
        self.decided, self.size, self.unlike = eager, self.calls, 0

    def _watch(self, eager: bool, each: float, calls: int, usual: bool) -> None:
        """Compare anew where stretches are no longer of the size that was decided by, or batches slower than eager."""
        other = not self.size <= 2 * calls <= 4 * self.size
        slow = usual and not eager and bool(self.eager) and each > _WORSE * self.expected
        self.unlike = self.unlike + 1 if other or slow else 0
        if self.unlike >= _ENOUGH:
            credit, least = self.credit, each if eager else self.expected
            self.forget()
            self.least, self.credit = least, max(credit, _GRANT * least)

    def shown(self) -> Shown:
        """Shows what is known."""
        decided = "" if self.decided is None else "eager" if self.decided else "batched"
        batched = median(self.batched) if self.batched else None
        return Shown(self.training, decided, self.expected or None, batched, self.calls)
