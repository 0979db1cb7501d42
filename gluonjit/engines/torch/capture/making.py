"""Tensors that a program makes from nothing: as a lazy one is, or with numbers of its own to be written over."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import cache, wraps
from types import CodeType
from typing import Any

import numpy as np
import torch

from gluonjit.compiled import FAST
from gluonjit.engines.torch.capture.cells import open_batch
from gluonjit.engines.torch.framework.arrays import FLOATS, WHOLE, device_named, dtype_named
from gluonjit.engines.torch.values.known import is_whole
from gluonjit.engines.torch.values.lazy import LazyTensor, as_known, known_here
from gluonjit.engines.torch.values.operands import MadeHere, NotAnOperand, is_made, leaf
from gluonjit.graph import user_line
from gluonjit.graph.frames import is_library
from gluonjit.graph.values import mode_of
from gluonjit.hybrid.run.engine import engine_of
from gluonjit.hybrid.run.state import LOCAL


@cache
def _like(dtype: str, device: str) -> Any:
    """A tensor without elements."""
    return torch.empty(0, dtype=dtype_named(dtype), device=device_named(device))


TRIED: dict[int, MadeHere] = {}
"""How many more lazy tensors of floats a function makes, by the address of its code, and of whole numbers, by the
complement of that."""
_MOST = 4096
_FIRST = 32
_WRITTEN = -1


def derived(found: Any) -> Any:
    """Returns what was computed of tensors that the program has made as one that it has made, if it may be written to.

    Not if it has memory that others have, too.
    """
    line = user_line()
    if line is None or found.__class__ is not torch.Tensor or found.requires_grad or not is_alone(found):
        return found
    return _as_made(found, line[0])


def _as_made(tensor: Any, code: CodeType) -> Any:
    """A tensor of the program's own, which is no part of a graph until a pending one is written to it.

    code: the function that makes it. If none of its first are written to, more stay plain, which takes less time.
    """
    whole = not tensor.is_floating_point()
    if whole and not is_whole(tensor):
        return tensor
    place = ~id(code) if whole else id(code)
    made = TRIED.get(place)
    if made is None:
        if len(TRIED) >= _MOST:
            TRIED.clear()
        made = TRIED[place] = MadeHere([_FIRST])
    if not made[0]:
        return tensor
    if made[0] > 0:
        made[0] -= 1
    found = as_known(tensor)
    found._k = made
    return found


_PLAIN = (type(None), int, float, torch.dtype, torch.device, torch.layout, torch.memory_format, np.ndarray, np.number)


def _is_plain(item: Any) -> bool:
    if isinstance(item, (tuple, list)):
        return all(map(_is_plain, item))
    return isinstance(item, _PLAIN)


def _of_look(method: Any) -> Callable[..., Any]:
    """Wraps a method that makes a tensor and takes of a lazy one its dtype and device at most."""

    @wraps(method)
    def make(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not all(map(_is_plain, (*args, *kwargs.values()))):
            return engine_of("torch").call_operator(method, (self, *args), kwargs)  # type: ignore[attr-defined]
        spec = self._v.spec
        found = method(_like(spec.dtype, spec.device), *args, **kwargs)
        return new(method, found) if LOCAL.state.inside else found

    return make


# --- for themselves --------------------------------------------------------------------------------------------------

_NAMES = "zeros ones full empty zeros_like ones_like full_like empty_like tensor".split()


def _creating(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function that creates a tensor: numbers of the host that a captured sample makes are lazy, and floats.

    A pending tensor that is written to a plain one would have to be computed at once: see `_as_made`. Until then a lazy
    one is no part of a graph: what does without pending tensors runs on its memory, as in eager execution. One that
    looks like known integers is made as from these.
    """

    @wraps(function)
    def create(*args: Any, **kwargs: Any) -> Any:
        like = known_here(args[0]) if args and args[0].__class__ is LazyTensor else None
        found = function(*args, **kwargs) if like is None else function(like, *args[1:], **kwargs)
        return new(function, found) if LOCAL.state.inside else found

    create.__module__, create.__qualname__ = torch.__name__, create.__name__  # by which pickle finds it
    return create


def new_tensor(function: Any, found: Any) -> Any:
    """Returns what a function has made in a sample, lazy if pending numbers may be written to it."""
    state = LOCAL.state
    if state.paused or state.trace is not None or found.__class__ is not torch.Tensor or found.requires_grad:
        return found
    if found.layout is not torch.strided:
        return found
    frame = sys._getframe(2)
    if is_library(frame.f_globals) or (function is TENSOR and (found.numel() != 1 or not found.is_floating_point())):
        return found
    return _as_made(found, frame.f_code)


new = new_tensor if FAST is None else FAST.new
for _name in "new new_empty new_zeros new_ones new_full new_tensor".split():
    setattr(LazyTensor, _name, _of_look(getattr(torch.Tensor, _name)))
TENSOR = torch.tensor
CREATING: dict[str, Callable[..., Any]] = {name: _creating(getattr(torch, name)) for name in _NAMES}
"""Replacements of functions of torch."""


def enter(made: Any, axes: int = 0) -> None:
    """Makes it an input of the open batch: from now on writes to it are captured.

    axes: how many integers choose an entry, if that is what is done next, so that its entries are rows.
    """
    if made._v.spec.dtype in WHOLE and not is_alone(made._c):
        return
    try:
        made._v = leaf(open_batch(), made._c, mode_of(axes) if axes > 1 else "")
    except NotAnOperand:
        return
    made._k[0] = _WRITTEN
    made._c = made._k = None


def is_alone(tensor: Any) -> bool:
    """True if no other tensor has a part of its memory, as views of integers have, which are read at once."""
    memory = tensor.untyped_storage()
    return _COUNTED and torch._C._storage_Use_Count(memory._cdata) <= 2


_COUNTED = hasattr(torch._C, "_storage_Use_Count")


def only_made(items: Iterable[Any]) -> bool:
    """True if the lazy tensors among nested arguments are made by the program, but for known integers."""
    found = False
    for item in items:
        if item.__class__ is LazyTensor:
            if is_made(item):
                found = True
            elif item._c is None or item._v.spec.dtype in FLOATS:
                return False
        elif isinstance(item, (tuple, list)) and item:
            if only_made(item):
                found = True
            elif any(part.__class__ is LazyTensor for part in item):
                return False
    return found
