"""What the models' comparison needs of a framework, and the modules that have it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from experiments.zoo.row import Net, Row

Arrays = dict[str, np.ndarray]
"""Losses, and gradients by the names of their parameters."""

RATE = 1e-4  # of learning, where minibatches are timed


class Engine(Protocol):
    """What the module of a framework has. `ROWS` are its models by name."""

    ROWS: dict[str, Row]

    def samples(self, row: Row, count: int, seed: int) -> list[Any]:
        """Return samples of a model, drawn from a seed, with the framework's arrays."""

    def make_net(self, row: Row, seed: int) -> Net:
        """Return a model whose parameters are drawn from a seed, between -row.scale and row.scale."""

    def batch(self, net: Net, **options: Any) -> None:
        """Batch a model with these options of gluonjit."""

    def unbatch(self, net: Net) -> None:
        """Run a model sample by sample again."""

    def run(self, net: Net, samples: Sequence[Any], row: Row, training: bool) -> Arrays:
        """Return each sample's loss, and in training the gradients of their sum."""

    def runner(self, net: Net, row: Row, training: bool) -> Callable[[Sequence[Any]], Any]:
        """Return what runs a minibatch, up to the updated weights in training, and else to the losses on the host."""


MODULES = {"mxnet": "experiments.zoo.mxnet.engine", "torch": "experiments.zoo.torch.engine"}


def engine_of(name: str) -> Engine:
    """Return an engine by its name."""
    return import_module(MODULES[name])
