"""Tensors made with the dtype and device of a lazy one, without its numbers."""

from __future__ import annotations

from typing import Any

import torch

from gluonjit.engines.torch.arrays import FLOATS
from gluonjit.engines.torch.cells import open_batch
from gluonjit.engines.torch.lazy import wrap
from gluonjit.engines.torch.operands import NotAnOperand, leaf

_BARE = {torch.Tensor.new, torch.Tensor.new_empty}
_FILLED = {torch.Tensor.new_zeros, torch.Tensor.new_ones, torch.Tensor.new_full}
MAKING: set[Any] = _BARE | _FILLED
"""Functions that take of a tensor nothing but its dtype and device, where no other is given."""


_likes: dict[Any, Any] = {}


def made(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs such a function; None if another of its arguments is more than a number.

    What is written over next, as what `new` gives, is the program's own; what has its numbers may be captured.
    """
    spec = args[0]._v.spec
    if spec.dtype not in FLOATS or not all(map(_is_plain, (*args[1:], *kwargs.values()))):
        return None
    like = _likes.get((spec.dtype, spec.device))
    if like is None:
        like = torch.empty(0, dtype=args[0].dtype, device=args[0].device)
        _likes[spec.dtype, spec.device] = like
    found = func(like, *args[1:], **kwargs)
    if func in _BARE or found.requires_grad:
        return found
    try:
        return wrap(leaf(open_batch(), found))
    except NotAnOperand:
        return found


_PLAIN = (type(None), int, float, torch.dtype, torch.device, torch.layout, torch.memory_format)


def _is_plain(item: Any) -> bool:
    if isinstance(item, (tuple, list)):
        return all(map(_is_plain, item))
    return isinstance(item, _PLAIN)
