"""Products: with a shared weight one large product on rows, else one small product per sample."""

from __future__ import annotations

import math

from .elementwise import aligned
from .rule import OperatorCall, Rule
from .symbols import apply
from .values import ROWS, STACK, NotBatchable, Shape, Val, convert, reshape, reshaped, spread, together


def fully_connected(call: OperatorCall) -> list[Val]:
    data, weight = call.inputs[:2]
    if weight.shared and not data.shared:
        return _one_weight(call)
    return _weight_of_each(call)


def _one_weight(call: OperatorCall) -> list[Val]:
    data, weight = call.inputs[:2]
    bias = call.inputs[2:]
    if call.attrs.flag("flatten", True):
        data = convert(data, ROWS)
    elif data.ndim == 1:  # the last axis is summed over, and is not the one of rows
        data = convert(data, STACK)
    if not bias or bias[0].shared:
        result = call.same([data.sym, weight.sym, *(value.sym for value in bias)])
        return call.deliver(result, data.layout, data.poly)
    product = call.same([data.sym, weight.sym], no_bias=True)
    return _plus_bias(call, Val(product, call.shape, call.dtype, data.layout, data.poly), bias[0])


def _weight_of_each(call: OperatorCall) -> list[Val]:
    """A weight for each sample: (N, rows, C) times (N, H, C) transposed."""
    data, weight = call.inputs[:2]
    reference = call.batched[0]
    if call.poly:
        raise NotBatchable("FullyConnected with a weight per sample on rows of varying length")
    columns = weight.shape[1]
    rows = math.prod(data.shape) // columns
    matrix = reshape(spread(data, reference).sym, (rows, columns))
    product = apply("batch_dot", [matrix, spread(weight, reference).sym], {"transpose_b": True})
    result = Val(product, (rows, weight.shape[0]), call.dtype, STACK)
    return _plus_bias(call, reshaped(result, call.shape), *call.inputs[2:])


def _plus_bias(call: OperatorCall, product: Val, *bias: Val) -> list[Val]:
    if not bias:
        return [product]
    operands = aligned([product, *bias], call.shape)
    return call.deliver(apply("broadcast_add", operands.symbols, {}), operands.layout, operands.poly)


def dot(call: OperatorCall) -> list[Val]:
    """Sums over the left one's last axis and the right one's first; the transposes swap which."""
    left, right = call.inputs
    if call.attrs.text("forward_stype", "None") not in ("None", "default"):
        raise NotBatchable("dot with a sparse result")
    transposes = call.attrs.flag("transpose_a"), call.attrs.flag("transpose_b")
    if max(left.ndim, right.ndim) > 2 and any(transposes):
        raise NotBatchable("dot with a transpose of more than two axes")
    left = _matrix_transposed(left) if transposes[0] else left
    right = _matrix_transposed(right) if transposes[1] else right
    return contract(call, left, right)


def contract(call: OperatorCall, left: Val, right: Val) -> list[Val]:
    """Sums over the left one's last axis and the right one's first, for each sample."""
    if right.shared:
        return _dot_shared_right(call, left, right)
    if call.poly:
        raise NotBatchable(f"{call.name} over rows of varying length")
    return _dot_each(call, left, right)


def _matrix_transposed(value: Val) -> Val:
    """A value of one or two axes, transposed for each sample."""
    if value.ndim < 2:
        return value
    swapped = (value.shape[1], value.shape[0])
    if value.shared:
        return value._replace(sym=apply("transpose", [value.sym], {}), shape=swapped)
    if value.poly:
        raise NotBatchable("dot with rows of varying length transposed")
    if 1 in swapped:
        return reshaped(value, swapped)
    stacked = convert(value, STACK)
    return Val(apply("SwapAxis", [stacked.sym], {"dim1": 1, "dim2": 2}), swapped, value.dtype, STACK)


def _dot_shared_right(call: OperatorCall, left: Val, right: Val) -> list[Val]:
    layout = left.layout if left.ndim > 1 else STACK
    product = apply("dot", [convert(left, layout).sym, right.sym], {})
    if layout == ROWS or len(call.shape) == left.ndim - 1 + right.ndim - 1:
        return call.deliver(product, layout, left.poly)
    return call.deliver_each(product, ())


def _dot_each(call: OperatorCall, left: Val, right: Val) -> list[Val]:
    """Both sides as matrices, one product for each sample."""
    reference = call.batched[0]
    inner = left.shape[-1]
    first = reshape(spread(left, reference).sym, (math.prod(left.shape) // inner, inner))
    second = reshape(spread(right, reference).sym, (inner, math.prod(right.shape) // inner))
    product = apply("batch_dot", [first, second], {})
    shape: Shape = (math.prod(left.shape) // inner, math.prod(right.shape) // inner)
    return [reshaped(Val(product, shape, call.dtype, STACK), call.shape)]


def batch_dot(call: OperatorCall) -> list[Val]:
    """One product for each entry of the first axis, so rows are exact."""
    if call.attrs.text("forward_stype", "None") not in ("None", "default"):
        raise NotBatchable("batch_dot with a sparse result")
    return _matrix_products(call, 1.0)


def gemm2(call: OperatorCall) -> list[Val]:
    """Products of the matrices in the last two axes, as batch_dot.

    Not as gemm2 itself, whose backward adds to what it has not cleared where gradients are added up.
    """
    if call.attrs.integer("axis", -2) != -2:
        raise NotBatchable(f"{call.name} with matrices on other axes than the last two")
    return _matrix_products(call, call.attrs.number("alpha", 1.0))


def _matrix_products(call: OperatorCall, scale: float) -> list[Val]:
    transposes = {key: call.attrs.flag(key) for key in ("transpose_a", "transpose_b")}
    operands = together(call.inputs, rows_exact=call.data.ndim > 2)
    matrices = [
        reshape(symbol, value.shape[-2:]) if value.ndim != 3 or operands.layout == STACK else symbol
        for symbol, value in zip(operands.symbols, call.inputs)
    ]
    product = apply("batch_dot", matrices, transposes)
    if scale != 1.0:
        product = apply("_mul_scalar", [product], {"scalar": scale})
    if len(call.shape) == 2:
        return call.deliver(product, STACK)
    if len(call.shape) > 3:
        product = reshape(product, call.shape[1:])
    return call.deliver(product, ROWS, operands.poly)


RULES: dict[str, Rule] = {
    "FullyConnected": Rule("row-wise", fully_connected, notes="batch_dot if the weight differs by sample"),
    "dot": Rule("rewritten", dot, notes="unchanged with a shared right side, else batch_dot"),
    "batch_dot": Rule("row-wise", batch_dot, notes="one product per entry of the first axis"),
    "_linalg_gemm2": Rule("rewritten", gemm2, notes="batch_dot"),
}
