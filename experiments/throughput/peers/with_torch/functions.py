"""The common part of the models in PyTorch: their weights, the step, and functions with their derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from experiments.throughput.peers.samples import Arrays

TABLE = "embed_weight"


class Learner:
    """A model for a minibatch: it says its losses with the gradients of their sum, and its outputs."""

    def __init__(self, weights: Arrays, rate: float, device: str = "cpu") -> None:
        self.device = device
        self.weights = {name: self.tensor(array.copy()) for name, array in weights.items() if name != TABLE}
        self.table = self.tensor(weights[TABLE].copy())
        self._rate = rate

    def tensor(self, array: np.ndarray) -> Tensor:
        """Return an array where the model is; on the processor without a copy."""
        return torch.from_numpy(array).to(self.device)

    def gradients(self, samples: Sequence[Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the losses of a minibatch and the gradients of their sum."""
        raise NotImplementedError

    def outputs(self, samples: Sequence[Any]) -> Tensor:
        """Return the model's outputs for a minibatch."""
        raise NotImplementedError

    def differentiate(self, samples: Sequence[Any]) -> Arrays:
        """Return losses and gradients as arrays."""
        losses, found = self.gradients(samples)
        return {name: array.cpu().numpy() for name, array in {"losses": losses, **found}.items()}

    def step(self, samples: Sequence[Any]) -> None:
        """Learn from one minibatch, by stochastic gradient descent on the mean loss."""
        _, found = self.gradients(samples)
        with torch.no_grad():
            for name, gradient in found.items():
                self.weights[name].sub_(gradient, alpha=self._rate / len(samples))

    def infer(self, samples: Sequence[Any]) -> Any:
        """Return the outputs on the host."""
        return self.outputs(samples).cpu().numpy()


def tanh(value: Tensor, out: Tensor) -> Tensor:
    """Return tanh, on a CPU by the sigmoid, which PyTorch computes several times faster there."""
    if value.is_cuda:
        return torch.tanh(value, out=out)
    return torch.mul(value, 2, out=out).sigmoid_().mul_(2).sub_(1)


def log_softmax_backward(gradient: Tensor, output: Tensor) -> Tensor:
    """Return the gradient of a log-softmax's input."""
    return gradient - output.exp().mul_(gradient.sum(1, keepdim=True))


def state_backward(state: Sequence[Tensor], dh: Tensor, dc: Tensor, into: Sequence[Tensor]) -> None:
    """Write the gradients of i, o and u before their functions, from those of h and c; that of c becomes whole.

    `state` is i, o, u and the tanh of c, where c = i u + ... and h = o tanh(c); `into` is for i, o and u.
    """
    i, o, u, tanh_c = state
    di, do, du = into
    through = dh * o
    dc.add_(through).sub_(through.mul_(tanh_c).mul_(tanh_c))
    torch.mul(dh, tanh_c, out=do)
    do.mul_(o).mul_(1 - o)
    torch.mul(dc, u, out=di)
    di.mul_(i).mul_(1 - i)
    torch.mul(u, u, out=du)
    du.neg_().add_(1).mul_(i).mul_(dc)


def divergence(scores: Tensor, targets: Tensor) -> Tensor:
    """Return the Kullback-Leibler divergence of each row, as in Gluon."""
    return (targets * ((targets + 1e-12).log() - scores)).sum(1)


def per_sample(losses: Tensor, sizes: Sequence[int]) -> Tensor:
    """Sum the losses of each sample; `sizes` are their numbers."""
    counts = torch.tensor(sizes, device=losses.device)
    owner = torch.repeat_interleave(torch.arange(len(sizes), device=losses.device), counts, output_size=len(losses))
    return losses.new_zeros(len(sizes)).index_add(0, owner, losses)
