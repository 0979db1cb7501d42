"""Weights that a program writes to, or takes views of to which it may write: what waits for them runs before.

PyTorch says nothing of a write, and calls that wait need the weight of their own time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from types import CodeType
from typing import Any

import torch

from gluonjit.compiled import FAST
from gluonjit.engines.torch.capture.indexing import entry_of_weight
from gluonjit.engines.torch.framework import originals
from gluonjit.engines.torch.framework.buffers import Account
from gluonjit.engines.torch.framework.exposed import between_batches, expose, is_due
from gluonjit.engines.torch.framework.targets import WRITES, is_writing, may_write
from gluonjit.engines.torch.values.aliases import VIEWING
from gluonjit.engines.torch.values.results import computed
from gluonjit.hybrid.capture.reuse.cache import refuse
from gluonjit.hybrid.run.state import LOCAL
from gluonjit.program.trace import NeedsValue

_ELSEWHERE = {"requires_grad_", "share_memory_"}  # which change no number


def announce(weight: Any) -> None:
    """Runs what waits for a weight that is written to next."""
    account = _account()
    if account is not None:
        refuse(WRITES)
        if id(weight) in account.versions:
            LOCAL.state.flush("a weight is written to")


def _account() -> Account | None:
    """The account of the open batch, where the program runs: neither a trace, nor what is run eagerly."""
    state = LOCAL.state
    batch = state.batch
    if batch is None or state.trace is not None or state.paused or batch.own.__class__ is not Account:
        return None
    return batch.own


def _writing(original: Any) -> Callable[..., Any]:
    @wraps(original)
    def write(self: Any, *args: Any, **kwargs: Any) -> Any:
        if LOCAL.state.batch is not None:
            announce(self)
        return original(self, *args, **kwargs)

    return write


def _viewing(original: Any, name: str) -> Callable[..., Any]:
    """Stands in the place of a method that gives a view; PyTorch refuses writes to one that has a history."""
    detaches, picks = name == "detach", name == "__getitem__"

    @wraps(original)
    def view(self: Any, *args: Any, **kwargs: Any) -> Any:
        if LOCAL.state.batch is None:
            return original(self, *args, **kwargs)
        if picks and args and args[0].__class__ is not slice:
            found = entry_of_weight(self, *args)
            if found is not None:
                return found
        found = original(self, *args, **kwargs)
        if not detaches and torch.is_grad_enabled() and originals.REQUIRES_GRAD.__get__(self):
            return found
        return _exposing(self, found) if may_write(_caller()) else found

    return FAST.Hook("entry", view) if picks and FAST is not None else view


def _caller() -> CodeType:
    """The function of the program that calls a method, by a function of PyTorch's or without one."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "torch":
        frame = frame.f_back
    return frame.f_code


def _exposing(weight: Any, found: Any) -> Any:
    """Returns what a program was given of a weight: before it writes to that, what waits for the weight runs."""
    account = _account()
    if account is not None:
        if id(weight) in account.versions and is_due(account.exposed, weight):
            LOCAL.state.flush("the memory of a weight was asked for, to which the program may write")
            account = _account()
        exposed = between_batches() if account is None else account.exposed
        for part in found if found.__class__ in (tuple, list) else (found,):
            if part.__class__ is torch.Tensor:
                expose(exposed, weight, part)
    return found


def _memory(self: Any) -> Any:
    found = originals.data_of(self)
    batch = LOCAL.state.batch
    if batch is None:
        return found
    used = batch.own.__class__ is Account and id(self) in batch.own.versions
    if used or id(self) in batch.parameters or isinstance(self, torch.nn.Parameter):
        return _exposing(self, found)
    batch.imports.pop(id(self), None)  # an input, which is looked at anew when it is used next
    return found


def _give_memory(self: Any, tensor: Any) -> None:
    state = LOCAL.state
    if state.trace is not None:
        raise NeedsValue
    if isinstance(self, torch.nn.Parameter) or (state.batch is not None and id(self) in state.batch.parameters):
        if not state.paused:
            state.flush("a weight was given other memory")
    originals.DATA.__set__(self, computed(tensor))


_NAMES = [name for name in dir(torch.Tensor) if name.startswith("__") or not name.startswith("_")]
_METHODS = {name: getattr(torch.Tensor, name) for name in _NAMES if callable(getattr(torch.Tensor, name))}
ANNOUNCING: list[tuple[Any, str, Any]] = [
    (torch.Tensor, "data", property(_memory, _give_memory, doc=originals.DATA.__doc__)),
    *[
        (torch.nn.Parameter, name, _writing(method))
        for name, method in _METHODS.items()
        if is_writing(name) and name not in _ELSEWHERE
    ],
    *[(torch.nn.Parameter, name, _viewing(method, name)) for name, method in _METHODS.items() if method in VIEWING],
]
"""Replacements of methods of weights, and of `data`, which buffers have too: no class tells those from inputs."""
