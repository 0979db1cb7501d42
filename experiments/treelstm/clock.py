"""Timing rules: fresh shuffled minibatches, systems in turns, from sample objects to finished results."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import Any

import mxnet as mx
import numpy as np

from experiments.data.trees import Pair
from experiments.treelstm.jit import HOST_PARTS, PARTS, Figures
from experiments.treelstm.systems import Dynamic, PairByPair, System

PHASES = ("train", "inference")
WARM_UP = 14  # minibatches, in which the library has chosen how to batch
FIRST_LOOK = 8  # pairs that tell how fast a system is that runs them one by one
MOST_MINIBATCHES = 8  # of one system in one repeat


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
    """What was measured of one system in one phase."""

    amount: int = 0  # pairs in one repeat
    rates: list[float] = field(default_factory=list)  # pairs a second, one for each repeat
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


def run(system: System, phase: str, pairs: Sequence[Pair]) -> float:
    """Run one minibatch and return its seconds, the engine's work included."""
    mx.nd.waitall()
    began = perf_counter()
    if phase == "train":
        system.step(pairs)
    else:
        system.scores(pairs)
    mx.nd.waitall()
    return perf_counter() - began


def warm_up(system: System, phase: str, minibatches: Minibatches, seconds: float) -> Timing:
    """Let a system trace, compile and allocate, and choose how many pairs fill `seconds`."""
    batches = minibatches.draw(WARM_UP)
    if isinstance(system, PairByPair):
        batches = [batch[:FIRST_LOOK] for batch in batches]
    size = minibatches.size
    rate = [len(batch) / run(system, phase, batch) for batch in batches][-1]
    if isinstance(system, PairByPair) and rate * seconds < size:
        return Timing(amount=max(FIRST_LOOK, int(rate * seconds)))
    return Timing(amount=size * min(MOST_MINIBATCHES, int(np.ceil(rate * seconds / size))))


def measure(system: System, phase: str, timing: Timing, batches: Sequence[Sequence[Pair]]) -> None:
    """Time one repeat: the first `timing.amount` pairs of these minibatches."""
    gc.collect()
    left, spent = timing.amount, 0.0
    for batch in batches:
        part = batch[:left]
        if not part:
            break
        spent += run(system, phase, part)
        left -= len(part)
        if isinstance(system, Dynamic):
            timing.figures.append(system.figures())
    done = timing.amount - left
    timing.samples += done
    timing.rates.append(done / spent)


def profile(system: System, phase: str, timing: Timing, batches: Sequence[Sequence[Pair]]) -> None:
    """Time the parts of some more minibatches; the waits this needs make it slower than `measure`."""
    if isinstance(system, Dynamic):
        for batch in batches:
            with system.profiled():
                run(system, phase, batch)
            timing.profile.append(system.figures().ms)


def turns(systems: Sequence[System], repeats: int) -> Iterator[tuple[str, list[System]]]:
    """Yield the phase and the order of systems, which moves on from repeat to repeat."""
    for repeat in range(repeats):
        for phase in PHASES:
            at = repeat % len(systems)
            yield phase, [*systems[at:], *systems[:at]]
