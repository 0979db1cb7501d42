"""The floor of a step: its products, and nothing else, at the rate that products have on this core in this run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import mean
from time import perf_counter
from typing import Any

import mxnet as mx

from experiments.throughput.tasks import Task
from experiments.treelstm.clock import PHASES, Minibatches

SHAPES = ((2048, 300, 600), (1024, 1024, 1024))  # rows, width, out
TRIES = 7
COUNTED = 4  # minibatches, of which a sample's products are the mean


def gemm_rates() -> dict[str, float]:
    """Return GFLOP/s of products by MXNet's layer and by its `dot`, the best of some tries each."""
    rates = {}
    for rows, width, out in SHAPES:
        x, weight = mx.nd.random.normal(shape=(rows, width)), mx.nd.random.normal(shape=(out, width))
        products = {
            "FullyConnected": partial(mx.nd.FullyConnected, x, weight, num_hidden=out, no_bias=True),
            "dot": partial(mx.nd.dot, x, weight, transpose_b=True),
        }
        for name, product in products.items():
            rates[f"{name} {rows}x{width}x{out}"] = 2 * rows * width * out / 1e9 / _least_seconds(product)
    return rates


def _least_seconds(product: Callable[[], Any]) -> float:
    taken = []
    for _ in range(TRIES):
        mx.nd.waitall()
        began = perf_counter()
        product().wait_to_read()
        taken.append(perf_counter() - began)
    return min(taken)


def floors(task: Task, batch_sizes: Sequence[int], gflops: float, seed: int) -> list[dict[str, Any]]:
    """Return what a sample's products come to, for each batch size and phase, with and without sharing."""
    found = []
    for size in batch_sizes:
        minibatches = Minibatches(task.samples, size, seed).draw(COUNTED)
        for shared in (False, True):
            products = [task.count(task.sizes, samples, shared) for samples in minibatches]
            for phase in PHASES:
                sums = [sum(_work(product, phase) for product in counted) for counted in products]
                macs = mean(sums) / size
                found.append(
                    {
                        "batch_size": size,
                        "phase": phase,
                        "sharing": shared,
                        "mega_multiply_adds": macs / 1e6,
                        "samples_per_s": gflops * 1e9 / (2 * macs),
                    }
                )
    return found


def _work(product: Any, phase: str) -> int:
    return int(product.training if phase == "train" else product.forward)
