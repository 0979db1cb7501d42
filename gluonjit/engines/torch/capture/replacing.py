"""Writes to rows of a tensor whose numbers are known: no node, and no copy of what was written over."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gluonjit.engines.torch.framework.arrays import FLOATS, device_named, dtype_named, zeros_of
from gluonjit.engines.torch.values.known import known
from gluonjit.engines.torch.values.lazy import wrap
from gluonjit.engines.torch.values.operands import is_number
from gluonjit.engines.torch.values.opkinds import laid
from gluonjit.engines.torch.values.references import value_to_slice
from gluonjit.graph import Value, intern_spec
from gluonjit.graph.references import chosen, placed, reshaped
from gluonjit.graph.values import mode_of
from gluonjit.hybrid.capture.structure import Args, Kwargs
from gluonjit.hybrid.run.batch import Batch

_FILLING = {"fill_", "zero_"}
"""Methods after which nothing is left of what a tensor was."""


def replaced(batch: Batch, name: str, base: Any, args: Args) -> Value | None:
    """The value of a lazy tensor after a write by a method of this name; None where that takes a node."""
    value = base._v
    if name == "__setitem__":
        axes, numbers = _numbers(args[1], value.spec.shape)
        return with_rows(batch, value, axes, numbers, args[2])
    if name in _FILLING and not value.taped and value.spec.dtype in FLOATS and all(map(is_number, args[1:])):
        return value_to_slice(batch, getattr(zeros_of(value.spec), name)(*args[1:]))
    if name == "index_copy_":
        return _by_index(batch, value, args)
    mask = known(args[1]) if name == "masked_scatter_" and len(args) == 3 else None
    if mask is None or mask.dtype is not torch.bool or tuple(mask.shape) != value.spec.shape:
        return None
    if not mask.dim() == args[2].dim() == 1:
        return None
    places = [place for place, chosen in enumerate(mask.tolist()) if chosen]
    return with_rows(batch, value, 1, places, args[2][: len(places)]) if places else value


def copied_into(batch: Batch, args: Args, kwargs: Kwargs) -> Any:
    """`tensor.index_copy(0, index, source)` by known numbers."""
    base = value_to_slice(batch, args[0])
    value = None if kwargs or base is None else _by_index(batch, base, args)
    return None if value is None else wrap(value)


def _by_index(batch: Batch, base: Value, args: Args) -> Value | None:
    index = known(args[2]) if len(args) == 4 and args[1] == 0 and isinstance(args[3], torch.Tensor) else None
    if index is None or index.dim() != 1 or index.dtype is not torch.int64:
        return None  # PyTorch may refuse it, as it does other numbers of axes
    return with_rows(batch, base, 1, index.tolist(), args[3]) if 0 < args[3].dim() == len(base.spec.shape) else None


def with_rows(batch: Batch, base: Value, axes: int, numbers: list[int], source: Any) -> Value | None:
    """The rows of a tensor, others in place of some whose numbers are known: no node at all.

    axes: how many are counted as rows. Not of what one node has computed with gradients: its backward pass runs, and
    may be refused, in any case.
    """
    spec = base.spec
    if not numbers or (base.taped and not isinstance(base.rows, tuple)):
        return None
    mode = mode_of(axes)
    before = base if spec.mode == mode else laid(batch, base, intern_spec(spec.shape, spec.dtype, spec.device, mode))
    if before is None:
        return None
    if source.__class__ in (int, float) and spec.dtype in FLOATS:
        look = dtype_named(spec.dtype), device_named(spec.device)
        source = torch.full((len(numbers), *before.spec.row_shape), source, dtype=look[0], device=look[1])
    value = value_to_slice(batch, source)
    if value is None:
        return None
    if base.taped and not value.taped and len(numbers) == before.spec.rows:
        return None  # it learns all the same
    if value.spec.shape == before.spec.row_shape:
        value = reshaped(value, (1, *value.spec.shape))
    return None if value is None else placed(before, numbers, value)


def rows_of_key(base: Value, key: Any) -> list[int]:
    """The numbers of the rows of a tensor that a view by this key is; none where it is something else."""
    if key.__class__ not in (int, slice) or base.spec.mode != "rows":
        return []
    return [] if base.taped and not isinstance(base.rows, tuple) else chosen(key, base.spec.rows)


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
