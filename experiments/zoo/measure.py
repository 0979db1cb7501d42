"""One model run sample by sample and batched: the largest difference, and the launches."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import gluonjit
from experiments.zoo.row import Arrays, Engine

# Which runs there are of a model: name, training, sharing.
RUNS = (
    ("training", True, True),
    ("training, no sharing", True, False),
    ("inference", False, True),
    ("inference, no sharing", False, False),
)
TOLERANCE = 1e-5  # of the largest number, in float32: sums are taken in another order
FIXED = {"granularity": "cell", "scheduler": "depth"}  # what the library would choose in time, from the first minibatch


@dataclass(frozen=True)
class Counts:
    """Figures of one run, from its report; `off` is how far it is from the per-sample program, by its largest."""

    calls: int
    nodes: int
    launches: int
    lower_bound: int
    flushes: int
    alone: dict[str, str]
    unbatched: dict[str, str]
    off: float


@dataclass(frozen=True)
class Measured:
    """All runs of one model."""

    name: str
    title: str
    samples: int
    allowed_alone: tuple[str, ...]
    runs: dict[str, Counts]

    def faults(self) -> list[str]:
        """Names the faults."""
        found = []
        for name, run in self.runs.items():
            if run.off > TOLERANCE:
                found.append(f"{self.name}, {name}: off by {run.off:.1e} of the largest, more than {TOLERANCE}")
            for operator in set(run.alone) - set(self.allowed_alone):
                found.append(f"{self.name}, {name}: {operator} runs alone: {run.alone[operator]}")
            for cell, reason in run.unbatched.items():
                found.append(f"{self.name}, {name}: {cell} is not one node: {reason}")
        return found

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)


def measure(engine: Engine, name: str, batch_size: int, seed: int) -> Measured:
    """Run `batch_size` samples of a model in every way, from parameters and samples drawn with `seed`.

    Caches are cleared first: counts do not depend on earlier runs.
    """
    gluonjit.clear_caches()
    row = engine.ROWS[name]
    samples, net = engine.samples(row, batch_size, seed), engine.make_net(row, seed)
    # Inference comes first: a layer of MXNet that no sample has reached does not know the shape of its parameters.
    wanted = {training: engine.run(net, samples, row, training) for training in (False, True)}
    counts = {}
    for way, training, sharing in RUNS:
        engine.batch(net, sharing=sharing, **FIXED)
        found = engine.run(net, samples, row, training)
        counts[way] = _counts(gluonjit.explain(), distance(found, wanted[training]))
    engine.unbatch(net)
    return Measured(row.name, row.title, batch_size, row.allowed_alone, counts)


def distance(found: Arrays, wanted: Arrays) -> float:
    """The largest difference, relative to the largest number of the array it is in; infinite where one is missing."""
    if set(found) != set(wanted):
        return float("inf")
    return max(
        float(np.abs(found[name] - array).max() / max(float(np.abs(array).max()), 1e-6))
        for name, array in wanted.items()
    )


def _counts(report: gluonjit.Report, off: float) -> Counts:
    return Counts(
        calls=report.calls,
        nodes=report.nodes,
        launches=report.launches,
        lower_bound=report.lower_bound,
        flushes=report.flushes,
        alone=dict(report.alone),
        unbatched=dict(report.unbatched),
        off=off,
    )
