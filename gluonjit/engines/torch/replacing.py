"""Writes to rows of a tensor whose numbers are known: no node, and no copy of what was written over."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gluonjit.engines.torch.arrays import FLOATS
from gluonjit.engines.torch.known import known
from gluonjit.engines.torch.operands import NotAnOperand, value_of
from gluonjit.engines.torch.opkinds import laid
from gluonjit.graph import Value, intern_spec
from gluonjit.graph.references import chosen, placed, reshaped
from gluonjit.graph.values import mode_of
from gluonjit.hybrid.run.batch import Batch


def replaced(batch: Batch, name: str, base: Any, args: tuple[Any, ...]) -> Value | None:
    """The value of a lazy tensor after a write by a method of this name; None where that takes a node."""
    if name == "__setitem__":
        return _with_rows(batch, base, *args[1:])
    mask = known(args[1]) if name == "masked_scatter_" and len(args) == 3 else None
    if mask is None or mask.dtype is not torch.bool or mask.shape != base.shape:
        return None
    if not mask.dim() == args[2].dim() == 1:
        return None
    places = mask.nonzero().flatten()
    return _with_rows(batch, base, places, args[2][: len(places)]) if len(places) else base._v


def _with_rows(batch: Batch, base: Any, key: Any, source: Any) -> Value | None:
    """The rows of a tensor, others in place of some whose numbers are known: no node at all.

    Not of what one node has computed with gradients: its backward pass runs, and may be refused, in any case.
    """
    spec = base._v.spec
    if base._v.taped and not isinstance(base._v.rows, tuple):
        return None
    axes, numbers = _numbers(key, spec.shape)
    if not numbers:
        return None
    before = laid(batch, base._v, intern_spec(spec.shape, spec.dtype, spec.device, mode_of(axes)))
    if before is None:
        return None
    if source.__class__ in (int, float) and spec.dtype in FLOATS:
        source = torch.full((len(numbers), *before.spec.row_shape), source, dtype=base.dtype, device=base.device)
    try:
        value: Value | None = value_of(batch, source) if isinstance(source, torch.Tensor) else None
    except NotAnOperand:
        return None
    if value is None or (value.taped and not torch.is_grad_enabled()):
        return None
    if base._v.taped and not value.taped and len(numbers) == before.spec.rows:
        return None  # it learns all the same
    if value.spec.shape == before.spec.row_shape:
        value = reshaped(value, (1, *value.spec.shape))
    return None if value is None else placed(before, numbers, value)


def _numbers(key: Any, shape: tuple[int, ...]) -> tuple[int, list[int]]:
    """Returns the numbers of rows that a key with known integers chooses, none in other cases.

    And how many axes are counted as rows: one, or as many as there are integers.
    """
    if key.__class__ is tuple and len(key) > 1:
        front = shape[: len(key)]
        if len(front) < len(key) or not all(type(at) is int and -size <= at < size for at, size in zip(key, front)):
            return 1, []
        return len(key), [int(np.ravel_multi_index(key, front, "wrap"))]
    if not shape:
        return 1, []
    (part,) = key if key.__class__ is tuple else (key,)
    if part.__class__ is torch.Tensor and part.dim() == 1:
        return 1, [number + shape[0] if number < 0 else number for number in part.tolist()]
    return 1, chosen(key, shape[0])
