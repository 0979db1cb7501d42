"""Models of the zoo as workloads: the same on both engines, with their own samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from experiments.bench.engines import engine_of
from experiments.tradeoff.measuring import POOL


class Workload(NamedTuple):
    """A model, its samples, and how it is called."""

    note: str
    train: Sequence[Any]
    net: Any
    loss: Callable[[Any, Any], Any]


def load(engine: str, name: str, seed: int, limit: int | None) -> Workload:
    """Return a model of the zoo with as many random samples."""
    zoo = engine_of("zoo", engine)
    row = zoo.ROWS[name]
    samples, net = zoo.samples(row, limit or POOL, seed), zoo.make_net(row, seed)
    zoo.run(net, samples[:2], row, False)  # layers learn the shapes of their weights
    return Workload("random samples", samples, net, row.loss)
