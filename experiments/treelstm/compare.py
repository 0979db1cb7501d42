"""Throughput of all systems side by side, in one run, on the same minibatches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.bench.agreement import check
from experiments.bench.clock import PHASES, Minibatches, measure_all, row_of
from experiments.bench.engines import make_systems
from experiments.bench.environment import environment, threads
from experiments.bench.files import write_json
from experiments.bench.plot import draw
from experiments.bench.table import findings, table
from experiments.data.corpus import load
from experiments.data.errors import DataError

CHECKED = 32  # pairs on which all systems have to agree before anything is timed


@dataclass(frozen=True)
class Comparison:
    """A comparison to make, and how long."""

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
    engine: str = "mxnet"


def compare(wanted: Comparison) -> dict[str, Any]:
    """Check, measure, show and save."""
    corpus = load(wanted.data, wanted.data_dir, wanted.seed, wanted.limit, wanted.engine)
    print(f"data: {corpus.note}")
    if len(corpus.train) < wanted.batch_size:
        raise DataError(
            Path(wanted.data), None, f"{len(corpus.train)} pairs do not fill --batch-size {wanted.batch_size}"
        )
    systems = make_systems(wanted.engine, wanted.modes, corpus.vectors, wanted.seed)
    largest = check(systems, corpus.train[:CHECKED])
    for label, deviation in largest.items():
        print(f"{label}: losses and gradients as {systems[0].label}, to {deviation:.1e}")
    timings, _ = measure_all(
        systems, Minibatches(corpus.train, wanted.batch_size, wanted.seed), wanted.repeats, wanted.seconds
    )
    workload = f"treelstm-{wanted.data}"
    rows = [
        row_of(workload, wanted.batch_size, system, phase, timings[system.label, phase])
        for system in systems
        for phase in PHASES
    ]
    result = {
        "workload": workload,
        "note": corpus.note,
        "engine": wanted.engine,
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
