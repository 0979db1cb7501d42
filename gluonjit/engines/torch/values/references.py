"""Functions that need no computation: slices, stacks and concatenations along axis 0 are lists of rows.

Each takes the open batch and a call's arguments, and returns the call's result, or None if it does not consist of whole
rows; then the call is captured as a node.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import torch

from gluonjit.compiled import FAST
from gluonjit.engines.torch.tracing.cell import Cell
from gluonjit.engines.torch.values.lazy import wrap
from gluonjit.engines.torch.values.operands import NotAnOperand, value_of
from gluonjit.graph import Value
from gluonjit.graph.joining import copied, joined
from gluonjit.graph.references import reshaped, row, row_range
from gluonjit.hybrid.capture.structure import Args, Kwargs
from gluonjit.hybrid.run.batch import Batch

Reference = Callable[[Batch, Args, Kwargs], Any]
_SCALAR: tuple[int, ...] = ()


def value_to_slice(batch: Batch, item: Any) -> Value | None:
    """The value of a tensor whose slices are references: what is sliced while nothing records has no history."""
    if not isinstance(item, torch.Tensor):
        return None
    try:
        value = value_of(batch, item)
    except NotAnOperand:
        return None
    return value if torch.is_grad_enabled() or not value.taped else None


def _of_one(show: Callable[[Value, Any, dict[str, Any]], Any]) -> Reference:
    """A function of one tensor, whose value `show` takes in its place."""

    def found(batch: Batch, args: Args, kwargs: Kwargs) -> Any:
        value = value_to_slice(batch, args[0])
        result = None if value is None else show(value, args, kwargs)
        return wrap(result) if isinstance(result, Value) else result

    return found


def _given(args: Args, kwargs: Kwargs, position: int, name: str, default: Any = None) -> Any:
    return args[position] if len(args) > position else kwargs.get(name, default)


@_of_one
def _reshape(value: Value, args: Any, kwargs: Any) -> Any:
    shape = args[1:] if len(args) != 2 or isinstance(args[1], int) else args[1]
    if kwargs or not isinstance(shape, (tuple, list)):  # `view` takes a dtype too
        return None
    if not all(isinstance(size, int) for size in shape) or -1 in shape:
        return None
    return reshaped(value, tuple(shape))


@_of_one
def _unsqueeze(value: Value, args: Any, kwargs: Any) -> Any:
    dim = _given(args, kwargs, 1, "dim")
    if dim not in (0, -1 - len(value.spec.shape)):
        return None
    return reshaped(value, (1, *value.spec.shape))


@_of_one
def _squeeze(value: Value, args: Any, kwargs: Any) -> Any:
    shape, dim = value.spec.shape, _given(args, kwargs, 1, "dim")
    if not isinstance(dim, int) or not shape or dim not in (0, -len(shape)) or shape[0] != 1:
        return None
    return reshaped(value, shape[1:])


@_of_one
def _clone(value: Value, args: Any, kwargs: Any) -> Any:
    return None if kwargs or len(args) > 1 else copied(value)


@_of_one
def _select(value: Value, args: Any, kwargs: Any) -> Any:
    dim, index = _given(args, kwargs, 1, "dim"), _given(args, kwargs, 2, "index")
    if dim != 0 or not isinstance(index, int):
        return None
    return row(value, index, _SCALAR)


@_of_one
def _narrow(value: Value, args: Any, kwargs: Any) -> Any:
    dim, start, length = (_given(args, kwargs, k, name) for k, name in ((1, "dim"), (2, "start"), (3, "length")))
    if dim != 0 or not isinstance(start, int) or not isinstance(length, int) or start < 0:
        return None
    return row_range(value, start, start + length)


@_of_one
def _unbind(value: Value, args: Any, kwargs: Any) -> Any:
    if _given(args, kwargs, 1, "dim", 0) != 0 or value.spec.mode != "rows":
        return None
    return tuple([args[0][k] for k in range(value.spec.rows)])


@_of_one
def _split(value: Value, args: Any, kwargs: Any) -> Any:
    size = _given(args, kwargs, 1, "split_size_or_sections", kwargs.get("split_size"))
    if _given(args, kwargs, 2, "dim", 0) != 0 or value.spec.mode != "rows":
        return None
    rows = value.spec.rows
    if isinstance(size, int):
        sizes = [min(size, rows - begin) for begin in range(0, rows, size)] if size > 0 else []
    elif isinstance(size, (list, tuple)) and sum(size) == rows and all(size):
        sizes = list(size)
    else:
        return None
    return tuple([args[0][end - size : end] for end, size in zip(accumulate(sizes), sizes)])


def _joiner(mode: str) -> Reference:
    def join(batch: Batch, args: Args, kwargs: Kwargs) -> Any:
        listed = _given(args, kwargs, 0, "tensors")
        if not isinstance(listed, (list, tuple)) or not listed or _given(args, kwargs, 1, "dim", 0) != 0:
            return None
        if set(kwargs) - {"tensors", "dim"}:
            return None
        values: list[Value] = []
        for item in listed:
            value = value_to_slice(batch, item)
            if value is None or (mode == "stack" and value.spec.shape != values[0].spec.shape if values else False):
                return None
            values.append(value)
        found = joined(values, mode)
        return None if found is None else wrap(found)

    return join


def _plus_nothing(batch: Batch, args: Args, kwargs: Kwargs) -> Any:
    """`0 + x`, with which the built-in `sum` begins."""
    if kwargs or len(args) != 2 or args[1].__class__ is not int or args[1]:
        return None
    value = value_to_slice(batch, args[0])
    return None if value is None or value.spec.dtype == "bool" else wrap(copied(value))


_OF_ONE = {
    "reshape": _reshape,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "clone": _clone,
    "select": _select,
    "narrow": _narrow,
    "unbind": _unbind,
    "split": _split,
}
REFERENCES: dict[Any, Reference] = {
    **{getattr(place, name): found for name, found in _OF_ONE.items() for place in (torch, torch.Tensor)},
    torch.Tensor.view: _reshape,
    **dict.fromkeys((torch.cat, torch.concat, torch.concatenate), _joiner("rows")),
    torch.stack: _joiner("stack"),
    torch.Tensor.__radd__: _plus_nothing,
    torch.Tensor.__add__: _plus_nothing,
    torch.Tensor.add: _plus_nothing,
}
_SHOWING = {func for func, reference in REFERENCES.items() if reference in (_reshape, _unsqueeze, _squeeze)}


def keep_shown(func: Any, cell: Cell, args: Args, kwargs: Kwargs, found: Any) -> None:
    """Lets C find what equal calls give, of functions that give all rows of their tensor in another shape."""
    if FAST is not None and func in _SHOWING:
        spec = found._v.spec
        FAST.keep(cell, None, args, kwargs, (cell, args[0]._v.spec, args[1:], spec), spec)
