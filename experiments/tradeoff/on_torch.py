"""The workloads on PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import torch
from torch import nn

import gluonjit
from experiments.throughput import on_torch
from experiments.tradeoff import ZOO, zoo
from experiments.tradeoff.measuring import Times

_NAMES = {"treelstm-sst": "bintree-sst"}  # what workloads are called where throughput is measured, if not the same


def load(name: str, data_dir: str | None, seed: int, limit: int | None) -> zoo.Workload:
    """Return a workload; with `limit`, of its first samples alone. Raises DataError if files are missing."""
    if name in ZOO:
        return zoo.load("torch", name, seed, limit)
    task = on_torch.load(_NAMES.get(name, name), data_dir, seed, limit)
    return zoo.Workload(task.note, task.samples, task.net, task.loss)


def batched(net: nn.Module, options: dict[str, Any]) -> nn.Module:
    """Return a net with the same parameters that is batched in this way."""
    shared = {id(tensor): tensor for tensor in (*net.parameters(), *net.buffers())}
    twin: nn.Module = copy.deepcopy(net, shared)
    gluonjit.hybridize(twin, dynamic_batch=True, **options)
    return twin


def run(net: nn.Module, loss: Callable[[Any, Any], Any], samples: Sequence[Any], training: bool) -> Times:
    """Run one minibatch."""
    net.zero_grad(set_to_none=True)
    begin = perf_counter()
    with torch.set_grad_enabled(training):
        losses = [loss(net, sample) for sample in samples]
        captured = perf_counter()
        if training:
            gluonjit.add_n(losses).backward()
        else:
            losses[-1].item()
    return Times(begin, captured, perf_counter())
