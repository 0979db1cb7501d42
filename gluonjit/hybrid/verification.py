"""Comparing two runs of one program, call by call, to find the first call whose result differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, NamedTuple

import numpy as np

from gluonjit.graph import Line

TOLERANCES = {"float16": 1e-2, "float64": 1e-9}
USUAL = 1e-5
_SMALLEST = 1e-6  # arrays of smaller numbers are compared as if they held this


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

    def __str__(self) -> str:
        return f"{self.name} in sample {self.sample}" + (f" at {self.line}" if self.line else "")


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


def difference(batched: Any, eager: Any, rtol: float | None) -> Difference | None:
    """How two arrays differ, beyond rounding: max|a - b| > rtol * max|b|. NaNs are equal to each other."""
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
    finite = np.abs(expected[np.isfinite(expected)])
    scale = max(float(finite.max(initial=0.0)), _SMALLEST)
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
    for position, (expected, actual) in reversed(list(enumerate(aligned))):
        for wanted, found in zip(expected.probes, actual.probes):
            if wanted is None or found is None:
                continue
            apart = difference(gradient(found), gradient(wanted), rtol)
            if apart is not None:
                used = {id(result) for result in actual.results}
                users = [str(user) for _, user in aligned[position + 1 :] if used.intersection(user.operands)]
                by = f", which comes from the backward of {' and of '.join(users)}" if users else ""
                return (
                    f"the first gradient that differs, in the order of backward, is that of the result of {actual}"
                    f"{by}: it is {apart}"
                )
    return None
