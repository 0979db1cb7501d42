"""Running a module's samples eagerly and batched, and comparing values and gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch

from gluonjit.engines.torch.dynamic import disable, enable
from gluonjit.engines.torch.framework.arrays import FLOATS, host_numbers, name_of_dtype
from gluonjit.engines.torch.framework.originals import original_setattr
from gluonjit.engines.torch.values.lazy import LazyTensor
from gluonjit.engines.torch.values.operands import concrete
from gluonjit.hybrid.capture.structure import items_of
from gluonjit.hybrid.run.state import LOCAL, UNCAPTURED
from gluonjit.hybrid.verify.comparing import Mode
from gluonjit.hybrid.verify.leftovers import Framework
from gluonjit.hybrid.verify.verification import Log, Loss, Patch, RunOutcome, called, swapped
from gluonjit.hybrid.verify.verifying import Verifying
from gluonjit.replaced import KEY

_Module = torch.nn.Module


def _write(tensor: Any, numbers: Any) -> None:
    """Puts numbers back where they were written over; a number of writes is left alone else."""
    if isinstance(tensor, np.ndarray):
        tensor[...] = numbers
    elif tensor.__class__ is not LazyTensor and tensor.shape == numbers.shape and not torch.equal(tensor, numbers):
        with torch.no_grad(), UNCAPTURED:
            tensor.detach().copy_(numbers)


def _kept(tensor: Any) -> Any:
    return tensor.copy() if isinstance(tensor, np.ndarray) else concrete_of(tensor).detach().clone()


def concrete_of(tensor: Any) -> Any:
    """A tensor that is computed."""
    return concrete(tensor) if tensor.__class__ is LazyTensor else tensor


_FRAMEWORK = Framework(
    torch.Tensor,
    _Module,
    frozenset({*_Module().__dict__, KEY} - {"_modules", "_buffers"}),
    torch.nn.Parameter,
    lambda tensor: tensor.copy() if isinstance(tensor, np.ndarray) else _numbers(tensor).copy(),
    _kept,
    _write,
    torch.get_rng_state,
    torch.set_rng_state,
)


def _gradient(tensor: Any) -> Any:
    return torch.zeros_like(tensor) if tensor.grad is None else tensor.grad.clone()


def _numbers(tensor: Any) -> Any:
    return host_numbers(concrete_of(tensor))


def _weighted(outputs: Sequence[Any]) -> list[Any]:
    """Sums with weights that are all different: a plain sum has no gradient through a softmax."""
    found = []
    for tensor in outputs:
        if name_of_dtype(tensor.dtype) in FLOATS:
            weights = torch.arange(1, tensor.numel() + 1, dtype=tensor.dtype, device=tensor.device).sin()
            found.append((tensor * weights.reshape(tensor.shape)).sum())
    return found


def _learned(net: Any, samples: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Every tensor that backward gives a gradient to: parameters, and inputs that require it."""
    for name, parameter in net.named_parameters():
        if parameter.requires_grad:
            yield name, parameter
    for number, sample in enumerate(samples):
        for position, tensor in enumerate(items_of(sample, torch.Tensor)):
            if tensor.requires_grad and tensor.is_leaf:
                yield f"input {position} of sample {number}", tensor


@contextmanager
def _in_mode(net: Any, train_mode: bool) -> Iterator[None]:
    """Sets all parts of the net to training or inference; at the end each returns to its own mode."""
    before = [(module, module.training) for module in net.modules()]
    net.train(train_mode)
    try:
        yield
    finally:
        for module, training in before:
            original_setattr(module, "training", training)


class _Verifying(Verifying):
    """PyTorch's."""

    engine, off = "torch", "hybridize(net, dynamic_batch=False)"
    framework = _FRAMEWORK
    enable, disable = staticmethod(enable), staticmethod(disable)
    parts = staticmethod(_Module.modules)

    def run(
        self, net: Any, samples: Sequence[Any], loss: Loss | None, log: Log | None, eager: bool, mode: Mode
    ) -> RunOutcome:
        LOCAL.state.flush("verify()")
        way = UNCAPTURED if eager else nullcontext()
        with _in_mode(net, mode.training), way, torch.set_grad_enabled(mode.recording):
            targets = dict(_learned(net, samples))
            for tensor in targets.values():
                tensor.grad = None
            outputs, losses = called(net, samples, loss, torch.Tensor, log, _weighted)
            differentiable = [value.sum() for value in losses if value.requires_grad]
            if differentiable and targets:
                torch.autograd.backward(sum(differentiable[1:], differentiable[0]))
            known = [[_numbers(tensor) for tensor in tensors] for tensors in outputs]
            return RunOutcome(known, {name: _numbers(_gradient(tensor)) for name, tensor in targets.items()})

    def watching(self, log: Log, on: Callable[[], bool]) -> list[Patch]:
        """Logs calls of modules."""
        call = _Module.__call__

        def watched_call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if on():
                return log.call(type(self).__name__, (args, kwargs), lambda: call(self, *args, **kwargs))
            return call(self, *args, **kwargs)

        return [(_Module, "__call__", watched_call)]

    def kept_gradients(self, net: Any, samples: Sequence[Any]) -> AbstractContextManager[None]:
        return swapped([(tensor, "grad", None) for _, tensor in _learned(net, samples)])

    def trains(self, net: Any, train_mode: bool) -> bool:
        return bool(net.training)

    def probed(self, tensor: Any) -> tuple[Any, Any]:
        if not torch.is_grad_enabled() or name_of_dtype(tensor.dtype) not in FLOATS:
            return tensor, None
        probe = torch.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device, requires_grad=True)
        return tensor + probe, probe

    def gradient(self, probe: Any) -> Any:
        return _numbers(_gradient(probe))


verify = _Verifying().verify
