"""The runs of a model, eager and batched, compared: results, gradients, and what state they leave behind.

All begin from one state. What differs is reported with the call that it begins with.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, redirect_stdout
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from gluonjit.errors import GluonJITError, VerifyError
from gluonjit.hybrid.explain.report import Report
from gluonjit.hybrid.options import AUTO, NEVER
from gluonjit.hybrid.run.scope import explain
from gluonjit.hybrid.verify.leftovers import Leftovers
from gluonjit.hybrid.verify.verification import (
    SHARE,
    CallEvent,
    Difference,
    RunOutcome,
    difference,
    first_gradient,
    first_result,
    largest,
    pairs,
    swapped,
)

ABSENT = object()


class Printed:
    """Standard output that remembers what goes through it."""

    def __init__(self, through: Any) -> None:
        self._through = through
        self._parts: list[str] = []

    def write(self, text: str) -> int:
        """Passes a text on."""
        self._parts.append(text)
        return int(self._through.write(text) or 0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._through, name)

    def lines(self) -> list[str]:
        """The printed lines, without numbers and autograd histories, which are compared separately."""
        return _NUMBERS.sub("#", "".join(self._parts)).splitlines()


_NUMBERS = re.compile(r"grad_fn=<\w+>|[-+]?\b\d[\d.]*(?:e[-+]?\d+)?|\s+\n")


class Runs(NamedTuple):
    """A program's runs, in an engine."""

    run: Callable[..., RunOutcome]  # eagerly, or batched; in a mode
    watched: Callable[
        ..., list[CallEvent]
    ]  # with probes or without; eagerly, or batched; with a witness or None; in a mode
    numbers: Callable[[Any], Any]  # of an array
    gradient: Callable[[Any], Any]  # the numbers of a probe's
    off: str  # the call that turns batching off
    left: Leftovers  # what the program can change
    forget: Callable[[], None]  # all that is cached
    cells: Sequence[Any]  # what the engine knows of each part of the net
    promised: bool = False  # that calls do nothing that matters beside their results


class StateAfter(NamedTuple):
    """The state after a run by path, its printed lines, and the report of its last minibatch."""

    state: dict[str, Any]
    printed: list[str]
    report: Report


class Mode(NamedTuple):
    """The mode of a run: training or not, recording or not."""

    training: bool
    recording: bool

    def __str__(self) -> str:
        return f"with train_mode={self.training}, {'' if self.recording else 'not '}recording"


def compared(runs: Runs, rtol: float | None, train_mode: bool, present: bool) -> Report:
    """Returns the report of the batched run. Raises VerifyError, with the call, if it differs from the eager one.

    All runs start from the program's current state, which is restored at the end.
    """
    runs.left.save()
    # What is cached for the net as it is now, `present`, may be forgotten when that changes: it comes first.
    modes = [Mode(training, recording) for training in (present, not present) for recording in (True, False)]
    asked: Report | None = None
    try:
        for mode in modes:  # calls are traced for each: a trace may be stale in one alone
            at = runs._replace(run=partial(runs.run, mode=mode), watched=partial(runs.watched, mode=mode))
            eager, left = _ran(at, True)
            if mode.training != train_mode and _first(eager, runs.run(True, mode=mode), None) is not None:
                continue  # it draws, or goes on from what it was
            try:
                if mode == (train_mode, True):
                    asked = _compare(at, eager, left, rtol)
                with as_nodes(runs.cells):
                    _compare(at, eager, left, rtol)
            except VerifyError as error:
                raise VerifyError(f"{error} (This is {mode}.)") from error.__cause__
        assert asked is not None
        return asked
    finally:
        runs.left.restore()


def as_nodes(cells: Sequence[Any]) -> AbstractContextManager[None]:
    """Returns a context in which calls are nodes wherever possible, if the options leave the choice open.

    The batch may be captured otherwise at first, operator by operator, while it is the calls that are traced and kept.
    Programs are not compared at first use, which would replace the numbers that are to be compared here.
    """
    patches = []
    for cell in cells:
        granularity = "cell" if cell.options.granularity == AUTO else cell.options.granularity
        patches.append((cell, "options", replace(cell.options, granularity=granularity, check=NEVER)))
    return swapped(patches)


def _compare(runs: Runs, eager: RunOutcome, left: StateAfter, rtol: float | None) -> Report:
    """Returns the report of a batched run. Raises VerifyError if it differs from the eager one."""
    try:
        batched, left_batched = _ran(runs, False)
    except GluonJITError:
        raise
    except Exception as error:
        raise VerifyError(
            f"verify(): eager execution works, and batched execution raises {type(error).__name__}: {error}. With "
            f"{runs.off} the net runs as it should."
        ) from error
    found = _first(eager, batched, rtol)
    if found is not None:
        raise VerifyError(_explained(runs, found, rtol))
    if not runs.promised:
        _compare_left(runs, left, left_batched)
    return left_batched.report


def _ran(runs: Runs, eager: bool) -> tuple[RunOutcome, StateAfter]:
    """Runs from the saved state, and returns the state that it leaves behind."""
    runs.left.restore()
    printed = Printed(sys.stdout)
    with redirect_stdout(printed):
        outcome = runs.run(eager)
    report = explain()  # before values are read that were kept
    return outcome, StateAfter(runs.left.told(), printed.lines(), report)


def _explained(runs: Runs, found: tuple[str, Difference, bool], rtol: float | None) -> str:
    what, apart, gradient = found
    logs = []
    for eager in (True, False):
        runs.left.restore()
        logs.append(runs.watched(gradient, eager, None))
    if gradient:
        where = first_gradient(logs[0], logs[1], runs.gradient, rtol)
    else:
        where = first_result(logs[0], logs[1], runs.numbers, rtol)
    where = where or "no single call differs while calls are watched one by one"
    return (
        f"verify(): batched and eager execution differ by {apart.by:.3g}, at a scale of {apart.scale:.3g}, in {what}: "
        f"{apart}. Of the calls, {where}. {_stale(runs, rtol)}With {runs.off} the net runs as it should."
    )


def _stale(runs: Runs, rtol: float | None) -> str:
    """Says so if a cache is to blame, or returns "": with all caches cleared, both runs are compared once more."""
    eager, _ = _ran(runs, True)
    runs.forget()
    batched, _ = _ran(runs, False)
    if _first(eager, batched, rtol) is not None:
        return ""
    return (
        "With all caches cleared they agree: a call was traced when something that its Python reads, such as an "
        "attribute, a global variable or a weight, had another value. Pass it as an argument. "
    )


def _compare_left(runs: Runs, eager: StateAfter, batched: StateAfter) -> None:
    """Raises VerifyError if the batched run leaves different state behind."""
    apart = _left_apart(eager.state, batched.state)
    if runs.left.cut:  # then the two may have been followed to different places
        apart = {path: both for path, both in apart.items() if not any(item is ABSENT for item in both)}
    if apart or eager.printed != batched.printed:  # what differs from one eager run to the next tells nothing: a clock
        again = _ran(runs, True)[1]
        unsteady = _left_apart(eager.state, again.state)
        apart = {path: both for path, both in apart.items() if path not in unsteady}
    if apart:
        path, (wanted, found) = next(iter(apart.items()))
        logs = []
        for way in (True, False):
            runs.left.restore()
            logs.append(runs.watched(False, way, lambda: runs.left.told().get(path, ABSENT)))
        where = first_seen(logs[0], logs[1])
        raise VerifyError(
            f"verify(): batched and eager execution leave different state behind: {path} is {_shown(found)} "
            f"batched, and {_shown(wanted)} eagerly. {where}Side effects of a call must happen for every sample: "
            f"move them out of the cell. With {runs.off} the net runs as it should."
        )
    if eager.printed != batched.printed and eager.printed == again.printed:
        lines = zip_longest(eager.printed, batched.printed)
        number, (wanted, found) = next((number, both) for number, both in enumerate(lines) if both[0] != both[1])
        raise VerifyError(
            f"verify(): batched execution prints {len(batched.printed)} lines and eager execution "
            f"{len(eager.printed)}; line {number + 1} is {found!r}, and {wanted!r} eagerly. A call must print for "
            f"every sample: print outside of the cell. With {runs.off} the net runs as it should."
        )


def _left_apart(eager: dict[str, Any], batched: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Lists the differences by path, the eager value first."""
    paths = dict.fromkeys((*eager, *batched))
    both = {path: (eager.get(path, ABSENT), batched.get(path, ABSENT)) for path in paths}
    return {path: pair for path, pair in both.items() if not _same(*pair)}


def _same(wanted: Any, found: Any) -> bool:
    numbers = (float, complex, np.ndarray)
    if isinstance(wanted, numbers) and isinstance(found, numbers):
        if np.asarray(wanted).dtype.kind not in "OUS" and np.asarray(found).dtype.kind not in "OUS":
            return difference(found, wanted, None) is None
    return type(wanted) is type(found) and bool(np.all(wanted == found))


def _shown(item: Any) -> str:
    return "not there" if item is ABSENT else f"{item!r:.80}" if not isinstance(item, str) else f"{item:.80}"


def first_seen(eager: Sequence[CallEvent], batched: Sequence[CallEvent]) -> str:
    """The first call after which a witness has seen something else; "" if there is none."""
    for expected, actual in pairs(eager, batched):
        if not _same(expected.seen, actual.seen):
            return f"They diverge in the call of {actual}. "
    return ""


def _first(eager: RunOutcome, batched: RunOutcome, rtol: float | None) -> tuple[str, Difference, bool] | None:
    for number, (wanted, found) in enumerate(zip(eager.outputs, batched.outputs)):
        for expected, actual in zip(wanted, found):
            apart = difference(actual, expected, rtol)
            if apart is not None:
                return f"the output of sample {number}", apart, False
    least = SHARE * max(map(largest, eager.gradients.values()), default=0.0)
    for name, expected in eager.gradients.items():
        apart = difference(batched.gradients[name], expected, rtol, least)
        if apart is not None:
            return f"the gradient of {name}", apart, True
    return None
