"""Compares two runs of one program, call by call, to find the first call whose result differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from difflib import SequenceMatcher
from inspect import signature
from typing import Any, NamedTuple

import numpy as np

from gluonjit.graph import Line, line_of, user_line
from gluonjit.hybrid.capture.structure import items_of, map_structure
from gluonjit.hybrid.choose.pacing import BATCHED

Loss = Callable[[Any, Any], Any]
Witness = Callable[[], Any]
Patch = tuple[Any, str, Any]
"""An owner, the name of its attribute, and another value."""

TOLERANCES = {"float16": 1e-2, "float64": 1e-9}
USUAL = 1e-5
_SMALLEST = 1e-6  # arrays of smaller numbers are compared as if they held this
SHARE = 1e-1  # and gradients as if they held this share of the largest: what cancels leaves rounding of what it was


@dataclass
class CallEvent:
    """One call of a run: where, on what, with what results, and the calls made inside it."""

    name: str
    sample: int
    line: Line | None
    operands: tuple[int, ...]  # addresses, which tell whose results are used
    results: list[Any] = field(default_factory=list)
    probes: list[Any] = field(default_factory=list)  # arrays whose gradients are those of the results
    inside: list[CallEvent] = field(default_factory=list)
    seen: Any = None  # by a witness, when the call was over

    def __str__(self) -> str:
        return f"{self.name} in sample {self.sample}" + (f" at {self.line}" if self.line else "")


@dataclass
class Log:
    """The calls of a run, as they are made.

    array: the class of arrays; probed: an array plus zeros that get a gradient, and these zeros, or the array and
    None if it gets none.
    """

    _array: type
    _probed: Callable[[Any], tuple[Any, Any]]
    _witness: Witness | None
    events: list[CallEvent] = field(default_factory=list)
    sample: int = 0
    _open: list[CallEvent] = field(default_factory=list)

    def call(self, name: str, operands: Any, run: Callable[[], Any]) -> Any:
        """Makes a call and log it."""
        addresses = tuple(id(array) for array in items_of(operands, self._array))
        event = CallEvent(name, self.sample, line_of(user_line()), addresses)
        (self._open[-1].inside if self._open else self.events).append(event)
        self._open.append(event)
        try:
            found = map_structure(run(), lambda item: self._noted(event, item))
            if self._witness is not None:
                event.seen = self._witness()
            return found
        finally:
            self._open.pop()

    def _noted(self, event: CallEvent, item: Any) -> Any:
        if not isinstance(item, self._array):
            return item
        array, probe = self._probed(item)
        event.probes.append(probe)
        event.results.append(array)
        return array


class RunOutcome(NamedTuple):
    """One run: outputs of each sample, gradients by what they are of."""

    outputs: list[list[Any]]
    gradients: dict[str, Any]


def called(
    net: Any, samples: Sequence[Any], loss: Loss | None, array: type, log: Log | None, weighted: Callable[[Any], Any]
) -> tuple[list[list[Any]], list[Any]]:
    """Returns the output arrays of each call of the net, and the start of backward: losses, or `weighted` outputs."""
    outputs: list[list[Any]] = []
    losses: list[Any] = []
    spread = _are_arguments(net, samples)
    for number, sample in enumerate(samples):
        if log is not None:
            log.sample = number
        output = net(*sample) if spread and isinstance(sample, tuple) else net(sample)
        outputs.append(list(items_of(output, array)))
        losses += [loss(output, sample)] if loss is not None else weighted(outputs[-1])
    return outputs, losses


def _are_arguments(net: Any, samples: Sequence[Any]) -> bool:
    """True if tuples are the arguments of calls, False if each is one; raises TypeError where neither can be."""
    try:
        takes = signature(net.forward).bind
    except (AttributeError, ValueError):  # nobody knows what it takes
        return True
    try:
        for sample in samples:
            takes(*sample) if isinstance(sample, tuple) else takes(sample)
    except TypeError as error:
        try:
            takes(sample)
        except TypeError:
            what = f"a tuple of {len(sample)}" if isinstance(sample, tuple) else f"a {type(sample).__name__}"
            raise TypeError(
                f"gluonjit.verify({type(net).__name__}, ...): a sample is {what}, with which forward cannot be called: "
                f"{error}. A tuple is taken as the arguments of a call, or as one argument."
            ) from None
        return False
    return True


@contextmanager
def swapped(patches: Sequence[Patch]) -> Iterator[None]:
    """Returns a context in which attributes have other values."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in patches]
    try:
        for owner, name, value in patches:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


@contextmanager
def batched_with(
    net: Any, key: str, options: dict[str, Any], switch: Callable[[Any, dict[str, Any] | None], None]
) -> Iterator[None]:
    """Returns a context in which the net is batched with these options, or its own, wherever possible.

    `switch` turns batching on with options, or off.
    """
    cell = net.__dict__.get(key)
    if cell is not None and not options:
        with BATCHED:
            yield
        return
    switch(net, options)
    try:
        with BATCHED:
            yield
    finally:
        own = None if cell is None else cell.options
        switch(net, own and {field.name: getattr(own, field.name) for field in fields(own)})


class Difference(NamedTuple):
    """The difference of two arrays: how much, how large they are, and where it is largest."""

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
    """Says how two arrays differ beyond rounding: max|a - b| > rtol * max(max|b|, least). NaNs equal each other."""
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


def pairs(eager: Sequence[CallEvent], batched: Sequence[CallEvent]) -> Iterator[tuple[CallEvent, CallEvent]]:
    """Pair the events of both runs for the same call, in program order; unpaired events are left out."""
    matcher = SequenceMatcher(
        None, [(event.sample, event.name) for event in eager], [(event.sample, event.name) for event in batched], False
    )
    for first, second, count in matcher.get_matching_blocks():
        for expected, actual in zip(eager[first : first + count], batched[second : second + count]):
            yield from pairs(expected.inside, actual.inside)
            yield expected, actual


def first_result(
    eager: Sequence[CallEvent], batched: Sequence[CallEvent], numbers: Callable[[Any], Any], rtol: float | None
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
    eager: Sequence[CallEvent], batched: Sequence[CallEvent], gradient: Callable[[Any], Any], rtol: float | None
) -> str | None:
    """The first call, in the order of backward, whose result's gradient differs, and the calls that gave it."""
    aligned = list(pairs(eager, batched))
    probes = [probe for expected, _ in aligned for probe in expected.probes if probe is not None]
    least = SHARE * max((largest(gradient(probe)) for probe in probes), default=0.0)
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
