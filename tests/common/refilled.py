"""A loader that refills one buffer for each sample, by functions, by methods, and through other tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

import gluonjit

SAMPLES, WIDTH = 64, 5


REFILLS: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "copy": lambda buffer: lambda sample: buffer.copy_(sample),
    "item": lambda buffer: lambda sample: buffer.__setitem__(slice(None), sample),
    "out": lambda buffer: lambda sample: torch.mul(sample, 1, out=buffer),
    "foreach": lambda buffer: lambda sample: torch._foreach_copy_([buffer], [sample]),
    "data": lambda buffer: lambda sample: buffer.data.copy_(sample),
    "view before": lambda buffer: buffer.view(-1).copy_,
}


def check_refilled(place: str, name: str, inference: bool = False, parts: int = 1) -> int:
    """Checks that each sample has its own numbers; `parts` buffers are one tensor. Returns how many launches ran."""
    torch.manual_seed(0)
    samples = torch.randn(SAMPLES, WIDTH)
    net = nn.Sequential(nn.Linear(WIDTH, 3), nn.Tanh())
    expected = net(samples).detach()
    there, net = list(samples.to(place)), copy.deepcopy(net).to(place)
    gluonjit.hybridize(net, dynamic_batch=True, granularity="batched")
    with torch.inference_mode() if inference else nullcontext():
        buffer = torch.zeros(parts, WIDTH, device=place)[parts // 2] if parts > 1 else torch.zeros(WIDTH, device=place)
        refill = REFILLS[name](buffer)
        found = []
        for sample in there:
            refill(sample)
            found.append(net(buffer))
        buffer.zero_()
        results = torch.stack(found).detach().cpu()
    torch.testing.assert_close(results, expected)
    return gluonjit.explain().launches
