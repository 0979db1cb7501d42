"""Throughput on MXNet."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import mxnet as mx

from experiments.bench.base import BaseSystem
from experiments.throughput import systems, tasks
from experiments.throughput.floor import SHAPES, gflops
from experiments.throughput.tasks import Task

IN_PROCESS: tuple[str, ...] = ()

load = tasks.load


def make_systems(
    task: Task, names: Sequence[str], switches: Sequence[str], peers: Sequence[str]
) -> tuple[list[BaseSystem], dict[str, str]]:
    """Build systems; there are no peers in this process."""
    return [*systems.make_systems(task, names, switches)], {}


def gemm_rates() -> dict[str, float]:
    """Return GFLOP/s of products by MXNet's layer and by its `dot`."""
    rates: dict[str, float] = {}
    for shape in SHAPES:
        rows, width, out = shape
        x, weight = mx.nd.random.normal(shape=(rows, width)), mx.nd.random.normal(shape=(out, width))
        products = {
            "FullyConnected": partial(mx.nd.FullyConnected, x, weight, num_hidden=out, no_bias=True),
            "dot": partial(mx.nd.dot, x, weight, transpose_b=True),
        }
        rates.update(gflops(products, shape, mx.nd.waitall))
    return rates
