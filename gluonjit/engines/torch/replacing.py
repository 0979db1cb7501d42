"""Writes to all of a tensor, or to rows of it, that need no node with a copy of what was written over."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from gluonjit.engines.torch.lazy import LazyTensor
from gluonjit.engines.torch.operands import NotAnOperand, current, value_of
from gluonjit.engines.torch.segments import INTO_ROWS, as_rows
from gluonjit.graph import Value
from gluonjit.graph.references import chosen, placed, reshaped
from gluonjit.hybrid.run.batch import Batch

_SIGNS: dict[Any, Callable[[Any, Any], Any]] = {
    torch.Tensor.add_: operator.add,
    torch.Tensor.sub_: operator.sub,
    torch.Tensor.mul_: operator.mul,
    torch.Tensor.div_: operator.truediv,
}
"""By the method that `x += y` calls: what gives the new value."""


def replaced(
    batch: Batch, func: Any, name: str, base: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Value | None:
    """The value of a lazy tensor after a write; None if that needs a node of its own."""
    if current(base).graph is not batch.graph:
        return None
    if name == "__setitem__":
        return _with_rows(batch, base, *args[1:])
    if name[:-1] in INTO_ROWS:
        found = INTO_ROWS[name[:-1]](batch, args, kwargs)
        return current(found) if found is not None and found.dtype is base.dtype else None
    sign = _SIGNS.get(func)
    if sign is None or len(args) != 2 or kwargs:
        return None
    found = sign(base, args[1])
    if found.__class__ is not LazyTensor or found._v.spec is not base._v.spec or found._v.graph is not batch.graph:
        return None
    value: Value = found._v
    return value


def _with_rows(batch: Batch, base: Any, key: Any, source: Any) -> Value | None:
    """The rows of a tensor, others in place of some whose numbers are known: no node at all."""
    before = base._v
    if not isinstance(source, torch.Tensor):
        return None
    if len(before.spec.shape) == 1 and before.spec.mode == "stack":
        before = as_rows(batch, before, before.base)
    if before.spec.mode != "rows":
        return None
    numbers = _numbers(key, before.spec.rows)
    try:
        value: Value | None = value_of(batch, source) if numbers else None
    except NotAnOperand:
        return None
    if value is None or (value.taped and not torch.is_grad_enabled()):
        return None
    if value.spec.shape == before.spec.row_shape:
        value = reshaped(value, (1, *value.spec.shape))
    return None if value is None else placed(before, numbers, value)


def _numbers(key: Any, rows: int) -> list[int]:
    """Returns the numbers of rows that a key with known integers chooses, by axis 0 alone; none in other cases."""
    if key.__class__ is torch.Tensor and key.dim() == 1:
        return [number + rows if number < 0 else number for number in key.tolist()]
    return chosen(key, rows)
