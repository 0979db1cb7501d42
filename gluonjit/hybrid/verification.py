"""Comparing two runs of one program, call by call, to find the first call whose result differs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, fields, replace
from difflib import SequenceMatcher
from itertools import zip_longest
from sys import _getframe
from typing import Any, NamedTuple

import numpy as np

from gluonjit.errors import GluonJITError, VerifyError
from gluonjit.graph import Line, line_of, origin_of
from gluonjit.hybrid.leftovers import Leftovers
from gluonjit.hybrid.options import AUTO
from gluonjit.hybrid.report import Report
from gluonjit.hybrid.state import explain
from gluonjit.hybrid.structure import items_of, map_structure

Loss = Callable[[Any, Any], Any]
Witness = Callable[[], Any]
ABSENT = object()

TOLERANCES = {"float16": 1e-2, "float64": 1e-9}
USUAL = 1e-5
_SMALLEST = 1e-6  # arrays of smaller numbers are compared as if they held this
_SHARE = 1e-1  # and gradients as if they held this share of the largest: what cancels leaves rounding of what it was


@dataclass
class Event:
    """One call of a run: where, on what, with what results, and the calls made inside it."""

    name: str
    sample: int
    line: Line | None
    operands: tuple[int, ...]  # addresses, which tell whose results are used
    results: list[Any] = field(default_factory=list)
    probes: list[Any] = field(default_factory=list)  # arrays whose gradients are those of the results
    inside: list[Event] = field(default_factory=list)
    seen: Any = None  # by a witness, when the call was over

    def __str__(self) -> str:
        return f"{self.name} in sample {self.sample}" + (f" at {self.line}" if self.line else "")


class Log:
    """The calls of a run, as they are made.

    array: the class of arrays; probed: an array plus zeros that get a gradient, and these zeros, or the array and
    None where it gets none.
    """

    def __init__(self, array: type, probed: Callable[[Any], tuple[Any, Any]], witness: Witness | None = None) -> None:
        self._witness = witness
        self.events: list[Event] = []
        self.sample = 0
        self._open: list[Event] = []
        self._array = array
        self._probed = probed

    def call(self, name: str, operands: Any, run: Callable[[], Any]) -> Any:
        """Make a call and note it."""
        addresses = tuple([id(array) for array in items_of(operands, self._array)])
        event = Event(name, self.sample, line_of(origin_of(_getframe(1))), addresses)
        (self._open[-1].inside if self._open else self.events).append(event)
        self._open.append(event)
        try:
            found = map_structure(run(), lambda item: self._noted(event, item))
            if self._witness is not None:
                event.seen = self._witness()
            return found
        finally:
            self._open.pop()

    def _noted(self, event: Event, item: Any) -> Any:
        if not isinstance(item, self._array):
            return item
        array, probe = self._probed(item)
        event.probes.append(probe)
        event.results.append(array)
        return array


class Printed:
    """Standard output that remembers what goes through it."""

    def __init__(self, through: Any) -> None:
        self._through = through
        self._parts: list[str] = []

    def write(self, text: str) -> int:
        """Pass a text on."""
        self._parts.append(text)
        return int(self._through.write(text) or 0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._through, name)

    def lines(self) -> list[str]:
        """What was printed, without its numbers and what a framework says of histories: these are compared apart."""
        return _NUMBERS.sub("#", "".join(self._parts)).splitlines()


_NUMBERS = re.compile(r"grad_fn=<\w+>|[-+]?\b\d[\d.]*(?:e[-+]?\d+)?|\s+\n")


class Outcome(NamedTuple):
    """One run: outputs of each sample, gradients by what they are of."""

    outputs: list[list[Any]]
    gradients: dict[str, Any]


class Runs(NamedTuple):
    """A program's runs, in an engine."""

    run: Callable[[bool], Outcome]  # eagerly, or batched
    watched: Callable[[bool, bool, Witness | None], list[Event]]  # with probes or without; eagerly, or batched
    numbers: Callable[[Any], Any]  # of an array
    gradient: Callable[[Any], Any]  # the numbers of a probe's
    off: str  # the call that turns batching off
    left: Leftovers  # what the program can change
    forget: Callable[[], None]  # all that is cached
    cells: Sequence[Any]  # what the engine knows of each part of the net
    promised: bool = False  # that calls do nothing that matters beside their results


class Left(NamedTuple):
    """What a run leaves behind: by path, and as it has printed it, and the report of what it ran last."""

    state: dict[str, Any]
    printed: list[str]
    report: Report


def compared(runs: Runs, rtol: float | None) -> Report:
    """The report of the batched run. Raises VerifyError where it differs from the eager one, and says in which call.

    All runs begin with the state that the program has now, and in the end that is what it has.
    """
    runs.left.save()
    try:
        eager, left = _ran(runs, True)
        report = _compare(runs, eager, left, rtol)
        with whole(runs.cells):
            _compare(runs, eager, left, rtol)
        return report
    finally:
        runs.left.restore()


@contextmanager
def whole(cells: Sequence[Any]) -> Iterator[None]:
    """A region in which calls are nodes wherever they can be, where the library is left to choose.

    The batch may be captured otherwise at first, operator by operator, while it is the calls that are traced and kept.
    """
    before = [(cell, cell.options) for cell in cells]
    for cell, options in before:
        if options.granularity == AUTO:
            cell.options = replace(options, granularity="cell")
    try:
        yield
    finally:
        for cell, options in before:
            cell.options = options


def _compare(runs: Runs, eager: Outcome, left: Left, rtol: float | None) -> Report:
    """The report of a batched run; raises VerifyError where it differs from the eager one."""
    try:
        batched, left_batched = _ran(runs, False)
    except GluonJITError:
        raise
    except Exception as error:
        raise VerifyError(
            f"verify(): eager execution runs, and batched execution raises {type(error).__name__}: {error}. With "
            f"{runs.off} the net runs as it should."
        ) from error
    found = _first(eager, batched, rtol)
    if found is not None:
        raise VerifyError(_explained(runs, found, rtol))
    if not runs.promised:
        _compare_left(runs, left, left_batched)
    return left_batched.report


def _ran(runs: Runs, eager: bool) -> tuple[Outcome, Left]:
    """A run from the state that was kept, and what it leaves behind."""
    runs.left.restore()
    printed = Printed(sys.stdout)
    with redirect_stdout(printed):
        outcome = runs.run(eager)
    report = explain()  # before values are read that were kept
    return outcome, Left(runs.left.told(), printed.lines(), report)


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
    """Whether what is cached is to blame: with all of it made anew, both runs are compared once more."""
    eager, _ = _ran(runs, True)
    runs.forget()
    batched, _ = _ran(runs, False)
    if _first(eager, batched, rtol) is not None:
        return ""
    return (
        "Once everything that was cached is forgotten they agree: a call was traced when something that its Python "
        "reads, such as an attribute, a global variable or a weight, was not what it is now. Pass it as an argument. "
    )


def _compare_left(runs: Runs, eager: Left, batched: Left) -> None:
    """Raise where the batched run leaves something else behind."""
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
            f"verify(): batched and eager execution leave different things behind: {path} is {_shown(found)} "
            f"batched, and eagerly {_shown(wanted)}. {where}What a call does beside giving results has to happen "
            f"for every sample: do it outside of the cell. With {runs.off} the net runs as it should."
        )
    if eager.printed != batched.printed and eager.printed == again.printed:
        lines = zip_longest(eager.printed, batched.printed)
        number, (wanted, found) = next((number, both) for number, both in enumerate(lines) if both[0] != both[1])
        raise VerifyError(
            f"verify(): batched execution prints {len(batched.printed)} lines and eager execution "
            f"{len(eager.printed)}; line {number + 1} is {found!r}, and eagerly {wanted!r}. What a call prints has to "
            f"be printed for every sample: print outside of the cell. With {runs.off} the net runs as it should."
        )


def _left_apart(eager: dict[str, Any], batched: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What differs, by path, the eager one first."""
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


def first_seen(eager: Sequence[Event], batched: Sequence[Event]) -> str:
    """The first call after which a witness has seen something else; "" where there is none."""
    for expected, actual in pairs(eager, batched):
        if not _same(expected.seen, actual.seen):
            return f"They part in the call of {actual}. "
    return ""


def _first(eager: Outcome, batched: Outcome, rtol: float | None) -> tuple[str, Difference, bool] | None:
    for number, (wanted, found) in enumerate(zip(eager.outputs, batched.outputs)):
        for expected, actual in zip(wanted, found):
            apart = difference(actual, expected, rtol)
            if apart is not None:
                return f"the output of sample {number}", apart, False
    least = _SHARE * max(map(largest, eager.gradients.values()), default=0.0)
    for name, expected in eager.gradients.items():
        apart = difference(batched.gradients[name], expected, rtol, least)
        if apart is not None:
            return f"the gradient of {name}", apart, True
    return None


def called(
    net: Any, samples: Sequence[Any], loss: Loss | None, array: type, log: Log | None, weighted: Callable[[Any], Any]
) -> tuple[list[list[Any]], list[Any]]:
    """The arrays that each call of the net gives, and what backward begins with: losses, or outputs `weighted`."""
    outputs: list[list[Any]] = []
    losses: list[Any] = []
    for number, sample in enumerate(samples):
        if log is not None:
            log.sample = number
        output = net(*sample) if isinstance(sample, tuple) else net(sample)
        outputs.append(list(items_of(output, array)))
        losses += [loss(output, sample)] if loss is not None else weighted(outputs[-1])
    return outputs, losses


@contextmanager
def batched_with(
    net: Any, key: str, options: dict[str, Any], enable: Callable[[Any, Any], None], disable: Callable[[Any], None]
) -> Iterator[None]:
    """The net with these options, or those it has; afterwards as it was."""
    cell = net.__dict__.get(key)
    if cell is not None and not options:
        yield
        return
    enable(net, options)
    try:
        yield
    finally:
        if cell is None:
            disable(net)
        else:
            enable(net, {field.name: getattr(cell.options, field.name) for field in fields(cell.options)})


class Difference(NamedTuple):
    """By how much two arrays differ, how large they are, and where they differ most."""

    by: float
    scale: float
    where: tuple[int, ...]
    batched: float
    eager: float

    def __str__(self) -> str:
        place = f"[{', '.join(map(str, self.where))}]" if self.where else ""
        return f"{self.batched:.7g} batched and {self.eager:.7g} eager{place and ' at ' + place}"


def largest(array: Any) -> float:
    """max|a|, of what is finite."""
    numbers = np.abs(np.asarray(array, np.float64))
    return float(numbers[np.isfinite(numbers)].max(initial=0.0))


def difference(batched: Any, eager: Any, rtol: float | None, least: float = 0.0) -> Difference | None:
    """How two arrays differ, beyond rounding: max|a - b| > rtol * max(max|b|, least). NaNs are equal to each other."""
    actual, expected = np.asarray(batched), np.asarray(eager)
    if actual.shape != expected.shape:
        return Difference(float("inf"), 0.0, (), float(actual.size), float(expected.size))
    if not actual.size:
        return None
    allowed = TOLERANCES.get(expected.dtype.name, USUAL) if rtol is None else rtol
    actual, expected = actual.astype(np.float64), expected.astype(np.float64)
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    apart = np.where(same, 0.0, np.abs(actual - expected))
    apart = np.where(np.isnan(apart), np.inf, apart)
    scale = max(largest(expected), least, _SMALLEST)
    most = int(np.argmax(apart))
    if apart.flat[most] <= allowed * scale:
        return None
    where = tuple(int(k) for k in np.unravel_index(most, apart.shape))
    return Difference(float(apart.flat[most]), scale, where, float(actual.flat[most]), float(expected.flat[most]))


def pairs(eager: Sequence[Event], batched: Sequence[Event]) -> Iterator[tuple[Event, Event]]:
    """Events of both runs that stand for the same call, in program order; what one run alone has is left out."""
    matcher = SequenceMatcher(
        None, [(event.sample, event.name) for event in eager], [(event.sample, event.name) for event in batched], False
    )
    for first, second, count in matcher.get_matching_blocks():
        for expected, actual in zip(eager[first : first + count], batched[second : second + count]):
            yield from pairs(expected.inside, actual.inside)
            yield expected, actual


def first_result(
    eager: Sequence[Event], batched: Sequence[Event], numbers: Callable[[Any], Any], rtol: float | None
) -> str | None:
    """The first call, in the order of the program, whose result differs."""
    for expected, actual in pairs(eager, batched):
        for number, (wanted, found) in enumerate(zip(expected.results, actual.results)):
            apart = difference(numbers(found), numbers(wanted), rtol)
            if apart is not None:
                which = f"result {number} is" if len(expected.results) > 1 else "the result is"
                return f"the first call that differs is that of {actual}, though its operands agree: {which} {apart}"
    return None


def first_gradient(
    eager: Sequence[Event], batched: Sequence[Event], gradient: Callable[[Any], Any], rtol: float | None
) -> str | None:
    """The first call, in the order of backward, whose result's gradient differs, and the calls that gave it."""
    aligned = list(pairs(eager, batched))
    probes = [probe for expected, _ in aligned for probe in expected.probes if probe is not None]
    least = _SHARE * max((largest(gradient(probe)) for probe in probes), default=0.0)
    for position, (expected, actual) in reversed(list(enumerate(aligned))):
        for wanted, found in zip(expected.probes, actual.probes):
            if wanted is None or found is None:
                continue
            apart = difference(gradient(found), gradient(wanted), rtol, least)
            if apart is not None:
                used = {id(result) for result in actual.results}
                users = [str(user) for _, user in aligned[position + 1 :] if used.intersection(user.operands)]
                by = f", which comes from the backward of {' and of '.join(users)}" if users else ""
                return (
                    f"the first gradient that differs, in the order of backward, is that of the result of {actual}"
                    f"{by}: it is {apart}"
                )
    return None
