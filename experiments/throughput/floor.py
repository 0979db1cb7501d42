"""The floor of a step: its products alone, at the throughput of products on this core in this run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from experiments.bench.clock import PHASES, Minibatches
from experiments.throughput.counts import Product

SHAPES = ((2048, 300, 600), (1024, 1024, 1024))  # rows, width, out
TRIES = 7
COUNTED = 4  # minibatches, of which a sample's products are the mean


class Measurable(Protocol):
    """One workload on an engine: samples, and the model that all systems run.

    systems: those that there are. family: how samples and weights travel to peers; None if there are none.
    """

    @property
    def name(self) -> str: ...
    @property
    def note(self) -> str: ...
    @property
    def samples(self) -> Sequence[Any]: ...
    @property
    def systems(self) -> tuple[str, ...]: ...
    @property
    def family(self) -> str | None: ...

    def products(self, samples: Sequence[Any], shared: bool) -> list[Product]:
        """Return the model's products for some samples, each done on its own or equal ones once."""

    def weights(self) -> dict[str, np.ndarray]:
        """Return the weights that all systems begin with, word vectors included, by the names that peers use."""


def floors(task: Measurable, batch_sizes: Sequence[int], gflops: float, seed: int) -> list[dict[str, Any]]:
    """Return the floor of a sample's products, for each batch size and phase, with and without sharing."""
    found = []
    for size in batch_sizes:
        minibatches = Minibatches(task.samples, size, seed).draw(COUNTED)
        for shared in (False, True):
            products = [task.products(samples, shared) for samples in minibatches]
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


def gflops(
    products: Mapping[str, Callable[[], Any]], shape: tuple[int, int, int], wait: Callable[[], Any]
) -> dict[str, float]:
    """Return GFLOP/s of ways of making a product of this shape, the best of some tries each; `wait` for the engine."""
    rows, width, out = shape
    rates = {}
    for name, product in products.items():
        taken = []
        for _ in range(TRIES):
            wait()
            began = perf_counter()
            product()
            wait()
            taken.append(perf_counter() - began)
        rates[f"{name} {rows}x{width}x{out}"] = 2 * rows * width * out / 1e9 / min(taken)
    return rates
