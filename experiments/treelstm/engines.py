"""The engines that the experiment runs on, and where each has its systems, imported when they are used."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Protocol

import numpy as np

from experiments.treelstm.base import BaseSystem

MEMORY_SIZE, HEAD_SIZE = 150, 50
LEARNING_RATE, L2 = 0.05, 1e-4

MODULES = {"mxnet": "experiments.treelstm.systems", "torch": "experiments.torch.systems"}


class MissingSystem(Exception):
    """A system cannot be made here; the message says why."""


class Systems(Protocol):
    """What the module of an engine has."""

    def make_system(self, name: str, vectors: np.ndarray, seed: int, sharing: bool = True) -> BaseSystem:
        """Build a system by its name; equal seeds give equal weights in all of them, on all engines."""


def systems_of(engine: str) -> Systems:
    """Return the systems of an engine."""
    return import_module(MODULES[engine])


def make_systems(engine: str, names: Sequence[str], vectors: np.ndarray, seed: int) -> list[BaseSystem]:
    """Build systems of an engine; those that can share equal work come twice, with and without."""
    of_engine = systems_of(engine)
    systems = []
    for name in names:
        systems.append(of_engine.make_system(name, vectors, seed))
        if systems[-1].sharing:
            systems.append(of_engine.make_system(name, vectors, seed, sharing=False))
    return systems
