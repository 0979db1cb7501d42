"""One run: correctness first, then systems in turns, from sample objects to updated weights or numbers on the host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from experiments.bench.base import BaseSystem
from experiments.gpu import HIDDEN, PHASES
from experiments.gpu.floor import Rates, floor_of, rates_of
from experiments.gpu.profiling import profiled
from experiments.gpu.systems import TOLERANCE, agreement, make, reference_of
from experiments.gpu.workloads import Workload, load

WARM_UP = 3  # minibatches at least
WARM_UP_DYNAMIC = 14  # in which the library has chosen how to batch, if they take no longer than
WARM_UP_SECONDS = 2.0
FEW = 16  # samples of a system that runs them one by one
CHECKED = 8  # samples on which all systems have to agree


@dataclass(frozen=True)
class Wanted:
    """Measurements to make on a device; `minutes` are the budget of the whole run."""

    device: str
    workloads: Sequence[str]
    hidden: Sequence[int]
    batch_sizes: Sequence[int]
    systems: Sequence[str]
    repeats: int
    minutes: float
    seed: int
    quick: bool
    data_dir: str | None = None


@dataclass
class Found:
    """Findings of a run; `skipped` says why rows are missing."""

    rates: Rates
    notes: dict[str, str] = field(default_factory=dict)
    correctness: list[dict[str, Any]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    floors: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[dict[str, Any]] = field(default_factory=list)


class Budget:
    """The time that is left."""

    def __init__(self, minutes: float) -> None:
        self._until = perf_counter() + 60 * minutes

    @property
    def left(self) -> float:
        """Seconds until the end, negative behind it."""
        return self._until - perf_counter()


def run(wanted: Wanted) -> Found:
    """Measure until all is done or the time is over; sizes that tell most come first."""
    budget = Budget(wanted.minutes)
    found = Found(rates_of(wanted.device, wanted.quick))
    count = max(2 * max(wanted.batch_sizes), 64)
    workloads = [load(name, wanted.data_dir, wanted.seed, count, wanted.device) for name in wanted.workloads]
    on_host = {name: load(name, wanted.data_dir, wanted.seed, CHECKED, "cpu").samples for name in wanted.workloads}
    found.notes = {workload.name: workload.note for workload in workloads}
    longest = 0.0
    for hidden, workload in product(_by_interest(wanted.hidden), workloads):
        where = {"workload": workload.name, "hidden": hidden}
        if budget.left < longest:
            found.skipped.append({**where, "why": f"the {wanted.minutes:g} minutes are over"})
            continue
        began = perf_counter()
        net = workload.net(hidden, wanted.seed)
        expected = reference_of(workload, net, on_host[workload.name])
        systems = _agreeing(wanted, workload, net, expected, found, where)
        _measure(wanted, workload, systems, budget, found, where)
        longest = max(longest, perf_counter() - began)
    return found


def _by_interest(hidden: Sequence[int]) -> list[int]:
    """Return the smallest and the largest first, so that a run cut short has seen both ends."""
    order = [HIDDEN[0], HIDDEN[-1], *HIDDEN]
    return sorted(hidden, key=lambda size: order.index(size) if size in order else len(order))


def _agreeing(
    wanted: Wanted, workload: Workload, net: Any, expected: dict[str, Any], found: Found, where: dict[str, Any]
) -> list[BaseSystem]:
    """Return the systems that agree with the CPU, and note why others do not."""
    made = make(workload, net, wanted.systems, wanted.device)
    found.skipped += [{**where, "system": name, "why": why} for name, why in made.missing.items()]
    systems = []
    for system in made.systems:
        deviation = agreement(system, workload.samples[:CHECKED], expected)
        agrees = max(deviation.values()) <= TOLERANCE
        found.correctness.append({**where, "system": system.label, **deviation, "agrees": agrees})
        if agrees:
            systems.append(system)
        else:
            found.skipped.append({**where, "system": system.label, "why": f"it does not agree: {deviation}"})
    return systems


def _measure(
    wanted: Wanted,
    workload: Workload,
    systems: Sequence[BaseSystem],
    budget: Budget,
    found: Found,
    where: dict[str, Any],
) -> None:
    """Time the systems of one workload and hidden size."""
    for size in wanted.batch_sizes:
        if size > len(workload.samples):
            few = f"{len(workload.samples)} samples do not fill a minibatch"
            found.skipped.append({**where, "batch_size": size, "why": few})
            continue
        if budget.left < 0:
            found.skipped.append({**where, "batch_size": size, "why": f"the {wanted.minutes:g} minutes are over"})
            continue
        minibatches = _minibatches(workload.samples, size, wanted.seed)
        here = {**where, "batch_size": size}
        found.floors += _floors(workload, next(minibatches), found.rates, here)
        for phase in PHASES:
            found.rows += _rows(wanted, systems, phase, minibatches, {**here, "phase": phase})


def _minibatches(samples: Sequence[Any], size: int, seed: int) -> Iterator[list[Any]]:
    """Yield shuffled minibatches without end."""
    rng = np.random.default_rng([seed, 4])
    while True:
        order = rng.permutation(len(samples))
        for at in range(0, len(order) - size + 1, size):
            yield [samples[index] for index in order[at : at + size]]


def _floors(workload: Workload, samples: Sequence[Any], rates: Rates, where: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the floor of a minibatch in each phase, with and without sharing."""
    floors = []
    for shared in (False, True):
        products = workload.products(where["hidden"], samples, shared)
        for phase in PHASES:
            seconds = floor_of(products, phase, rates)
            floors.append(
                {
                    **where,
                    "phase": phase,
                    "sharing": shared,
                    "ms": 1e3 * seconds,
                    "samples_per_s": len(samples) / seconds,
                }
            )
    return floors


def _rows(
    wanted: Wanted,
    systems: Sequence[BaseSystem],
    phase: str,
    minibatches: Iterator[list[Any]],
    where: dict[str, Any],
) -> list[dict[str, Any]]:
    """Time one phase: all systems in turns on the same minibatches, after each has been warmed up."""
    for system in systems:
        spent = 0.0
        for done in range(WARM_UP_DYNAMIC if system.sharing is not None else WARM_UP):
            if done >= WARM_UP and spent > WARM_UP_SECONDS:
                break
            spent += system.timed(phase, _part(system, next(minibatches)))
    rates: dict[str, list[float]] = {system.label: [] for system in systems}
    for repeat in range(wanted.repeats):
        batch = next(minibatches)
        at = repeat % max(len(systems), 1)
        for system in [*systems[at:], *systems[:at]]:
            part = _part(system, batch)
            rates[system.label].append(len(part) / system.timed(phase, part))
    return [_row(wanted, system, phase, rates[system.label], next(minibatches), where) for system in systems]


def _part(system: BaseSystem, batch: list[Any]) -> list[Any]:
    return batch[:FEW] if system.one_by_one else batch


def _row(
    wanted: Wanted, system: BaseSystem, phase: str, rates: list[float], batch: list[Any], where: dict[str, Any]
) -> dict[str, Any]:
    """Return the row of a system; its kernels are those of one more minibatch."""
    part = _part(system, batch)
    kernels = profiled(lambda: system.timed(phase, part), wanted.device)
    figures = system.figures()
    rate = median(rates)
    return {
        **where,
        "system": system.name,
        "sharing": system.sharing,
        "samples_per_s": rate,
        "min": min(rates),
        "max": max(rates),
        "samples_timed": len(part) * len(rates),
        "ms_per_minibatch": 1e3 * where["batch_size"] / rate,
        "steps": None if figures is None else figures.launches,
        "kernels_per_minibatch": None if kernels is None else kernels.launches * where["batch_size"] / len(part),
        "copies_per_minibatch": None if kernels is None else kernels.copies * where["batch_size"] / len(part),
        "gpu_busy": None if kernels is None else kernels.seconds * rate / len(part),
    }
