"""Operators that change a sample's shape or the order of its elements.

Reshape in MXNet 1.9.1 trusts its attribute and reads past the end of an array, so every target here
comes from the known per-sample shape, with -1 for the samples only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import mxnet as mx

from .rule import Emit, OperatorCall, Rule
from .symbols import apply
from .values import ROWS, STACK, NotBatchable, Shape, Val, convert, normal_axis, reshape, reshaped

KeepsRows = Callable[[OperatorCall], bool]


def same_elements(keeps_rows: KeepsRows) -> Emit:
    """The same elements in the same order: one Reshape, whatever the operator is called.

    For rows of varying length `keeps_rows` must show that axis 0 is untouched.
    """

    def emit(call: OperatorCall) -> list[Val]:
        data, shape = call.data, call.shape
        if any(value.poly for value in call.inputs[1:]):
            raise NotBatchable(f"{call.name}: like rows of varying length")
        if math.prod(shape) != math.prod(data.shape):
            raise ValueError(f"{call.name} of {data.shape} to {shape} changes the number of elements")
        if data.shared:
            return [_shared(call, "Reshape", data)]
        if data.poly:
            same_rows = shape[:1] == data.shape[:1] and math.prod(shape[1:]) == math.prod(data.shape[1:])
            if not (same_rows and keeps_rows(call)):
                raise NotBatchable(f"{call.name} of rows of varying length does not keep axis 0")
            return call.deliver(reshape(data.sym, shape[1:]), ROWS, True)
        layout = data.layout if data.shape[:1] == shape[:1] and shape else None
        return [reshaped(data, shape, layout)._replace(dtype=call.dtype)]

    return emit


def _shared(call: OperatorCall, operator: str, data: Val) -> Val:
    """A value that stays the same for all samples: only the shape of another was looked at."""
    if call.poly:
        raise NotBatchable(f"{call.name}: the shape of rows of varying length is not known")
    return data._replace(sym=apply(operator, [data.sym], {"shape": call.shape}), shape=call.shape)


def reshape_keeps_rows(call: OperatorCall) -> bool:
    """Tells whether a Reshape's codes leave axis 0 alone, for any number of rows.

    A leading 0 copies it. A leading -1 stands for it if the other codes do not depend on it, and they
    cannot: each is a literal or speaks of later axes.
    """
    codes = call.attrs.axes("shape")
    if not codes or call.attrs.flag("reverse"):
        return False
    return codes[0] == 0 or (codes[0] == -1 and -1 not in codes[1:])


def expand_dims_keeps_rows(call: OperatorCall) -> bool:
    return call.axis("axis", 0, 1) > 0


def squeeze_keeps_rows(call: OperatorCall) -> bool:
    axes = call.attrs.axes("axis")
    return axes is not None and all(normal_axis(axis, call.data.ndim) > 0 for axis in axes)


def always(call: OperatorCall) -> bool:
    return True


def never(call: OperatorCall) -> bool:
    return False


def transposed(data: Val, order: Sequence[int], dtype: str) -> list[Val]:
    """Axes in another order. Where only axes of length 1 move, the elements stay where they are."""
    shape = tuple(data.shape[axis] for axis in order)
    if data.rows and order[0] == 0:
        return [Val(apply("transpose", [data.sym], {"axes": tuple(order)}), shape, dtype, ROWS, data.poly)]
    if data.poly:
        raise NotBatchable("transpose moves axis 0 of rows of varying length")
    long_axes = [axis for axis in order if data.shape[axis] != 1]
    if long_axes == sorted(long_axes):
        return [reshaped(data, shape)._replace(dtype=dtype)]
    stacked = convert(data, STACK)
    axes = (0, *(axis + 1 for axis in order))
    return [Val(apply("transpose", [stacked.sym], {"axes": axes}), shape, dtype, STACK)]


def transpose(call: OperatorCall) -> list[Val]:
    ndim = call.data.ndim
    order = [normal_axis(axis, ndim) for axis in call.attrs.axes("axes") or range(ndim)[::-1]]
    return transposed(call.data, order, call.dtype)


def swap_axes(call: OperatorCall) -> list[Val]:
    order = list(range(call.data.ndim))
    first = call.axis("dim1", 0)
    second = call.axis("dim2", 0)
    order[first], order[second] = order[second], order[first]
    return transposed(call.data, order, call.dtype)


def over_axes(key: str, default: Sequence[int] | None = None) -> Emit:
    """An operator that works along given axes and leaves the others alone: rows unless axis 0 is among them."""

    def emit(call: OperatorCall) -> list[Val]:
        given = call.attrs.axes(key) or default
        if given is None:
            raise NotBatchable(f"{call.name} over all axes")
        axes = [normal_axis(axis, call.data.ndim) for axis in given]
        return call.deliver_along(0 not in axes, lambda sym, by: call.same([sym], **{key: _spelled(axes, by)}))

    return emit


def _spelled(axes: Sequence[int], by: int) -> int | tuple[int, ...]:
    return axes[0] + by if len(axes) == 1 else tuple([axis + by for axis in axes])


def tile(call: OperatorCall) -> list[Val]:
    reps = call.attrs.axes("reps") or ()
    data = call.data
    ndim = max(len(reps), data.ndim)
    reps = (1,) * (ndim - len(reps)) + reps
    if data.rows and ndim == data.ndim and reps[0] == 1:
        return call.deliver(_tiled(data.sym, reps), ROWS, data.poly)
    if data.poly:
        raise NotBatchable("tile along axis 0 of rows of varying length")
    whole = reshaped(data, (1,) * (ndim - data.ndim) + data.shape, STACK)
    return call.deliver(_tiled(whole.sym, (1, *reps)), STACK)


def _tiled(symbol: mx.sym.Symbol, reps: Sequence[int]) -> mx.sym.Symbol:
    """One axis after the other: the gradient of several at once takes twice as many axes, which may be too many."""
    for axis, times in enumerate(reps):
        if times != 1:
            along = tuple(times if other == axis else 1 for other in range(len(reps)))
            symbol = apply("tile", [symbol], {"reps": along})
    return symbol


def repeat(call: OperatorCall) -> list[Val]:
    data = call.data
    given: int | None = call.attrs.optional_integer("axis", None)
    if given is None:
        flat = reshaped(data, (math.prod(data.shape),), STACK)
        return call.deliver(call.same([flat.sym], axis=1), STACK)
    axis = normal_axis(given, data.ndim)
    return call.deliver_along(axis > 0 or not data.poly, lambda sym, by: call.same([sym], axis=axis + by))


def broadcast_to(call: OperatorCall) -> list[Val]:
    """Repeats axes of length 1 up to the known shape; 0 leaves the samples' axis as it is."""
    return broadcast_to_shape(call, call.shape, keeps_rows=(call.attrs.axes("shape") or (1,))[0] == 0)


def broadcast_axis(call: OperatorCall) -> list[Val]:
    axes = call.axes("axis")
    return broadcast_to_shape(call, call.shape, keeps_rows=0 not in axes)


def broadcast_like(call: OperatorCall) -> list[Val]:
    if call.poly:
        raise NotBatchable(f"{call.name}: like rows of varying length")
    return broadcast_to_shape(call, call.shape, keeps_rows=False)


def broadcast_to_shape(call: OperatorCall, shape: Shape, keeps_rows: bool) -> list[Val]:
    data = call.data
    if data.shared:
        if call.poly:
            raise NotBatchable(f"{call.name}: a shared value made as long as rows of varying length")
        padded = data.sym
        if data.ndim < len(shape):
            padded = apply("Reshape", [padded], {"shape": (1,) * (len(shape) - data.ndim) + data.shape})
        return [_shared(call, "broadcast_to", data._replace(sym=padded))]
    if data.poly and not (keeps_rows and len(shape) == data.ndim):
        raise NotBatchable(f"{call.name} on axis 0 of rows of varying length")
    if data.rows and len(shape) == data.ndim and shape[0] == data.shape[0]:
        result = apply("broadcast_to", [data.sym], {"shape": (0, *shape[1:])})
        return call.deliver(result, ROWS, data.poly)
    whole = reshaped(data, (1,) * (len(shape) - data.ndim) + data.shape, STACK)
    return call.deliver(apply("broadcast_to", [whole.sym], {"shape": (0, *shape)}), STACK)


RULES: dict[str, Rule] = {
    "Reshape": Rule("shape", same_elements(reshape_keeps_rows)),
    "reshape_like": Rule("shape", same_elements(never)),
    "Flatten": Rule("shape", same_elements(always)),
    "expand_dims": Rule("shape", same_elements(expand_dims_keeps_rows)),
    "squeeze": Rule("shape", same_elements(squeeze_keeps_rows)),
    "transpose": Rule("shape", transpose, notes="rows if axis 0 stays in front"),
    "SwapAxis": Rule("shape", swap_axes, notes="rows if axis 0 stays in front"),
    "reverse": Rule("axis", over_axes("axis", ()), notes="rows unless axis 0 takes part"),
    "tile": Rule("axis", tile, notes="rows unless axis 0 takes part"),
    "repeat": Rule("axis", repeat, notes="rows, which repeat correctly along axis 0 too"),
    "broadcast_to": Rule("rewritten", broadcast_to, notes="the target without the sample axis"),
    "broadcast_axis": Rule("rewritten", broadcast_axis, notes="as broadcast_to"),
    "broadcast_like": Rule("rewritten", broadcast_like, notes="as broadcast_to, with the known shape"),
}
