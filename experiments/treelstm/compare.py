"""Throughput of all systems side by side, in one run, on the same minibatches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from experiments.data.corpus import load
from experiments.data.errors import DataError
from experiments.treelstm.agreement import check
from experiments.treelstm.clock import PHASES, Minibatches, Timing, measure, profile, turns, warm_up
from experiments.treelstm.environment import environment, threads
from experiments.treelstm.files import write_json
from experiments.treelstm.plot import draw
from experiments.treelstm.systems import System, make_systems
from experiments.treelstm.table import findings, table

CHECKED = 32  # pairs on which all systems have to agree before anything is timed
PROFILED = 3  # minibatches that are taken apart at the end


@dataclass(frozen=True)
class Comparison:
    """What to compare, and how long."""

    data: str
    modes: Sequence[str]
    batch_size: int
    repeats: int
    seed: int
    seconds: float  # of one system in one phase of one repeat
    limit: int | None = None
    data_dir: str | None = None
    json: Path | None = None
    plot: Path | None = None


def compare(wanted: Comparison) -> dict[str, Any]:
    """Check, measure, show and save."""
    corpus = load(wanted.data, wanted.data_dir, wanted.seed, wanted.limit)
    print(f"data: {corpus.note}")
    if len(corpus.train) < wanted.batch_size:
        raise DataError(
            Path(wanted.data), None, f"{len(corpus.train)} pairs do not fill --batch-size {wanted.batch_size}"
        )
    systems = make_systems(wanted.modes, corpus.vectors, wanted.seed)
    largest = check(systems, corpus.train[:CHECKED])
    for label, deviation in largest.items():
        print(f"{label}: losses and gradients as {systems[0].label}, to {deviation:.1e}")
    timings = _measure(wanted, systems, Minibatches(corpus.train, wanted.batch_size, wanted.seed))
    rows = [_row(wanted, system, phase, timings[system.label, phase]) for system in systems for phase in PHASES]
    result = {
        "workload": f"treelstm-{wanted.data}",
        "note": corpus.note,
        "threads": threads(),
        "environment": environment(),
        "agreement": largest,
        "rows": rows,
    }
    result.update(findings(rows))
    print(table(result))
    if wanted.json:
        write_json(wanted.json, result)
    if wanted.plot:
        draw(result, wanted.plot)
    return result


def _measure(wanted: Comparison, systems: Sequence[System], minibatches: Minibatches) -> dict[tuple[str, str], Timing]:
    """Time all systems in turns."""
    total = len(systems) * len(PHASES) * (wanted.repeats + 1)
    with tqdm(total=total, unit="measurement", leave=False, disable=None) as bar:
        timings = {}
        for phase in PHASES:
            for system in systems:
                bar.set_description(f"warm-up, {system.label}")
                timings[system.label, phase] = warm_up(system, phase, minibatches, wanted.seconds)
                bar.update()
        for phase, order in turns(systems, wanted.repeats):
            most = max(timings[system.label, phase].amount for system in systems)
            batches = minibatches.draw(-(-most // wanted.batch_size))
            for system in order:
                bar.set_description(f"{phase}, {system.label}")
                measure(system, phase, timings[system.label, phase], batches)
                bar.update()
    for (label, phase), timing in timings.items():
        system = next(system for system in systems if system.label == label)
        profile(system, phase, timing, minibatches.draw(PROFILED))
    return timings


def _row(wanted: Comparison, system: System, phase: str, timing: Timing) -> dict[str, Any]:
    """Return what is reported of one system in one phase."""
    return {
        "workload": f"treelstm-{wanted.data}",
        "system": system.name,
        "phase": phase,
        "batch_size": wanted.batch_size,
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
