"""A PyTorch model with gradients from autograd, made from weights by their common names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from experiments.throughput.peers.samples import Arrays
from experiments.throughput.peers.with_torch.functions import Learner


class Differentiated(Learner):
    """A model for a minibatch, that says its losses and its outputs."""

    def __init__(self, weights: Arrays, rate: float, device: str = "cpu") -> None:
        super().__init__(weights, rate, device)
        for weight in self.weights.values():
            weight.requires_grad_()

    def losses(self, samples: Sequence[Any]) -> Tensor:
        """Return the losses of a minibatch (n,)."""
        raise NotImplementedError

    def scores(self, samples: Sequence[Any]) -> Tensor:
        """Return the model's outputs for a minibatch."""
        raise NotImplementedError

    def gradients(self, samples: Sequence[Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the losses of a minibatch and the gradients of their sum."""
        with torch.enable_grad():
            losses = self.losses(samples)
            found = torch.autograd.grad(losses.sum(), list(self.weights.values()))
        return losses.detach(), dict(zip(self.weights, found))

    def outputs(self, samples: Sequence[Any]) -> Tensor:
        """Return the model's outputs for a minibatch, without the data for a backward."""
        with torch.no_grad():
            return self.scores(samples)
