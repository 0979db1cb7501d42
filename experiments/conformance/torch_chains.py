"""Random chains of PyTorch's operators: each reads the first floats that the one before gave."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

from experiments.conformance.compare import examine
from experiments.conformance.outcome import CELL, OP, Record
from experiments.conformance.torch_operators import infos, minibatch
from experiments.conformance.torch_programs import Sample, flat, seeded

SAMPLES, TRIES = 6, 60
SHAPES = ((3, 4), (5, 5), (2, 3, 4), (4,), (1, 3, 6, 6), (6, 2), (2, 5, 5))
# What draws, leaves memory unwritten, or has several right answers.
LEFT_OUT = (
    *("empty", "resize", "rand", "bernoulli", "normal", "dropout", "multinomial", "uniform", "exponential", "cauchy"),
    *("geometric", "log_normal", "sparse", "rrelu", "jiterator", "nested", "svd", "eig", "qr", "lowrank", "item"),
    *("fractional", "lu_factor", "ormqr", "householder", "triangular_solve"),
)
UNCHECKED = (
    "native_batch_norm",
    "_batch_norm_with_update",
    "_segment_reduce",
)  # which reach outside of arguments of other sizes than their input's


class Hole:
    """The place of a tensor in arguments; the class itself, which copies leave as it is."""


class Chain:
    """Operators one after the other; the chain's tensors are its arguments."""

    def __init__(self, parts: list[tuple[Any, Any, Any]]) -> None:
        self.parts = parts

    def __call__(self, x: Any, *tensors: Any) -> Any:
        left = list(tensors)
        for function, args, kwargs in self.parts:
            args, kwargs = tree_map(lambda a: left.pop(0) if a is Hole else a, (args, kwargs))
            x = _first_floats(function(x, *args, **kwargs))
        return x


def check(seed: int, at: Callable[[str], None]) -> Record:
    """Compare the chain of a seed."""
    record = Record(f"chain {seed}")
    at("building")
    names, chain, inputs, tensors = _draw(random.Random(seed), seed)
    held = [tensor.detach().clone().requires_grad_(tensor.is_floating_point()) for tensor in tensors]
    samples = [Sample((x.clone().requires_grad_(), *held), {}) for x in inputs]
    for train in (True, False):
        name = " > ".join(names) + ("" if train else ", inference")
        examine(record, minibatch(name, chain, torch.float32, samples, train, (OP, CELL)), at)
    return record


def _draw(draw: random.Random, seed: int) -> tuple[list[str], Chain, list[Any], list[Any]]:
    pool = [
        (name, info)
        for name, info in sorted(infos().items())
        if torch.float32 in info.supported_dtypes("cpu") and info.supports_autograd
        if not any(word in name for word in LEFT_OUT)
    ]
    shape, length = draw.choice(SHAPES), draw.randint(3, 6)
    seeded(seed)
    inputs = [torch.randn(shape) * 0.8 + 0.3 for _ in range(SAMPLES)]
    names, tensors, now = [], [], inputs
    parts: list[tuple[Any, Any, Any]] = []
    for _ in range(TRIES):
        if len(parts) == length:
            break
        name, info = draw.choice(pool)
        try:
            with torch.no_grad():
                sample, found = _step(draw, info, now)
        except Exception:  # the operator does not take what the last one gave: another one is drawn
            continue
        if sample is None:
            continue
        parts.append((info.op, *tree_map(lambda a: Hole if isinstance(a, torch.Tensor) else a, sample)))
        names.append(name)
        tensors += [a for a in tree_flatten(sample)[0] if isinstance(a, torch.Tensor)]
        now = found
    return names, Chain(parts), inputs, tensors


def _step(draw: random.Random, info: Any, now: list[Any]) -> tuple[Any, list[Any]]:
    """Arguments for one more operator and what it gives, or None if that is no good beginning of another one."""
    made = info.sample_inputs("cpu", torch.float32, requires_grad=False, set_seed=False)
    options = [s for s in itertools.islice(made, 16) if isinstance(s.input, torch.Tensor)]
    fitting = [s for s in options if s.input.shape == now[0].shape]
    if not any(name in info.name for name in UNCHECKED):
        fitting = fitting or options[:4]
    sample = draw.choice(fitting)
    found = [_first_floats(info.op(x, *sample.args, **sample.kwargs)) for x in now]
    usable = all(
        x.layout is torch.strided
        and x.dtype is torch.float32
        and 0 < x.numel() < 3000
        and x.shape == found[0].shape
        and bool(x.isfinite().all())
        and float(x.abs().max()) < 1e4
        for x in found
    )
    return ((tuple(sample.args), dict(sample.kwargs)) if usable else None), found


def _first_floats(result: Any) -> Any:
    for x in flat(result, []):
        if isinstance(x, torch.Tensor) and x.is_floating_point():
            return x
    raise TypeError("the result holds no floats")
