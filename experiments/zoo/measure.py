"""One model run sample by sample and batched: how far apart they are, and what was launched."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon

import gluonjit
from experiments.zoo.row import Row

Arrays = dict[str, Any]
"""Losses and gradients by name, as numpy arrays."""

# Which runs there are of a model: name, training, sharing.
RUNS = (
    ("training", True, True),
    ("training, no sharing", True, False),
    ("inference", False, True),
    ("inference, no sharing", False, False),
)
TOLERANCE = 1e-5  # of the largest number, in float32: sums are taken in another order
# So large that gradients are not differences of almost equal numbers, of which rounding would be the better part.
SCALE = 0.8


@dataclass(frozen=True)
class Counts:
    """What one run took, from its report; `off` is how far it is from the per-sample program, by its largest."""

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
        """What is not as it has to be, in words."""
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


def measure(row: Row, batch_size: int, seed: int) -> Measured:
    """Run `batch_size` samples of a model in every way, from parameters and samples drawn with `seed`."""
    mx.random.seed(seed)
    samples = row.make_samples(batch_size, np.random.RandomState(seed))
    net = row.make_net()
    net.initialize(mx.init.Uniform(SCALE))
    for sample in samples:  # a layer that no sample has reached does not know the shape of its parameters
        row.loss(net, sample)
    wanted = {training: run(net, samples, row, training) for training in (True, False)}
    counts = {}
    for name, training, sharing in RUNS:
        net.hybridize(dynamic_batch=True, sharing=sharing)
        found = run(net, samples, row, training)
        counts[name] = _counts(gluonjit.explain(), distance(found, wanted[training]))
    net.hybridize(dynamic_batch=False)
    return Measured(row.name, row.title, batch_size, row.allowed_alone, counts)


def run(net: gluon.Block, samples: list[Any], row: Row, training: bool) -> Arrays:
    """Each sample's loss, and in training the gradients of their sum."""
    if not training:
        return {"losses": _numbers([row.loss(net, sample) for sample in samples])}
    learned = {name: value for name, value in net.collect_params().items() if value.grad_req != "null"}
    for parameter in learned.values():
        if parameter._data is not None:
            parameter.zero_grad()
    with autograd.record():
        losses = [row.loss(net, sample) for sample in samples]
        total = gluonjit.add_n(losses)
    total.backward()
    return {
        "losses": _numbers(losses),
        **{name: parameter.grad().asnumpy().copy() for name, parameter in learned.items()},
    }


def _numbers(losses: list[Any]) -> Any:
    return np.array([float(loss.asscalar()) for loss in losses])


def distance(found: Arrays, wanted: Arrays) -> float:
    """The largest difference, relative to the largest number of the array it is in."""
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
