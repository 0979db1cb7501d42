"""Hooks of results that captured calls of their batch have used: they run inside of the batch's backward pass.

To PyTorch the batch is one function, of which it sees no more than the part of the gradient from outside.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from gluonjit.analysis.plan import Place
from gluonjit.engines.torch.framework.originals import original_register_hook, original_retain_grad
from gluonjit.engines.torch.run.chunks import current_backward
from gluonjit.engines.torch.run.gradients import HookedResult
from gluonjit.engines.torch.values.lazy import LazyTensor
from gluonjit.engines.torch.values.operands import current
from gluonjit.engines.torch.values.results import computed, is_used, is_used_inside, refuse_used
from gluonjit.graph import Value
from gluonjit.hybrid.choose.pacing import keep_eager


def register_hook(self: Any, hook: Any) -> Any:
    """torch.Tensor.register_hook; an eager program that asks for gradients of results stays eager."""
    if self.__class__ is torch.Tensor and self.grad_fn is not None:
        keep_eager()
    return original_register_hook(self, hook)


def retain_grad(self: Any) -> None:
    """torch.Tensor.retain_grad, and the same."""
    if self.__class__ is torch.Tensor and self.grad_fn is not None:
        keep_eager()
    original_retain_grad(self)


OBSERVING = {original_retain_grad, retain_grad, original_register_hook, register_hook}
"""What such a call comes to a lazy tensor as."""


def observe(lazy: LazyTensor, hook: Any = None, *, name: str) -> Any:
    """Attach a hook to a computed result that its batch has used, or retain its gradient; else NotImplemented.

    Raises CaptureError for parts of results, and for a result of several equal calls: their gradients are one. And for
    one that its own call goes on from.
    """
    value = current(lazy)
    if not is_used(value):
        return NotImplemented
    tape = _tape_of(value)
    if tape is None or not lazy._c.requires_grad:
        refuse_used(lazy, f"{name}() on a result")
        return NotImplemented
    found = _observed(tape, value)
    if hook is None:
        if not lazy._c.retains_grad:
            found.last.append(_retained(lazy._c))
        return None
    handle = RemovableHandle(found.hooks)
    found.hooks[handle.id] = lambda gradient: computed(hook(gradient))
    return handle


def _tape_of(value: Value) -> Any:
    """Returns the history that a result is of; None if the gradient of its rows is not its own."""
    if value.result is None or value.result.chunk.readers.shared or is_used_inside(value):
        return None
    return getattr(value.result.chunk.tensor.grad_fn, "tape", None)


def _observed(tape: Any, value: Value) -> HookedResult:
    chunk, row = value.result
    begin = chunk.place.begin + row
    place = Place(chunk.place.arena, begin, begin + value.spec.rows)
    step = next(number for number, step in enumerate(chunk.plan.steps) if chunk.place in step.places)
    known: list[HookedResult] = tape.observed.setdefault(step, [])
    for found in known:
        if found.place == place:
            return found
    known.append(HookedResult(place, value.spec.shape, OrderedDict(), []))
    return known[-1]


def _retained(tensor: Any) -> Callable[[Any], None]:
    """Lets a tensor retain its gradient: the part from outside of the batch, as PyTorch does it, becomes all of it."""
    before: dict[int, Any] = {}  # what was known, by the pass that adds to it

    def note(gradient: Any) -> None:
        before[current_backward()] = tensor.grad

    original_retain_grad(tensor)
    original_register_hook(tensor, note)

    def retain(gradient: Any) -> None:
        known = before.pop(current_backward(), tensor.grad)
        tensor.grad = gradient if known is None else known + gradient

    return retain
