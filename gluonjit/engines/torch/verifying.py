"""Running a module's samples eagerly and batched, and comparing values and gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from sys import _getframe
from typing import Any, NamedTuple

import torch

from gluonjit.engines.torch.arrays import FLOATS, name_of_dtype
from gluonjit.engines.torch.dynamic import KEY, disable, enable
from gluonjit.engines.torch.hooked import original_setattr
from gluonjit.engines.torch.lazy import LazyTensor
from gluonjit.engines.torch.operands import concrete
from gluonjit.engines.torch.structure import map_structure
from gluonjit.errors import VerifyError
from gluonjit.graph import line_of, origin_of
from gluonjit.hybrid import LOCAL, UNCAPTURED, Report, explain
from gluonjit.hybrid.functions import CellFunction
from gluonjit.hybrid.verification import Difference, Event, difference, first_gradient, first_result

Loss = Callable[[Any, Any], Any]
_Module = torch.nn.Module


class Outcome(NamedTuple):
    """One run: outputs of each sample, gradients by what they are of."""

    outputs: list[list[Any]]
    gradients: dict[str, Any]


class Log:
    """The calls of a run, as they are made."""

    def __init__(self, probing: bool) -> None:
        self.events: list[Event] = []
        self.sample = 0
        self._open: list[Event] = []
        self._probing = probing

    def call(self, name: str, operands: Any, run: Callable[[], Any]) -> Any:
        """Make a call and note it."""
        addresses = tuple([id(tensor) for tensor in tensors_in(operands)])
        event = Event(name, self.sample, line_of(origin_of(_getframe(2))), addresses)
        (self._open[-1].inside if self._open else self.events).append(event)
        self._open.append(event)
        try:
            result = run()
            return map_structure(result, lambda item: self._note(event, item) if _is_tensor(item) else item)
        finally:
            self._open.pop()

    def _note(self, event: Event, tensor: Any) -> Any:
        if self._probing and torch.is_grad_enabled() and name_of_dtype(tensor.dtype) in FLOATS:
            probe = torch.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device, requires_grad=True)
            tensor = tensor + probe
            event.probes.append(probe)
        else:
            event.probes.append(None)
        event.results.append(tensor)
        return tensor


@contextmanager
def observed(log: Log) -> Iterator[None]:
    """Note every call of a module or a declared cell on this thread."""
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
    net: Any, samples: Sequence[Any], loss: Loss | None, rtol: float | None, train_mode: bool, options: Any
) -> Report:
    """Implements `gluonjit.verify`."""
    with _batched(net, options), _in_mode(net, train_mode), _kept_gradients(net, samples):
        eager = _run(net, samples, loss, None, True)
        batched = _run(net, samples, loss, None, False)
        report = explain()
        found = _compare(eager, batched, rtol)
        if found is None:
            return report
        what, apart, gradient = found
        logs = [_watched(net, samples, loss, gradient, paused) for paused in (True, False)]
        if gradient:
            where = first_gradient(logs[0], logs[1], lambda probe: _numbers(_gradient(probe)), rtol)
        else:
            where = first_result(logs[0], logs[1], _numbers, rtol)
    where = where or "no single call differs while calls are watched one by one"
    raise VerifyError(
        f"verify(): batched and eager execution differ by {apart.by:.3g}, at a scale of {apart.scale:.3g}, in {what}: "
        f"{apart}. Of the calls, {where}. With hybridize(net, dynamic_batch=False) the net runs as it should."
    )


def _watched(net: Any, samples: Sequence[Any], loss: Loss | None, probing: bool, eager: bool) -> list[Event]:
    log = Log(probing)
    with observed(log):
        _run(net, samples, loss, log, eager)
    return log.events


def _compare(eager: Outcome, batched: Outcome, rtol: float | None) -> tuple[str, Difference, bool] | None:
    for number, (wanted, found) in enumerate(zip(eager.outputs, batched.outputs)):
        for expected, actual in zip(wanted, found):
            apart = difference(actual, expected, rtol)
            if apart is not None:
                return f"the output of sample {number}", apart, False
    for name, expected in eager.gradients.items():
        apart = difference(batched.gradients[name], expected, rtol)
        if apart is not None:
            return f"the gradient of {name}", apart, True
    return None


def _run(net: Any, samples: Sequence[Any], loss: Loss | None, log: Log | None, eager: bool) -> Outcome:
    LOCAL.state.flush("verify()")
    with UNCAPTURED if eager else nullcontext(), torch.enable_grad():
        targets = dict(_learned(net, samples))
        for tensor in targets.values():
            tensor.grad = None
        outputs, losses = [], []
        for number, sample in enumerate(samples):
            if log is not None:
                log.sample = number
            output = net(*sample) if isinstance(sample, tuple) else net(sample)
            outputs.append(list(tensors_in(output)))
            losses += [loss(output, sample)] if loss is not None else _weighted(outputs[-1])
        differentiable = [value.sum() for value in losses if value.requires_grad]
        if differentiable and targets:
            torch.autograd.backward(sum(differentiable[1:], differentiable[0]))
        known = [[_numbers(tensor) for tensor in tensors] for tensors in outputs]
        return Outcome(known, {name: _numbers(_gradient(tensor)) for name, tensor in targets.items()})


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
        for position, tensor in enumerate(tensors_in(sample)):
            if tensor.requires_grad and tensor.is_leaf:
                yield f"input {position} of sample {number}", tensor


@contextmanager
def _kept_gradients(net: Any, samples: Sequence[Any]) -> Iterator[None]:
    """What backward writes to is afterwards what it was before."""
    kept = [(tensor, tensor.grad) for _, tensor in _learned(net, samples)]
    try:
        yield
    finally:
        for tensor, before in kept:
            tensor.grad = before


@contextmanager
def _in_mode(net: Any, train_mode: bool) -> Iterator[None]:
    """All parts of the net as in training, or as in inference; afterwards each as it was."""
    before = [(module, module.training) for module in net.modules()]
    net.train(train_mode)
    try:
        yield
    finally:
        for module, training in before:
            original_setattr(module, "training", training)


@contextmanager
def _batched(net: Any, options: dict[str, Any]) -> Iterator[None]:
    """The net with these options, or those it has; afterwards as it was."""
    cell = net.__dict__.get(KEY)
    if cell is not None and not options:
        yield
        return
    enable(net, options)
    try:
        yield
    finally:
        if cell is None:
            disable(net)
        else:
            enable(net, asdict(cell.options))


def _is_tensor(item: Any) -> bool:
    return isinstance(item, torch.Tensor)


def tensors_in(item: Any) -> Iterator[Any]:
    """Every tensor in nested lists, tuples and dictionaries."""
    if isinstance(item, torch.Tensor):
        yield item
    elif isinstance(item, dict):
        yield from tensors_in(tuple(item.values()))
    elif isinstance(item, (list, tuple)):
        for part in item:
            yield from tensors_in(part)
