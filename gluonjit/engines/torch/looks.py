"""Writes that change how a tensor looks, not its numbers: it is a view from then on of what it was before.

Views that were taken before are of that, too: `transpose_` changes none of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from gluonjit.engines.torch.aliases import is_alias, path_of
from gluonjit.engines.torch.lazy import UNSEEN, wrap
from gluonjit.engines.torch.operands import is_input, is_made
from gluonjit.engines.torch.view_steps import PathStep, step_of
from gluonjit.hybrid.run.engine import engine_of
from gluonjit.hybrid.run.state import LOCAL

_NAMES = "squeeze_ unsqueeze_ t_ transpose_ swapaxes_ swapdims_"
VIEWED: dict[Any, Any] = {getattr(torch.Tensor, name): getattr(torch.Tensor, name[:-1]) for name in _NAMES.split()}
"""Methods that change how a tensor looks, and those that give a view of it which looks so."""
MOVING = {"resize_", "resize_as_", "set_", "as_strided_"}
"""Names of methods after which a tensor may have other memory, or less: earlier views then learn from what is left."""


class Moved(NamedTuple):
    """The `_k` of a tensor that is no view: its state `before` it moved, and its `count` of writes then."""

    count: Any
    before: Any


def viewed(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Lets a tensor be a view of what it was; None where PyTorch does that: to inputs, and what a program has made."""
    target = args[0]
    base, path = base_of(target)
    step = step_of(VIEWED[func], args, kwargs, None)
    if step is None or is_made(base) or is_input(base):
        return None
    if not is_alias(base._v.spec, (*path, step)):  # raises where PyTorch does
        return None
    if target is base:
        _hide(base)
        target._b, target._k = target._k.before, step
    else:
        target._k = (target._k, step)
    target._n = UNSEEN
    engine_of("torch").renew(target)  # type: ignore[attr-defined]
    return target


def moves(lazy: Any) -> None:
    """Leaves a tensor's value to the views that were taken of it: it gets other memory next."""
    if lazy._b is None and not is_made(lazy):
        _hide(lazy)
    batch = LOCAL.state.batch
    if batch is not None and lazy._c is not None:  # of which PyTorch counts no write
        for place in [place for place in batch.imports if place == id(lazy._c) or place.__class__ is tuple]:
            del batch.imports[place]


def _hide(lazy: Any) -> None:
    """Lets another tensor have the value that this one has, and what was before."""
    hidden = wrap(lazy._v)
    hidden._c, hidden._k = lazy._c, lazy._k
    if lazy._c is not None:
        with torch.inference_mode(lazy._c.is_inference()), torch.enable_grad():
            hidden._c = lazy._c.view(lazy._c.shape)
    hidden._n = (lazy._n or 0) + 1
    lazy._k = Moved(lazy._n, hidden)


def base_of(lazy: Any) -> tuple[Any, tuple[PathStep, ...]]:
    """Finds the base of a lazy tensor that is a view, and the path to it; otherwise the tensor itself."""
    base = _base_now(lazy)
    if base is None:
        return lazy, ()
    path = path_of(lazy._k)
    if is_alias(base._v.spec, path):
        return base, path
    lazy._b = lazy._k = lazy._n = None  # a copy
    return lazy, ()


def _base_now(lazy: Any) -> Any:
    """Finds what a view is a view of, also if that has changed its look since."""
    base = lazy._b
    while base is not None:
        if base._b is not None:  # a view by now, of what it was
            lazy._b = base = base._b
        elif base._k.__class__ is Moved and (lazy._n is UNSEEN or (lazy._n or 0) <= (base._k.count or 0)):
            lazy._b = base = base._k.before
        else:
            break
    return base
