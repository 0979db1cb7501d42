"""Operators along axes: reductions, softmax, sorting. Rows serve unless axis 0 takes part."""

from __future__ import annotations

import math
from typing import Any

from .rule import Emit, OperatorCall, Rule, rules_of
from .symbols import apply
from .values import ROWS, STACK, NotBatchable, Shape, Val, convert, normal_axis, reshape, reshaped, together


def reduced_axes(call: OperatorCall, key: str, ndim: int) -> tuple[int, ...]:
    """The axes a reduction goes over, counted from the front; no axis given means all."""
    given = call.attrs.axes(key)
    if given == () and call.name.startswith("_np"):
        raise NotBatchable(f"{call.name} over no axis")
    axes = {normal_axis(axis, ndim) for axis in given} if given else set(range(ndim))
    if given and call.attrs.flag("exclude"):
        axes = set(range(ndim)) - axes
        if not axes:
            raise NotBatchable(f"{call.name}: every axis is excluded")
    return tuple(sorted(axes))


def remaining(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
    """A shape after reduction over `axes`."""
    if keepdims:
        return tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def reduction(key: str = "axis", one_is_itself: bool = True) -> Emit:
    """Reduces over axes. With `one_is_itself` an axis of length 1 among several need not be reduced, so the
    usual (1, C) stays in rows even when axis 0 is."""

    def emit(call: OperatorCall) -> list[Val]:
        data, keepdims = call.data, call.attrs.flag("keepdims")
        if not data.ndim:
            return call.deliver(call.same([reshape(data.sym, (1,))], **{key: 1, "keepdims": False}), STACK)
        axes = reduced_axes(call, key, data.ndim)
        changes: dict[str, Any] = {key: axes, **({"exclude": False} if "exclude" in call.attrs else {})}
        if data.rows and 0 not in axes:
            return call.deliver(call.same([data.sym], **changes), ROWS, data.poly)
        if data.poly:
            raise NotBatchable(f"{call.name} over axis 0 of rows of varying length")
        one_row = data.rows and data.shape[0] == 1
        alone = axes == (0,) and call.name in _OF_ONE_ITSELF and call.dtype == data.dtype
        if one_row and (alone or (one_is_itself and len(axes) > 1)):
            result = data.sym if alone else call.same([data.sym], **{**changes, key: axes[1:]})
            if keepdims:
                return call.deliver(result, ROWS)
        else:
            stacked = convert(data, STACK)
            result = call.same([stacked.sym], **{**changes, key: tuple(axis + 1 for axis in axes)})
        return call.deliver_each(result, remaining(data.shape, axes, keepdims))

    return emit


_OF_ONE_ITSELF = frozenset("sum mean max min prod _np_sum _npi_mean _np_max _np_min _np_prod".split())


def over_all(call: OperatorCall, key: str, default: int | None = None) -> list[Val] | None:
    """Sees one sample as a flat vector where no axis is given, as the operator does; None if an axis is given."""
    if call.attrs.optional_integer(key, default) is not None:
        return None
    data = call.data
    if data.poly:
        raise NotBatchable(f"{call.name} over all elements of rows of varying length")
    count = math.prod(data.shape)
    flat = reshaped(data, (count,), STACK)
    changes = {key: 1, **({"keepdims": False} if "keepdims" in call.attrs else {})}
    result = call.same([flat.sym], **changes)
    symbols = [result] if len(call.outputs) == 1 else [result[i] for i in range(len(call.outputs))]
    return [_unflattened(symbol, shape, dtype) for symbol, (shape, dtype) in zip(symbols, call.outputs)]


def _unflattened(symbol: object, shape: Shape, dtype: str) -> Val:
    """The result for flat samples, (N,) or (N, n), as the shape that one sample expects."""
    if math.prod(shape) == 1:
        layout = ROWS if shape else STACK
        return Val(symbol if len(shape) <= 1 else reshape(symbol, shape[1:]), shape, dtype, layout)
    return Val(symbol if len(shape) == 1 else reshape(symbol, shape), shape, dtype, STACK)


def along_axis(key: str = "axis", default: int | None = -1, keeps: bool = True) -> Emit:
    """Works along one axis; further inputs (a length, an index) go along with the data.

    `keeps` says that the axis stays in the result, or that `keepdims` decides.
    """

    def emit(call: OperatorCall) -> list[Val]:
        flat = over_all(call, key, default) if len(call.inputs) == 1 else None
        if flat is not None:
            return flat
        data = call.data
        given = call.attrs.optional_integer(key, default)
        if given is None:
            raise NotBatchable(f"{call.name} without an axis on several inputs")
        axis = normal_axis(given, data.ndim)
        operands = together(call.inputs, rows_exact=axis > 0)
        if operands.layout == ROWS:
            return call.deliver_of(operands, **{key: axis})
        result = call.same(operands.symbols, **{key: axis + 1})
        if keeps or call.attrs.flag("keepdims"):
            return call.deliver(result, STACK)
        return call.deliver_each(result, remaining(data.shape, (axis,), False))

    return emit


def norm(call: OperatorCall) -> list[Val]:
    """Over all elements a vector norm, whatever the axes: so the sample is flattened first."""
    if call.attrs.axes("axis"):
        return reduction(one_is_itself=False)(call)
    data = call.data
    if data.poly:
        raise NotBatchable("norm over all elements of rows of varying length")
    flat = reshaped(data, (math.prod(data.shape),), STACK)
    result = call.same([flat.sym], axis=1, keepdims=False)
    return [_unflattened(result, call.shape, call.dtype)]


def argmax_channel(call: OperatorCall) -> list[Val]:
    rows = convert(call.data, ROWS)
    if rows.ndim != 2:
        raise NotBatchable("argmax_channel: data without exactly two axes")
    # argmax_channel itself makes every graph that holds it raise: it is not registered as without gradient.
    return call.deliver(apply("argmax", [rows.sym], {"axis": 1}), ROWS, rows.poly)


OFF_AXIS_0 = "rows unless axis 0 takes part"

RULES: dict[str, Rule] = {
    **rules_of("sum mean max min prod", reduction(), "axis", OFF_AXIS_0),
    **rules_of("nansum nanprod", reduction(one_is_itself=False), "axis", OFF_AXIS_0),
    "norm": Rule("axis", norm, notes=OFF_AXIS_0),
    "moments": Rule("axis", reduction("axes", one_is_itself=False), notes=OFF_AXIS_0),
    **rules_of("argmax argmin", along_axis(default=None, keeps=False), "axis", OFF_AXIS_0),
    "argmax_channel": Rule("row-wise", argmax_channel, notes="argmax over axis 1"),
    **rules_of("softmax log_softmax softmin sort argsort topk", along_axis(), "axis", OFF_AXIS_0),
    "pick": Rule("axis", along_axis(keeps=False), notes=OFF_AXIS_0),
}
