"""Rows of the table, one per model, and their interface to a framework."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.random import RandomState

Net = Any
"""A gluon.Block, or a torch.nn.Module."""

Arrays = dict[str, np.ndarray]
"""Losses, and gradients by the names of their parameters."""

Each = Callable[[Callable[[Any], Any], Sequence[Any]], Any]
"""Calls a function for each sample; returns the list of what it gives, or an array of it."""

RATE = 1e-4  # of learning, where minibatches are timed


def in_turn(function: Callable[[Any], Any], samples: Sequence[Any]) -> list[Any]:
    """Call a function for one sample after the other."""
    return [function(sample) for sample in samples]


@dataclass(frozen=True)
class Row:
    """One model: how to make it and its samples, and what a sample costs it.

    make_samples: this many samples of varying size and structure, drawn from a seeded generator; arrays are numpy's.
    loss: `loss(net, sample)` calls the model as a user does and gives the sample's loss. Arrays are the engine's.
    allowed_alone: operators that may run once per sample.
    scale: the largest number of its parameters, so large that gradients are not differences of almost equal numbers,
        which would be rounding mostly, and so small that rounding does not grow from node to node.
    """

    name: str
    title: str
    make_net: Callable[[], Net]
    make_samples: Callable[[int, RandomState], list[Any]]
    loss: Callable[[Net, Any], Any]
    allowed_alone: tuple[str, ...] = ()
    scale: float = 0.8


class Engine(Protocol):
    """The names that the module of a framework has. `ROWS` are its models by name."""

    ROWS: dict[str, Row]

    def samples(self, row: Row, count: int, seed: int) -> list[Any]:
        """Return samples of a model, drawn from a seed, with the framework's arrays."""

    def make_net(self, row: Row, seed: int) -> Net:
        """Return a model whose parameters are drawn from a seed, between -row.scale and row.scale."""

    def batch(self, net: Net, **options: Any) -> None:
        """Batch a model with these options of gluonjit."""

    def unbatch(self, net: Net) -> None:
        """Run a model sample by sample again."""

    def run(self, net: Net, samples: Sequence[Any], row: Row, training: bool, each: Each = in_turn) -> Arrays:
        """Return each sample's loss, and in training the gradients of their sum."""

    def runner(self, net: Net, row: Row, training: bool) -> Callable[[Sequence[Any]], Any]:
        """Return a function that runs a minibatch, in training up to updated weights, else to losses on the host."""
