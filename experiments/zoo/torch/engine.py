"""Making, batching and differentiating models in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

import gluonjit
from experiments.data.arrays import maker
from experiments.zoo.models import rows_of
from experiments.zoo.row import RATE, Arrays, Each, Row, in_turn
from experiments.zoo.samples import given

ROWS = rows_of("torch")
_make = maker("torch")


def samples(row: Row, count: int, seed: int) -> list[Any]:
    """Return samples of a model."""
    return [given(sample, _make) for sample in row.make_samples(count, np.random.RandomState(seed))]


def make_net(row: Row, seed: int) -> nn.Module:
    """Return a model."""
    torch.manual_seed(seed)
    net: nn.Module = row.make_net()
    for parameter in net.parameters():
        nn.init.uniform_(parameter, -row.scale, row.scale)
    return net


def batch(net: nn.Module, **options: Any) -> None:
    """Batch a model with these options of gluonjit; it never runs eagerly because that is faster."""
    gluonjit.hybridize(net, dynamic_batch=True, **{"granularity": "batched", **options})


def unbatch(net: nn.Module) -> None:
    """Run a model sample by sample again."""
    gluonjit.hybridize(net, dynamic_batch=False)


def run(net: nn.Module, samples: Sequence[Any], row: Row, training: bool, each: Each = in_turn) -> Arrays:
    """Return each sample's loss, and in training the gradients of their sum, if there are any."""
    if not training:
        with torch.no_grad():
            return {"losses": _numbers(each(partial(row.loss, net), samples))}
    net.zero_grad(set_to_none=True)
    losses = each(partial(row.loss, net), samples)
    (losses.sum() if isinstance(losses, torch.Tensor) else gluonjit.add_n(losses)).backward()
    gradients = {name: one.grad for name, one in net.named_parameters() if one.grad is not None}
    return {"losses": _numbers(losses), **{name: gradient.numpy().copy() for name, gradient in gradients.items()}}


def runner(net: nn.Module, row: Row, training: bool) -> Callable[[Sequence[Any]], Any]:
    """Return what runs a minibatch: a step of SGD, or the losses on the host."""
    optimizer = torch.optim.SGD(net.parameters(), RATE)

    def step(samples: Sequence[Any]) -> float:
        optimizer.zero_grad()
        total = sum(row.loss(net, sample) for sample in samples) / len(samples)
        total.backward()
        optimizer.step()
        return float(total.detach())

    return step if training else lambda samples: run(net, samples, row, False)


def _numbers(losses: Sequence[Any]) -> np.ndarray:
    return np.array([float(loss) for loss in losses])
