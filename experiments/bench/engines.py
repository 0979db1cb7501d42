"""The engines, and the module of each for each experiment, imported when it is used."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from experiments.bench.base import BaseSystem

ENGINES = ("mxnet", "torch")

MODULES = {
    "treelstm": {"mxnet": "experiments.treelstm.systems", "torch": "experiments.torch.systems"},
    "throughput": {"mxnet": "experiments.throughput.on_mxnet", "torch": "experiments.throughput.on_torch"},
    "tradeoff": {"mxnet": "experiments.tradeoff.on_mxnet", "torch": "experiments.tradeoff.on_torch"},
    "zoo": {"mxnet": "experiments.zoo.mxnet.engine", "torch": "experiments.zoo.torch.engine"},
    "host": {"mxnet": "experiments.host.on_mxnet", "torch": "experiments.host.on_torch"},
    "fuzz": {"mxnet": "experiments.fuzz.mxnet.framework", "torch": "experiments.fuzz.torch.framework"},
}


def engine_of(experiment: str, name: str) -> Any:
    """Import an experiment's module for an engine; the experiment defines its protocol."""
    return import_module(MODULES[experiment][name])


def make_systems(engine: str, names: Sequence[str], vectors: np.ndarray, seed: int) -> list[BaseSystem]:
    """Build ways of running the Tree-LSTM; those that can share equal work come twice, with and without."""
    make_system = engine_of("treelstm", engine).make_system
    systems = []
    for name in names:
        systems.append(make_system(name, vectors, seed))
        if systems[-1].sharing:
            systems.append(make_system(name, vectors, seed, sharing=False))
    return systems
