"""The parts of a workload that experiments need."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import mxnet as mx
from mxnet import gluon


@dataclass(frozen=True)
class Workload:
    """A model for one sample, with initialised parameters, and samples to run it on.

    note: what the samples are and where they come from.
    loss: `loss(net, sample)` calls the model as a user does and gives the sample's loss, an array of one number.
    output: `output(net, sample)` gives what the model says of the sample, rows of numbers.
    """

    name: str
    note: str
    train: list[Any]
    net: gluon.Block
    loss: Callable[[gluon.Block, Any], Any]
    output: Callable[[gluon.Block, Any], Any]

    def loss_of(self, sample: Any) -> Any:
        """Return the loss of one sample, an array of one number."""
        return self.loss(self.net, sample)

    def losses(self, samples: Iterable[Any]) -> list[Any]:
        """Return the loss of each sample."""
        return [self.loss_of(sample) for sample in samples]


def initialize(net: gluon.Block, samples: Iterable[Any], loss: Callable[[gluon.Block, Any], Any], seed: int) -> None:
    """Draw the weights of a net from a seed, and let samples tell layers the shapes of theirs."""
    mx.random.seed(seed)
    net.initialize(mx.init.Xavier())
    for sample in samples:
        if all(0 not in parameter.shape for parameter in net.collect_params().values()):
            break
        loss(net, sample)
