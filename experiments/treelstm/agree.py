"""Checks that systems agree during training, starting each minibatch from the same weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from experiments.bench.agreement import TOLERANCE, deviations
from experiments.bench.base import BaseSystem
from experiments.bench.clock import Minibatches
from experiments.bench.engines import engine_of, make_systems
from experiments.bench.environment import environment
from experiments.bench.files import write_json
from experiments.data.corpus import load

REFERENCE = "imperative"


@dataclass(frozen=True)
class Agreement:
    """A comparison with the imperative program."""

    data: str
    systems: Sequence[str]
    batches: int
    batch_size: int
    seed: int
    limit: int | None = None
    data_dir: str | None = None
    json: Path | None = None
    engine: str = "mxnet"


def agree(wanted: Agreement) -> dict[str, Any]:
    """Follow the reference through its training; return each system's largest deviations."""
    corpus = load(wanted.data, wanted.data_dir, wanted.seed, wanted.limit, wanted.engine)
    print(f"data: {corpus.note}")
    reference = engine_of("treelstm", wanted.engine).make_system(REFERENCE, corpus.vectors, wanted.seed)
    systems = make_systems(wanted.engine, wanted.systems, corpus.vectors, wanted.seed)
    largest: dict[str, dict[str, float]] = {system.label: {} for system in systems}
    minibatches = Minibatches(corpus.train, min(wanted.batch_size, len(corpus.train)), wanted.seed)
    for pairs in tqdm(minibatches.draw(wanted.batches), unit="batch", leave=False, disable=None):
        weights, expected = reference.weights(), reference.results(pairs)
        for system in systems:
            system.set_weights(weights)
            _note(largest[system.label], deviations(system.results(pairs), expected))
        reference.step(pairs)
    result = {
        "workload": f"treelstm-{wanted.data}",
        "reference": REFERENCE,
        "tolerance": TOLERANCE,
        "batches": wanted.batches,
        "batch_size": wanted.batch_size,
        "largest": largest,
        "agree": all(value <= TOLERANCE for found in largest.values() for value in found.values()),
        "environment": environment(),
    }
    _show(systems, largest)
    if wanted.json:
        write_json(wanted.json, result)
    return result


def _note(largest: dict[str, float], found: dict[str, float]) -> None:
    """Keep the larger deviation of each quantity."""
    for name, value in found.items():
        largest[name] = max(value, largest.get(name, 0.0))


def _show(systems: Sequence[BaseSystem], largest: dict[str, dict[str, float]]) -> None:
    """Print each system's largest deviations."""
    print(f"largest max|a - b| / max|b| against {REFERENCE}, allowed {TOLERANCE:.0e}:")
    for system in systems:
        found = largest[system.label]
        worst = max((name for name in found if name != "losses"), key=lambda name: found[name])
        print(f"  {system.label}: losses {found['losses']:.1e}, gradients {found[worst]:.1e} ({worst})")
