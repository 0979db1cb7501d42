"""What measuring throughput needs of an engine, and the modules that have it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from experiments.throughput.counts import Product
from experiments.treelstm.base import BaseSystem


class Measurable(Protocol):
    """One workload on an engine: samples, and the model that all systems run.

    systems: those that there are. family: how samples and weights travel to peers; None where there are none.
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


class Engine(Protocol):
    """What the module of an engine has. `IN_PROCESS` are the peers that run beside the systems, in this process."""

    IN_PROCESS: tuple[str, ...]

    def load(self, name: str, data_dir: str | None, seed: int, limit: int | None) -> Measurable:
        """Return a workload; with `limit`, of its first samples alone. Raises DataError where files are missing."""

    def make_systems(
        self, task: Any, names: Sequence[str], switches: Sequence[str], peers: Sequence[str]
    ) -> tuple[list[BaseSystem], dict[str, str]]:
        """Build systems and peers of this process; by name, why one cannot be.

        Dynamic ones come with and without sharing, and one with sharing for each switch that is off.
        """

    def gemm_rates(self) -> dict[str, float]:
        """Return GFLOP/s of products in several ways, the best of some tries each."""


MODULES = {"mxnet": "experiments.throughput.on_mxnet", "torch": "experiments.throughput.on_torch"}


def engine_of(name: str) -> Engine:
    """Return an engine by its name."""
    return import_module(MODULES[name])
