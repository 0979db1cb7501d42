"""Kernels of a minibatch and the time the GPU is busy with them, by PyTorch's profiler."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch

MOVES = ("Memcpy", "Memset")  # what names of events begin with that are no kernels


class Kernels(NamedTuple):
    """launches: kernels. copies: copies and fills of memory. seconds: during which at least one of all these ran."""

    launches: int
    copies: int
    seconds: float


def profiled(run: Callable[[], Any], device: str) -> Kernels | None:
    """Run once, under the profiler; None on a device that has no kernels."""
    if not device.startswith("cuda"):
        run()
        return None
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, acc_events=True) as found:
        run()
        torch.cuda.synchronize()
    return kernels_of(found.events() or ())


def kernels_of(events: Iterable[Any]) -> Kernels:
    """Count the kernels on the device, without the profiler's own marks, which span kernels."""
    on_device = [
        event
        for event in events
        if event.device_type == torch.autograd.DeviceType.CUDA and not getattr(event, "is_user_annotation", False)
    ]
    copies = sum(event.name.startswith(MOVES) for event in on_device)
    spans = [(event.time_range.start, event.time_range.end) for event in on_device]
    return Kernels(len(on_device) - copies, copies, union(spans) / 1e6)


def union(spans: Iterable[tuple[float, float]]) -> float:
    """Return how long at least one of these spans holds."""
    whole, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        whole += max(0.0, end - max(begin, until))
        until = max(until, end)
    return whole
