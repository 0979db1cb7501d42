"""The least time of a minibatch: its products, each in one launch over all its rows, at the speed of the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import torch

from experiments.throughput.counts import Product

TRIES = 5
BYTES = 4  # of a float32
SQUARE = {False: (1024, 2048, 4096, 8192), True: (256, 512)}  # rows of products that are tried, and in a quick run
COPIED = {False: 1 << 28, True: 1 << 22}  # floats


class Rates(NamedTuple):
    """Rates that the device reached: GFLOP/s by product, the best one, and GB/s of a copy, read and written."""

    products: dict[str, float]
    gflops: float
    gigabytes: float


def rates_of(device: str, quick: bool) -> Rates:
    """Measure products of float32 matrices and a copy, the best of some tries each."""
    products = {}
    with torch.no_grad():
        for size in SQUARE[quick]:
            x, y = (torch.randn(size, size, device=device) for _ in range(2))
            out = torch.empty_like(x)
            seconds = _least(partial(torch.mm, x, y, out=out), device)
            products[f"{size}x{size}x{size}"] = 2 * size**3 / 1e9 / seconds
        source = torch.zeros(COPIED[quick], device=device)
        target = torch.empty_like(source)
        seconds = _least(partial(target.copy_, source), device)
    return Rates(products, max(products.values()), 2 * BYTES * len(source) / 1e9 / seconds)


def _least(run: Callable[[], Any], device: str) -> float:
    """Return the least seconds of some tries; each has several runs, so that the start of one is hidden."""
    taken = []
    for _ in range(TRIES):
        wait(device)
        began = perf_counter()
        for _ in range(4):
            run()
        wait(device)
        taken.append((perf_counter() - began) / 4)
    return min(taken)


def wait(device: str) -> None:
    """Wait until everything has run."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def floor_of(products: Sequence[Product], phase: str, rates: Rates) -> float:
    """Return the least seconds of the products of a minibatch; training has those of the gradients too.

    Each takes the longer of its multiply-adds and its reads and writes.
    """
    return sum(
        max(2 * macs / (rates.gflops * 1e9), floats * BYTES / (rates.gigabytes * 1e9))
        for product in products
        for macs, floats in _runs(product, phase)
    )


def _runs(product: Product, phase: str) -> Iterator[tuple[int, int]]:
    """Yield multiply-adds and floats that are moved: all three matrices are, whichever one is the result."""
    _, rows, width, out, learnt = product
    run = (rows * width * out, rows * width + width * out + rows * out)
    yield run
    if phase == "train":
        yield run
        if learnt:
            yield run
