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

    def make_systems(self, names: Sequence[str], vectors: np.ndarray, seed: int) -> Sequence[BaseSystem]:
        """Build systems; those that can share equal work come twice, with and without."""


def systems_of(engine: str) -> Systems:
    """Return the systems of an engine."""
    return import_module(MODULES[engine])
