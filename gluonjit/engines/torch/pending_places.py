"""An entry at a place that is computed: `table[scores.argmax()]`, for which PyTorch's indexing reads a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gluonjit.engines.torch.arrays import INDICES


def at_place(tensor: Any, key: Any, computed: Callable[[Any], bool]) -> Any:
    """Returns `tensor[key]` of a key with one number that is `computed`, by `index_select`; None for other keys."""
    parts = list(key) if key.__class__ is tuple else [key]
    found = [k for k, part in enumerate(parts) if isinstance(part, torch.Tensor)]
    if len(found) != 1 or not all(map(_is_plain, parts[: found[0]] + parts[found[0] + 1 :])):
        return None
    number = parts[found[0]]
    if not computed(number) or number.dim() or number.dtype not in INDICES:
        return None
    taken = len([part for part in parts if part is not None and part is not Ellipsis])
    if taken > tensor.dim():
        return None
    axis = 0
    for part in parts[: found[0]]:
        axis += tensor.dim() - taken if part is Ellipsis else 0 if isinstance(part, int) else 1
    parts[found[0]] = slice(None)
    rest = tensor if len(parts) == 1 else tensor[tuple(parts)]
    place = number + (number < 0) * rest.shape[axis]
    return rest.index_select(axis, place.reshape(1)).squeeze(axis)


def _is_plain(part: Any) -> bool:
    if part.__class__ is slice:
        return all([end is None or type(end) is int for end in (part.start, part.stop, part.step)])
    return part is None or part is Ellipsis or type(part) is int
