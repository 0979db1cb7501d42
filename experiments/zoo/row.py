"""What the table has of each model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mxnet import gluon
from numpy.random import RandomState


@dataclass(frozen=True)
class Row:
    """One model: how to make it and its samples, and what a sample costs it.

    make_samples: so many samples of varying size and structure, drawn from a seeded generator.
    loss: `loss(net, sample)` calls the model as a user does and gives the sample's loss.
    allowed_alone: operators that may run once per sample.
    """

    name: str
    title: str
    make_net: Callable[[], gluon.Block]
    make_samples: Callable[[int, RandomState], list[Any]]
    loss: Callable[[gluon.Block, Any], Any]
    allowed_alone: tuple[str, ...] = ()
