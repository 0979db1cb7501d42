"""One model, eagerly and with gluonjit in turns on the same fresh samples, from the first minibatch on."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any
from unittest.mock import patch

import numpy as np
from tqdm import tqdm

import gluonjit
from experiments.programs import BEGINNING, LEAST
from experiments.zoo.measure import distance
from experiments.zoo.row import Engine, Row

PHASES = ("training", "inference")
TOLERANCE = 1e-4  # of the largest number, in float32, after a step


@dataclass(frozen=True)
class Timed:
    """One phase of a model at one batch size.

    eager_ms, gluonjit_ms: medians of a minibatch from the twentieth on. faster: the first over the second. first and
    whole: gluonjit's time over eager's for the first twenty minibatches together, and for all. late: the slowest
    hundredth over the median. way: how gluonjit runs it in the end, in the words of its report.
    """

    model: str
    batch_size: int
    phase: str
    minibatches: int
    eager_ms: float
    gluonjit_ms: float
    faster: float
    first: float
    whole: float
    late: float
    way: str
    off: float

    @property
    def eagerly(self) -> bool:
        """Tells if the model runs eagerly in the end."""
        return self.way.endswith("runs eagerly")

    @property
    def undecided(self) -> bool:
        """Tells if trials had not been worth their time yet: nearly all ran eagerly."""
        return self.way.endswith("not decided yet")

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return {**asdict(self), "eagerly": self.eagerly}


def measure(engine: Engine, name: str, batch_size: int, seed: int, most: int, seconds: float) -> list[Timed]:
    """Time both phases of a model, each with nothing known of it, for `most` minibatches or about this many seconds."""
    row = engine.ROWS[name]
    found = []
    for phase in PHASES:
        gluonjit.clear_caches()
        with TemporaryDirectory() as empty, patch.dict(os.environ, GLUONJIT_CACHE=empty):
            nets = _pair(engine, row, seed)
            found.append(_timed(engine, row, nets, phase, batch_size, seed, most, seconds))
    return found


def _pair(engine: Engine, row: Row, seed: int) -> tuple[Any, Any]:
    """Two models with equal weights, the second of them batched as a user does it, who names no way."""
    made = []
    for _ in range(2):
        net = engine.make_net(row, seed)
        for sample in engine.samples(row, LEAST, seed):  # a layer of MXNet has no weights before one reaches it
            row.loss(net, sample)
        made.append(net)
    engine.batch(made[1], granularity="auto")
    return made[0], made[1]


def _timed(
    engine: Engine,
    row: Row,
    nets: tuple[Any, Any],
    phase: str,
    batch_size: int,
    seed: int,
    most: int,
    seconds: float,
) -> Timed:
    training = phase == "training"
    runs = [engine.runner(net, row, training) for net in nets]
    spent: tuple[list[float], list[float]] = ([], [])
    for count in tqdm(range(most), unit="minibatch", desc=f"{row.name} at {batch_size}", leave=False, disable=None):
        if count >= LEAST and sum(spent[0]) + sum(spent[1]) >= seconds:
            break
        samples = engine.samples(row, batch_size, seed + 1 + count)
        for side in (0, 1) if count % 2 else (1, 0):
            begin = perf_counter()
            runs[side](samples)
            spent[side].append(perf_counter() - begin)
    way = next((line for line in gluonjit.explain().ways if f" in {phase}" in line), "runs batched")
    eager, batched = (1e3 * median(times[BEGINNING:]) for times in spent)
    return Timed(
        model=row.name,
        batch_size=batch_size,
        phase=phase,
        minibatches=len(spent[0]),
        eager_ms=eager,
        gluonjit_ms=batched,
        faster=eager / batched,
        first=sum(spent[1][:BEGINNING]) / sum(spent[0][:BEGINNING]),
        whole=sum(spent[1]) / sum(spent[0]),
        late=1e3 * float(np.percentile(spent[1][BEGINNING:], 99)) / batched,
        way=way,
        off=_apart(engine, row, nets, batch_size, seed, training),
    )


def _apart(engine: Engine, row: Row, nets: tuple[Any, Any], batch_size: int, seed: int, training: bool) -> float:
    """The largest differences of losses and gradients now, after as many steps."""
    samples = engine.samples(row, batch_size, seed)
    wanted, found = (engine.run(net, samples, row, training) for net in nets)
    return distance(dict(zip(wanted, found.values())), wanted)
