"""The systems of a workload on a device, all with equal weights, and their comparison with the CPU."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from torch import nn

from experiments.bench.agreement import deviations
from experiments.bench.base import BaseSystem, MissingSystem
from experiments.gpu.workloads import Workload
from experiments.throughput.peers import with_torch
from experiments.torch.systems import Dynamic, PerSample, by_hand
from experiments.torch.weights import weights_of

TOLERANCE = 1e-4  # of the largest entry: the device adds up in another order, and has other functions

BY_HAND = {"handbatched": "torch-handbatched", "handbatched-ownbwd": with_torch.OWN_BACKWARD}


class Made(NamedTuple):
    """Systems in the order of measurement, and by name the reasons why others are missing."""

    systems: list[BaseSystem]
    missing: dict[str, str]


def make(workload: Workload, net: nn.Module, names: Sequence[str], device: str) -> Made:
    """Build systems that begin with the weights of `net`; those of gluonjit with and without sharing."""
    program, given = workload.program, weights_of(net, workload.family)
    makers: dict[str, Callable[[], BaseSystem]] = {}

    def twin() -> nn.Module:
        return copy.deepcopy(net).to(device)

    for name in names:
        if name == "gluonjit":
            for sharing, end in ((True, ""), (False, ", no sharing")):
                makers[name + end] = partial(Dynamic, name, twin(), program, sharing)
        elif name == "per-sample":
            makers[name] = partial(PerSample, name, twin(), program)
        else:
            makers[name] = partial(by_hand, BY_HAND[name], given, program, workload.samples, device)
    systems: list[BaseSystem] = []
    missing: dict[str, str] = {}
    for name, build in makers.items():
        try:
            systems.append(build())
        except MissingSystem as error:
            missing[name] = str(error)
            continue
        systems[-1].name = name.split(",")[0]
    return Made(systems, missing)


def reference_of(workload: Workload, net: nn.Module, samples: Sequence[Any]) -> dict[str, Any]:
    """Return losses and gradients of the per-sample program on the processor; samples may be on a device."""
    return PerSample("reference", copy.deepcopy(net), workload.program).results(samples)


def agreement(system: BaseSystem, samples: Sequence[Any], expected: dict[str, Any]) -> dict[str, float]:
    """Return max|a - b| / max|b| of losses and of gradients, the worst of all weights."""
    found = deviations(system.results(samples), expected)
    losses = found.pop("losses")
    return {"losses": losses, "gradients": max(found.values())}
