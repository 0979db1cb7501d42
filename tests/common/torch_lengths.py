"""Minibatches of samples of any length, run eagerly and batched, and compared."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Callable

import torch

import gluonjit
from tests.common.torch_support import assert_close


def numbers(draw: Any, *shape: int) -> Any:
    return torch.randn(shape, generator=draw)


def whole(draw: Any, most: int, *shape: int) -> Any:
    return torch.randint(most, shape, generator=draw)


def flat(found: Any) -> list[Any]:
    return [item for part in found for item in flat(part)] if isinstance(found, (tuple, list)) else [found]


def samples(make: Callable[[Any, int], tuple[Any, ...]], seed: int, lengths: Any) -> list[tuple[Any, ...]]:
    draw = torch.Generator().manual_seed(seed)
    return [make(draw, length) for length in lengths]


def run(net: Any, given: list[tuple[Any, ...]], learns: bool, **options: Any) -> tuple[list[Any], list[Any], Any]:
    """Results, gradients of weights and of inputs that learn, and the report of a minibatch."""
    net.zero_grad()
    own = [tuple([x.clone().requires_grad_(learns and x.is_floating_point()) for x in sample]) for sample in given]
    region = gluonjit.batching(**options) if options else nullcontext()
    with region as batch:
        found = [flat(net(*sample)) for sample in own]
        items = [item for each in found for item in each]
        total = sum((item * torch.linspace(1, 2, item.numel()).view(item.shape)).sum() for item in items)
        if total.requires_grad:
            total.backward()
    kept = [item.detach().clone() for item in items]
    leaves = [*net.parameters(), *[x for sample in own for x in sample if x.requires_grad]]
    return kept, [None if leaf.grad is None else leaf.grad.clone() for leaf in leaves], batch and batch.report


def assert_as_eagerly(eager: Any, net: Any, given: list[Any], learns: bool = False, **options: Any) -> Any:
    """Compare a minibatch with the eager program, and return its report."""
    wanted, gradients, _ = run(eager, given, learns)
    found, own, report = run(net, given, learns, **{"granularity": "cell", **options})
    for number, (one, other) in enumerate(zip(found, wanted)):
        assert_close(one, other, f"result {number}", 1e-4)
    for number, (one, other) in enumerate(zip(own, gradients)):
        assert (one is None) == (other is None), f"gradient {number}"
        if one is not None:
            assert_close(one, other, f"gradient {number}", 1e-4)
    return report


def met(net: Any, make: Any) -> None:
    """Lets a model meet enough lengths that others are derived."""
    for lengths in ((3, 5), (4, 7, 6), (8, 2)):
        with gluonjit.batching(granularity="cell"):
            for sample in samples(make, 9, lengths):
                net(*sample)
