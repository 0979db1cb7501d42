"""The workloads on MXNet."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import mxnet as mx
from mxnet import autograd, gluon

import gluonjit
from experiments.tradeoff import ZOO, zoo
from experiments.tradeoff.measuring import Times, Workload
from experiments.workloads import load as load_workload

__all__ = ["batched", "load", "run"]


def load(name: str, data_dir: str | None, seed: int, limit: int | None) -> Workload:
    """Return a workload; with `limit`, of its first samples alone. Raises DataError if files are missing."""
    return zoo.load("mxnet", name, seed, limit) if name in ZOO else load_workload(name, data_dir, seed, limit)


def batched(net: gluon.Block, options: dict[str, Any]) -> gluon.Block:
    """Return a net with the same parameters that is batched in this way."""
    shared = {id(parameter): parameter for parameter in net.collect_params().values()}
    twin: gluon.Block = copy.deepcopy(net, shared)
    twin.hybridize(dynamic_batch=True, **options)
    return twin


def run(net: gluon.Block, loss: Callable[[Any, Any], Any], samples: Sequence[Any], training: bool) -> Times:
    """Run one minibatch, with the engine's work."""
    mx.nd.waitall()
    begin = perf_counter()
    if training:
        with autograd.record():
            losses = [loss(net, sample) for sample in samples]
            captured = perf_counter()
            total = gluonjit.add_n(losses)
        total.backward()
    else:
        losses = [loss(net, sample) for sample in samples]
        captured = perf_counter()
        losses[-1].wait_to_read()
    mx.nd.waitall()
    return Times(begin, captured, perf_counter())
