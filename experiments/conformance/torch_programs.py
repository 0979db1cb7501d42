"""Programs for one sample around a function of PyTorch or a module, and minibatches of them."""

from __future__ import annotations

import contextlib
import copy
import random
import traceback
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils._pytree import tree_map

import gluonjit
from experiments.conformance.outcome import Leaf, Mode, Outcome

_FROZEN = "__allow_nonbracketed_mutation_flag"
NOISE = {"float16": 4e-3, "bfloat16": 1.6e-2, "float64": 1e-9, "complex128": 1e-9}  # of a sum, of its terms
EPSILON = {"float16": 1e-2, "bfloat16": 1e-2, "float32": 1e-6, "complex64": 1e-6}


class Sample:
    """The arguments of one sample. `process` makes what gradients are taken of from the result."""

    def __init__(self, args: Any, kwargs: Any, process: Callable[[Any], Any] | None = None) -> None:
        self.args, self.kwargs = tuple(args), dict(kwargs)
        self.process = process or (lambda result: result)

    def map(self, change: Callable[[Any], Any]) -> Sample:
        """The sample with its tensors changed."""
        args, kwargs = tree_map(lambda x: change(x) if isinstance(x, torch.Tensor) else x, (self.args, self.kwargs))
        return Sample(args, kwargs, self.process)

    def tensors(self) -> list[Any]:
        """Its tensors, in order."""
        found: list[Any] = []
        self.map(lambda tensor: found.append(tensor) or tensor)  # type: ignore[func-returns-value]
        return found

    def form(self) -> str:
        """Describe all that is equal for samples of one shape."""
        described = self.map(lambda x: torch.empty(0, dtype=x.dtype))
        return f"{[(tuple(x.shape), x.dtype, x.layout) for x in self.tensors()]} {described.args} {described.kwargs}"


def is_float(tensor: Any) -> bool:
    """True for tensors of real or complex numbers with rounding."""
    return bool(tensor.is_floating_point() or tensor.is_complex())


def is_dense(tensor: Any) -> bool:
    """True for tensors that are plain memory."""
    return tensor.layout is torch.strided and not tensor.is_quantized and not tensor.is_nested


def with_own_leaves(sample: Sample) -> Sample:
    """The sample with leaves that gradients can be written to."""

    def one(x: Any) -> Any:
        return (x.detach().clone() if is_dense(x) else x.detach()).requires_grad_(x.requires_grad)

    return sample.map(one)


def nudged(sample: Sample) -> Sample:
    """The sample with floats moved by their rounding."""

    def one(x: Any) -> Any:
        if not is_float(x) or not is_dense(x):
            return x
        return (x.detach() * (1 + EPSILON.get(str(x.dtype)[6:], 1e-12))).requires_grad_(x.requires_grad)

    return sample.map(one)


class Apply(nn.Module):
    """A module that calls a function: a cell."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.function(*args, **kwargs)


class Net(nn.Module):
    """A program for one sample: what it is given waits for a product with a weight of 1, then its module runs."""

    def __init__(self, inner: nn.Module, dtype: Any = torch.float32, whole: bool = False) -> None:
        super().__init__()
        self.one = nn.Parameter(torch.ones((), dtype=dtype if dtype.is_floating_point else torch.float32))
        self.inner = inner
        self.whole = whole  # whole numbers wait, too

    def pending(self, value: Any) -> Any:
        """The value as a result of this sample's."""
        if type(value) in (list, tuple):
            return type(value)([self.pending(each) for each in value])
        if not isinstance(value, torch.Tensor) or not is_dense(value):
            return value
        if is_float(value):
            return value * self.one.to(value.dtype)
        if not self.whole:
            return value
        zero = self.one.detach() * 0
        return value ^ zero.to(torch.bool) if value.dtype is torch.bool else value + zero.to(value.dtype)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module on pending arguments."""
        waiting = {name: self.pending(value) for name, value in kwargs.items()}
        return self.inner(*[self.pending(value) for value in args], **waiting)


def seeded(seed: int) -> None:
    """Begin all generators anew; quicker than torch.manual_seed, which looks for devices."""
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


def loss_of(results: list[Any]) -> Any:
    """One number of all floats of the results, each element with a weight of its own."""
    total: Any = None
    for x in results:
        if not isinstance(x, torch.Tensor) or not is_dense(x) or not is_float(x) or not x.numel():
            continue
        real = x.real.dtype if x.is_complex() else x.dtype
        weights = torch.linspace(0.5, 1.5, x.numel(), dtype=torch.float64).to(real).reshape(x.shape)
        if x.is_complex():
            term = (x.real * weights).sum() + (x.imag * weights.reshape(-1).flip(0).reshape(x.shape)).sum()
        else:
            term = (x * weights).sum()
        term = term.to(torch.float64) if term.dtype in (torch.bfloat16, torch.float16) else term
        total = term if total is None else total + term
    return total


def flat(result: Any, types: list[Any]) -> Iterator[Any]:
    """The leaves of a result, in order; writes what holds them into `types`."""
    if isinstance(result, (list, tuple, dict)):
        keys = list(map(str, result)) if isinstance(result, dict) else len(result)
        types.append((f"{type(result).__module__}.{type(result).__qualname__}", keys))
        for each in result.values() if isinstance(result, dict) else result:
            yield from flat(each, types)
    else:
        types.append("Tensor" if isinstance(result, torch.Tensor) else type(result).__name__)
        yield result


def leaf(x: Any) -> Leaf | None:
    """A tensor or another value, without its framework."""
    if x is None:
        return None
    if not isinstance(x, torch.Tensor):
        return Leaf(type(x).__name__, x)
    layout = "" if x.layout is torch.strided else f" {str(x.layout)[6:]}"
    kind = f"{str(x.dtype)[6:]}{layout}"
    if x.device.type == "meta":
        return Leaf(kind, np.zeros(x.shape))
    said = (tuple(x.shape), kind)
    value = x.detach()
    if value.is_quantized:
        value = value.dequantize()
    value = value.to_dense() if layout else value
    if value.dtype is torch.bfloat16:
        value = value.to(torch.float32)
    if value._is_zerotensor():  # which has no memory
        value = torch.zeros_like(value)
    value = value.resolve_conj().resolve_neg().numpy()
    return Leaf(f"{value.dtype}{layout}" if x.dtype is not torch.bfloat16 else kind, value.copy(), said)


def run(net: Any, minibatches: list[list[Sample]], train: bool, mode: Mode | None, seed: int, rate: float) -> Outcome:
    """Run minibatches, with a step of SGD of this rate after each in training; errors are part of the outcome."""
    got = Outcome(parts={"value": [], "gradient": [], "weight": [], "state": []})
    net = copy.deepcopy(net)
    if mode is not None:
        gluonjit.hybridize(net, dynamic_batch=True, granularity=mode.granularity)
    seeded(seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            for minibatch in minibatches:
                _step(net, [with_own_leaves(sample) for sample in minibatch], train, got, rate)
            got.phase = "state"
            if rate:
                got.parts["state"] = [leaf(x) for x in net.state_dict().values() if isinstance(x, torch.Tensor)]
        except Exception as error:
            got.error, got.trace = error, traceback.format_exc()
    if mode is not None:
        report = gluonjit.explain()
        got.batched = report is not None and not report.alone
        got.distrusted = [str(each.message)[:300] for each in caught if each.category.__name__ == "RuleWarning"]
    return got


def _step(net: Any, samples: list[Sample], train: bool, got: Outcome, rate: float) -> None:
    got.phase = "call"
    with contextlib.nullcontext() if train else torch.no_grad():
        results = [net(*sample.args, **sample.kwargs) for sample in samples]
    leaves = [x for result in results for x in flat(result, got.containers)]
    if train:
        got.phase = "loss"
        net.zero_grad()
        processed = [x for sample, result in zip(samples, results) for x in flat(sample.process(result), [])]
        loss = loss_of(processed)
        got.phase = "backward"
        if isinstance(loss, torch.Tensor) and loss.requires_grad:
            loss.backward()
    got.phase = "reading"
    got.parts["value"] += [leaf(x) if x is not None else Leaf("NoneType", None) for x in leaves]
    if train:
        learning = [x for sample in samples for x in sample.tensors() if x.requires_grad and x.is_leaf]
        gradients = [leaf(x.grad) for x in learning]
        noise = sum(NOISE.get(x.kind, 1e-5) * float(np.abs(x.value).sum()) for x in gradients if x is not None)
        got.parts["gradient"] += gradients
        got.parts["weight"] += [_noisy(leaf(p.grad), noise) for p in net.parameters()]
        if rate:
            torch.optim.SGD(net.parameters(), lr=rate).step()


def _noisy(gradient: Leaf | None, noise: float) -> Leaf | None:
    if gradient is not None and gradient.value.size == 1 and np.isfinite(noise):
        gradient.noise = noise
    return gradient


def internal(name: str) -> Any:
    """Import a module of PyTorch's own test data, which would forbid this process to set `torch.backends` later."""
    switches = torch.backends.flags_frozen.__globals__  # the module itself stands behind another one
    before = switches[_FROZEN]
    try:
        return import_module(f"torch.testing._internal.{name}")
    finally:
        switches[_FROZEN] = before
