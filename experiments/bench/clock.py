"""Timing rules: fresh shuffled minibatches, systems in turns, from sample objects to finished results."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from tqdm import tqdm

from experiments.bench.jit import HOST_PARTS, PARTS, Figures

PHASES = ("train", "inference")
WARM_UP = 14  # minibatches, in which the library has chosen how to batch
FIRST_LOOK = 8  # samples that tell how fast a system is that runs them one by one
MOST_MINIBATCHES = 8  # of one system in one repeat
PROFILED = 3  # minibatches that are taken apart at the end


class Timed(Protocol):
    """One system to time; `experiments.bench.base` says more of each."""

    name: str
    one_by_one: bool

    @property
    def label(self) -> str:
        """The name in tables."""

    @property
    def sharing(self) -> bool | None:
        """True if equal work is done once; None if that does not apply."""

    def timed(self, phase: str, samples: Sequence[Any]) -> float:
        """Run one minibatch and return its seconds."""

    def figures(self) -> Figures | None:
        """Return the figures of the last minibatch, if the system has any."""

    def profile(self, phase: str, samples: Sequence[Any]) -> Figures | None:
        """Run one minibatch, its parts timed apart."""


AnyTimed = TypeVar("AnyTimed", bound=Timed)


class Minibatches:
    """Shuffled minibatches without end, each drawn once; when the samples run out, a new shuffle follows."""

    def __init__(self, samples: Sequence[Any], size: int, seed: int) -> None:
        self._samples = samples
        self.size = size
        self._rng = np.random.default_rng([seed, 4])
        self._order = self._rng.permutation(0)

    def draw(self, count: int) -> list[list[Any]]:
        """Return the next `count` minibatches."""
        return [self._next() for _ in range(count)]

    def _next(self) -> list[Any]:
        if len(self._order) < self.size:
            self._order = self._rng.permutation(len(self._samples))
        taken, self._order = self._order[: self.size], self._order[self.size :]
        return [self._samples[index] for index in taken]


@dataclass
class Timing:
    """Times of one system in one phase."""

    amount: int = 0  # samples in one repeat
    rates: list[float] = field(default_factory=list)  # samples a second, one for each repeat
    samples: int = 0
    figures: list[Figures] = field(default_factory=list)  # of the timed minibatches
    profile: list[dict[str, float]] = field(default_factory=list)  # milliseconds, with a wait after each part

    @property
    def rate(self) -> float:
        """The median of the repeats."""
        return median(self.rates)

    def mean(self, name: str) -> float | None:
        """The mean of one figure over the timed minibatches."""
        values = [getattr(figures, name) for figures in self.figures]
        return sum(values) / len(values) if values else None

    def cache(self) -> dict[str, int] | None:
        """Hits and misses over all timed minibatches."""
        if not self.figures:
            return None
        return {name: sum(getattr(figures, name) for figures in self.figures) for name in ("hits", "misses")}

    def ms(self) -> dict[str, float] | None:
        """Milliseconds of each part in a minibatch; the host's own work is that of the timed minibatches."""
        if not self.profile:
            return None
        timed = [figures.ms for figures in self.figures]
        return {part: _mean(timed if part in HOST_PARTS else self.profile, part) for part in PARTS}


def _mean(times: Sequence[dict[str, float]], part: str) -> float:
    return sum(found[part] for found in times) / len(times)


def warm_up(system: Timed, phase: str, minibatches: Minibatches, seconds: float) -> Timing:
    """Let a system trace, compile and allocate, and choose how many samples fill `seconds`."""
    batches = minibatches.draw(WARM_UP)
    if system.one_by_one:
        batches = [batch[:FIRST_LOOK] for batch in batches]
    size = minibatches.size
    rate = [len(batch) / system.timed(phase, batch) for batch in batches][-1]
    if system.one_by_one and rate * seconds < size:
        return Timing(amount=max(FIRST_LOOK, int(rate * seconds)))
    return Timing(amount=size * min(MOST_MINIBATCHES, int(np.ceil(rate * seconds / size))))


def measure(system: Timed, phase: str, timing: Timing, batches: Sequence[Sequence[Any]]) -> None:
    """Time one repeat: the first `timing.amount` samples of these minibatches."""
    gc.collect()
    left, spent = timing.amount, 0.0
    for batch in batches:
        part = batch[:left]
        if not part:
            break
        spent += system.timed(phase, part)
        left -= len(part)
        if (figures := system.figures()) is not None:
            timing.figures.append(figures)
    done = timing.amount - left
    timing.samples += done
    timing.rates.append(done / spent)


def profile(system: Timed, phase: str, timing: Timing, batches: Sequence[Sequence[Any]]) -> None:
    """Time the parts of some more minibatches; the waits this needs make it slower than `measure`."""
    for batch in batches:
        if (figures := system.profile(phase, batch)) is not None:
            timing.profile.append(figures.ms)


def turns(systems: Sequence[AnyTimed], repeats: int) -> Iterator[tuple[str, list[AnyTimed]]]:
    """Yield the phase and the order of systems, which moves on from repeat to repeat."""
    for repeat in range(repeats):
        for phase in PHASES:
            at = repeat % len(systems)
            yield phase, [*systems[at:], *systems[:at]]


class Measured(NamedTuple):
    """The timings by label and phase, and by label why a system has none: it failed on the way."""

    timings: dict[tuple[str, str], Timing]
    lost: dict[str, str]


def measure_all(
    systems: Sequence[Timed],
    minibatches: Minibatches,
    repeats: int,
    seconds: float,
    fails_with: tuple[type[Exception], ...] = (),
) -> Measured:
    """Time all systems in turns, `seconds` long about each time; one that `fails_with` this is left out from there."""
    timings: dict[tuple[str, str], Timing] = {}
    lost: dict[str, str] = {}

    def attempt(system: Timed, phase: str, what: str, do: Callable[[], None]) -> None:
        bar.set_description(f"{what}{phase}, {system.label}")
        if system.label not in lost:
            try:
                do()
            except fails_with as error:
                lost[system.label] = str(error)
        bar.update()

    def begin(system: Timed, phase: str) -> None:
        timings[system.label, phase] = warm_up(system, phase, minibatches, seconds)

    def once(system: Timed, phase: str, batches: Sequence[Sequence[Any]]) -> None:
        measure(system, phase, timings[system.label, phase], batches)

    def apart(system: Timed, phase: str, batches: Sequence[Sequence[Any]]) -> None:
        profile(system, phase, timings[system.label, phase], batches)

    with tqdm(total=len(systems) * len(PHASES) * (repeats + 2), unit="measurement", leave=False, disable=None) as bar:
        for phase in PHASES:
            for system in systems:
                attempt(system, phase, "warm-up, ", partial(begin, system, phase))
        for phase, order in turns(systems, repeats):
            running = [system for system in order if system.label not in lost]
            most = max((timings[system.label, phase].amount for system in running), default=0)
            batches = minibatches.draw(-(-most // minibatches.size))
            for system in order:
                attempt(system, phase, "", partial(once, system, phase, batches))
        for phase in PHASES:
            for system in systems:
                batches = minibatches.draw(PROFILED)
                attempt(system, phase, "parts, ", partial(apart, system, phase, batches))
    return Measured({key: timing for key, timing in timings.items() if key[0] not in lost}, lost)


def row_of(workload: str, batch_size: int, system: Timed, phase: str, timing: Timing) -> dict[str, Any]:
    """Return the row of one system in one phase."""
    return {
        "workload": workload,
        "system": system.name,
        "phase": phase,
        "batch_size": batch_size,
        "sharing": system.sharing,
        "samples_per_s": timing.rate,
        "min": min(timing.rates),
        "max": max(timing.rates),
        "samples_timed": timing.samples,
        "launches_per_batch": timing.mean("launches"),
        "lower_bound_per_batch": timing.mean("lower_bound"),
        "cache": timing.cache(),
        "ms": timing.ms(),
    }
