"""Elementwise operators: exact in any layout, for any number of rows."""

from __future__ import annotations

from collections.abc import Sequence

import mxnet as mx

from .rule import Emit, OperatorCall, Rule, rules_of
from .symbols import apply
from .values import ROWS, STACK, NotBatchable, Shape, Together, Val, convert, reshape, spread, together


def unary(call: OperatorCall) -> list[Val]:
    """The operator as it stands: one data input in any layout."""
    return call.deliver(call.same([call.data.sym]), call.data.layout, call.data.poly)


def aligned(values: Sequence[Val], shape: Shape) -> Together:
    """Brings the operands of a broadcasting operator to one layout; `shape` is one sample's result.

    MXNet aligns shapes on the right. Rows do for values whose leading axis is the result's, and for
    shared ones that have no such axis or one of length 1. Otherwise everything is stacked, and axes of
    length 1 are put between the samples and what each holds.
    """
    batched = [value for value in values if not value.shared]
    poly = any(value.poly for value in batched)
    as_rows = all(_rows_align(value, shape) for value in values)
    if poly and not (as_rows and all(value.poly for value in batched)):
        raise NotBatchable("rows of varying length broadcast against values with another number of rows")
    if as_rows and any(value.rows for value in batched):
        symbols = [value.sym if value.shared else convert(value, ROWS).sym for value in values]
        return Together(symbols, ROWS, poly)
    return Together([_padded(value, len(shape)) for value in values], STACK, False)


def _rows_align(value: Val, shape: Shape) -> bool:
    if not shape or value.ndim > len(shape):
        return False
    if value.shared:
        return value.ndim < len(shape) or value.shape[0] == 1
    return value.ndim == len(shape) and value.shape[0] == shape[0]


def _padded(value: Val, ndim: int) -> mx.sym.Symbol:
    if value.shared:
        return value.sym
    stacked = convert(value, STACK)
    missing = ndim - value.ndim
    return reshape(stacked.sym, (1,) * missing + value.shape) if missing else stacked.sym


def broadcast(call: OperatorCall) -> list[Val]:
    """Emits an operator that itself broadcasts its operands."""
    return call.deliver_of(aligned(call.inputs, call.shape))


def equal_shapes(sibling: str | None = None) -> Emit:
    """An operator on operands of one shape; with a shared operand its broadcasting sibling takes over."""

    def emit(call: OperatorCall) -> list[Val]:
        if not any(value.shared for value in call.inputs) or sibling is None:
            return call.deliver_of(together(call.inputs, rows_exact=True))
        if call.poly:
            raise NotBatchable(f"{call.name}: a shared operand has a fixed number of rows, the others vary")
        operands = aligned(call.inputs, call.shape)
        return call.deliver(apply(sibling, operands.symbols, {}), operands.layout)

    return emit


def add_n(call: OperatorCall) -> list[Val]:
    """Sums the batched operands, sums the shared ones, and adds the two once."""
    batched, constant = call.batched, [value for value in call.inputs if value.shared]
    if constant and any(value.poly for value in batched):
        raise NotBatchable("add_n: a shared operand has a fixed number of rows, the others vary")
    operands = together(batched, rows_exact=True)
    total = apply("add_n", operands.symbols, {"num_args": len(batched)})
    if not constant:
        return call.deliver(total, operands.layout, operands.poly)
    shared = apply("add_n", [value.sym for value in constant], {"num_args": len(constant)})
    partial = Val(total, call.shape, call.dtype, operands.layout)
    both = aligned([partial, constant[0]._replace(sym=shared)], call.shape)
    return call.deliver(apply("broadcast_add", both.symbols, {}), both.layout)


def where(call: OperatorCall) -> list[Val]:
    """Picks between two; the condition has the data's shape, or one entry for each of its rows."""
    condition, left, _right = call.inputs
    if condition.ndim == left.ndim:
        return call.deliver_of(together(call.inputs, rows_exact=True))
    if call.poly and any(value.shared for value in call.inputs):
        raise NotBatchable("where: a shared operand has a fixed number of rows, the others vary")
    if call.poly and not all(value.poly for value in call.inputs):
        raise NotBatchable("where: rows of varying length together with others")
    reference = call.batched[0]
    rows = [convert(spread(value, reference) if value.shared else value, ROWS) for value in call.inputs]
    return call.deliver(call.same([value.sym for value in rows]), ROWS, condition.poly)


def leaky_relu(call: OperatorCall) -> list[Val]:
    kind = call.attrs.text("act_type", "leaky")
    if kind == "rrelu":
        raise NotBatchable("LeakyReLU: rrelu draws random slopes")
    if kind != "prelu":
        return unary(call)
    return prelu(call)


def prelu(call: OperatorCall) -> list[Val]:
    """x where x > 0, else the channel's slope times x.

    Spelled out, because inside a graph MXNet's own backward of prelu writes the gradient of the data over
    the data before it has read them for the gradient of the slope.
    """
    data, slope = call.inputs
    if not slope.shared or data.ndim < 2 or data.shared or slope.ndim != 1:
        raise NotBatchable("LeakyReLU: prelu needs data of two axes or more and one slope for all samples")
    rows = convert(data, ROWS)
    channels = apply("Reshape", [slope.sym], {"shape": (1, -1, *(1,) * (data.ndim - 2))})
    scaled = apply("broadcast_mul", [rows.sym, channels], {})
    positive = apply("_greater_scalar", [rows.sym], {"scalar": 0})
    return call.deliver(apply("where", [positive, rows.sym, scaled], {}), ROWS, rows.poly)


def dropout(call: OperatorCall) -> list[Val]:
    """Draws for every element; along `axes` one draw is shared, so those move with the layout."""
    axes = call.attrs.axes("axes") or ()
    if not axes:
        return unary(call)
    found = sorted(axis % call.data.ndim for axis in axes)
    return call.deliver_along(0 not in found, lambda sym, by: call.same([sym], axes=tuple([at + by for at in found])))


def multicast(call: OperatorCall) -> list[Val]:
    """Each input cast to the widest dtype of all; shapes and layouts need not agree."""
    if any(value.shared for value in call.inputs):
        raise NotBatchable("amp_multicast: shared and batched values together")
    result = call.same([value.sym for value in call.inputs])
    count = len(call.inputs)
    return [
        Val(result[i] if count > 1 else result, shape, dtype, value.layout, value.poly)
        for i, (value, (shape, dtype)) in enumerate(zip(call.inputs, call.outputs))
    ]


def first_input(call: OperatorCall) -> list[Val]:
    """The second input only says what the first should look like."""
    return call.deliver(apply("_copy", [call.data.sym], {}), call.data.layout, call.data.poly)


_UNARY = """
    abs arccos arccosh arcsin arcsinh arctan arctanh cbrt ceil cos cosh degrees erf erfinv exp expm1 fix floor
    gamma gammaln hard_sigmoid log log10 log1p log2 logical_not negative radians rcbrt reciprocal relu rint
    round rsqrt sigmoid sign sin sinh smooth_l1 softsign sqrt square tan tanh trunc
    Activation Cast amp_cast clip _copy BlockGrad make_loss zeros_like ones_like
    _contrib_quadratic _contrib_gradientmultiplier _contrib_round_ste _contrib_sign_ste
    _plus_scalar _minus_scalar _rminus_scalar _mul_scalar _div_scalar _rdiv_scalar _mod_scalar _rmod_scalar
    _power_scalar _rpower_scalar _maximum_scalar _minimum_scalar _hypot_scalar
    _equal_scalar _not_equal_scalar _greater_scalar _greater_equal_scalar _lesser_scalar _lesser_equal_scalar
    _logical_and_scalar _logical_or_scalar _logical_xor_scalar
"""

_SIBLINGS = {f"elemwise_{name}": f"broadcast_{name}" for name in ("add", "sub", "mul", "div")}
_SIBLINGS |= {
    f"_{name}": f"broadcast_{name}"
    for name in """maximum minimum power mod hypot equal not_equal greater greater_equal lesser lesser_equal
    logical_and logical_or logical_xor""".split()
}

RULES: dict[str, Rule] = {
    **rules_of(_UNARY, unary, "elementwise"),
    **{
        name: Rule("elementwise", equal_shapes(sibling), notes=f"{sibling} if an operand is shared")
        for name, sibling in _SIBLINGS.items()
    },
    **rules_of(" ".join(sorted(_SIBLINGS.values())), broadcast, "elementwise", "stacked if the leading axes differ"),
    "add_n": Rule("elementwise", add_n, notes="shared operands are added once"),
    "where": Rule("elementwise", where),
    "LeakyReLU": Rule(
        "elementwise",
        leaky_relu,
        notes="prelu on rows; rrelu runs alone",
        random_if=lambda attrs: attrs.text("act_type", "leaky") == "rrelu",
    ),
    "Dropout": Rule(
        "elementwise",
        dropout,
        random=True,
        trained=True,
        notes="axes move with the layout",
        random_if=lambda attrs: attrs.number("p", 0.5) > 0.0,
    ),
    "amp_multicast": Rule("elementwise", multicast),
    "_identity_with_attr_like_rhs": Rule("elementwise", first_input),
}
