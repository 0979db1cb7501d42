"""Calls of functions that return a view of their first argument, as steps that can be looked up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch

from gluonjit.hybrid.capture.structure import Args, Kwargs


class Slice(NamedTuple):
    """A slice that can be looked up in Python 3.9, too."""

    start: Any
    stop: Any
    step: Any


class PathStep(NamedTuple):
    """A call of a function that returns a view of its first argument; output: which result is the view.

    learning: whether gradients were recorded then.
    """

    func: Any
    args: Args
    kwargs: tuple[tuple[str, Any], ...]
    output: int | None
    learning: bool

    def of(self, tensor: Any) -> Any:
        """The view of a tensor."""
        args = _opened(self.args)
        with torch.set_grad_enabled(self.learning):
            found = self.func(tensor, *args, **{name: _opened(value) for name, value in self.kwargs})
        return found if self.output is None else found[self.output]


class CopyStep(PathStep):
    """A call of a function that may return a copy of its first argument instead.

    Of a tensor of this `spec`, after the steps `first`, it `copies` or does not.
    """

    spec: Any = None
    first: Any = None
    copies = False


_COPYING = set("contiguous reshape reshape_as flatten ravel to float double half bfloat16 type_as type cpu".split())
"""Names of functions of which a result is a copy where it cannot be a view."""


def show(tensor: Any, path: Iterable[Any]) -> Any:
    """The view of a tensor that these steps lead to."""
    for step in path:
        tensor = step.of(tensor)
    return tensor


def step_of(func: Any, args: Args, kwargs: Kwargs, output: int | None) -> PathStep | None:
    """The step of a call; None if an argument is more than a constant."""
    try:
        step = (CopyStep if getattr(func, "__name__", None) in _COPYING else PathStep)(
            func,
            frozen(args[1:]),
            tuple([(name, frozen(value)) for name, value in kwargs.items()]),
            output,
            func is torch.Tensor.detach or torch.is_grad_enabled(),
        )
        hash(step)
    except TypeError:
        return None
    return step


def steps_of(func: Any, args: Args, kwargs: Kwargs | None, parts: int) -> tuple[PathStep, ...] | None:
    """Finds the steps of a call to each of this many results, or to the only one (-1); None if there are none."""
    steps = [step_of(func, args, kwargs or {}, part) for part in (range(parts) if parts >= 0 else (None,))]
    found = tuple([step for step in steps if step is not None])
    return found if len(found) == len(steps) else None


def frozen(value: Any) -> Any:
    """Returns an argument that can be looked up. Raises TypeError for a tensor."""
    if value.__class__ is slice:
        return Slice(frozen(value.start), frozen(value.stop), frozen(value.step))
    if value.__class__ in (tuple, list, torch.Size):
        return tuple([frozen(item) for item in value])
    if isinstance(value, torch.Tensor):
        raise TypeError
    return value


def _opened(value: Any) -> Any:
    if value.__class__ is Slice:
        return slice(*value)
    return tuple([_opened(item) for item in value]) if value.__class__ is tuple else value
