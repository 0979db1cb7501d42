"""What the table has of each model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.random import RandomState

Net = Any
"""A gluon.Block, or a torch.nn.Module."""


@dataclass(frozen=True)
class Row:
    """One model: how to make it and its samples, and what a sample costs it.

    make_samples: so many samples of varying size and structure, drawn from a seeded generator; arrays are numpy's.
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
