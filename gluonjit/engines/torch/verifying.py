"""Running a module's samples eagerly and batched, and comparing values and gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch

from gluonjit.engines.torch.arrays import FLOATS, name_of_dtype
from gluonjit.engines.torch.hooked import original_setattr
from gluonjit.engines.torch.lazy import LazyTensor
from gluonjit.engines.torch.operands import concrete
from gluonjit.hybrid.capture.cell import KEY
from gluonjit.hybrid.capture.functions import CellFunction
from gluonjit.hybrid.capture.outlining.outlines import AS_WRITTEN
from gluonjit.hybrid.capture.structure import items_of
from gluonjit.hybrid.explain.report import Report
from gluonjit.hybrid.run.engine import engine_of
from gluonjit.hybrid.run.state import LOCAL, UNCAPTURED
from gluonjit.hybrid.verify.comparing import Mode, Runs, compared, run_reusing, run_whole
from gluonjit.hybrid.verify.leftovers import Framework, Leftovers
from gluonjit.hybrid.verify.verification import CallEvent, Log, Loss, RunOutcome, Witness, batched_with, called

_Module = torch.nn.Module


def _probed(tensor: Any) -> tuple[Any, Any]:
    """A tensor plus zeros that get a gradient, and these zeros."""
    if not torch.is_grad_enabled() or name_of_dtype(tensor.dtype) not in FLOATS:
        return tensor, None
    probe = torch.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device, requires_grad=True)
    return tensor + probe, probe


@contextmanager
def observed(log: Log) -> Iterator[None]:
    """Notes every call of a module or a declared cell on this thread."""
    thread = LOCAL.state
    call, function = _Module.__call__, CellFunction.__call__

    def watched_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if LOCAL.state is thread and thread.trace is None:
            return log.call(type(self).__name__, (args, kwargs), lambda: call(self, *args, **kwargs))
        return call(self, *args, **kwargs)

    def watched_function(self: CellFunction, *args: Any, **kwargs: Any) -> Any:
        if LOCAL.state is thread and thread.trace is None:
            return log.call(self.name, (args, kwargs), lambda: function(self, *args, **kwargs))
        return function(self, *args, **kwargs)

    _Module.__call__ = watched_call
    CellFunction.__call__ = watched_function  # type: ignore[method-assign]
    try:
        yield
    finally:
        _Module.__call__ = call
        CellFunction.__call__ = function  # type: ignore[method-assign]


def verify(
    net: Any,
    samples: Sequence[Any],
    loss: Loss | None,
    rtol: float | None,
    train_mode: bool,
    options: Any,
    switch: tuple[Any, Any],
) -> Report:
    """Implements `gluonjit.verify`; `switch` are the functions that turn dynamic batching on and off."""

    def run(eager: bool, mode: Mode) -> RunOutcome:
        def run_once() -> RunOutcome:
            return _run(net, samples, loss, None, eager, mode.recording)

        with _in_mode(net, mode.training):
            return run_once() if eager else run_reusing(net.__dict__[KEY], run_once)

    def watched(probing: bool, eager: bool, witness: Witness | None, mode: Mode) -> list[CallEvent]:
        log = Log(torch.Tensor, _probed if probing else lambda tensor: (tensor, None), witness)
        with observed(log), AS_WRITTEN, _in_mode(net, mode.training), run_whole(net.__dict__[KEY]):
            _run(net, samples, loss, log, eager, mode.recording)
        return log.events

    off = "hybridize(net, dynamic_batch=False)"
    named = [(f"sample {number}", sample) for number, sample in enumerate(samples)]
    left = Leftovers(_FRAMEWORK, [("net", net), ("loss", loss), *named])
    forget = engine_of("torch").clear_caches
    with batched_with(net, KEY, options, *switch), _kept_gradients(net, samples):
        cells = [module.__dict__[KEY] for module in net.modules() if KEY in module.__dict__]
        promised = net.__dict__[KEY].reuse is not None
        gradient = lambda probe: _numbers(_gradient(probe))  # noqa: E731
        runs = Runs(run, watched, _numbers, gradient, off, left, forget, cells, promised)
        return compared(runs, rtol, train_mode, net.training)


def _run(
    net: Any, samples: Sequence[Any], loss: Loss | None, log: Log | None, eager: bool, recording: bool
) -> RunOutcome:
    LOCAL.state.flush("verify()")
    with UNCAPTURED if eager else nullcontext(), torch.set_grad_enabled(recording):
        targets = dict(_learned(net, samples))
        for tensor in targets.values():
            tensor.grad = None
        outputs, losses = called(net, samples, loss, torch.Tensor, log, _weighted)
        differentiable = [value.sum() for value in losses if value.requires_grad]
        if differentiable and targets:
            torch.autograd.backward(sum(differentiable[1:], differentiable[0]))
        known = [[_numbers(tensor) for tensor in tensors] for tensors in outputs]
        return RunOutcome(known, {name: _numbers(_gradient(tensor)) for name, tensor in targets.items()})


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
    plain = (concrete(tensor) if tensor.__class__ is LazyTensor else tensor).detach()
    return (plain.float() if plain.dtype is torch.bfloat16 else plain).cpu().numpy()


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
def _kept_gradients(net: Any, samples: Sequence[Any]) -> Iterator[None]:
    """Saves what backward writes to, and restores it at the end."""
    kept = [(tensor, tensor.grad) for _, tensor in _learned(net, samples)]
    try:
        yield
    finally:
        for tensor, before in kept:
            tensor.grad = before


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
