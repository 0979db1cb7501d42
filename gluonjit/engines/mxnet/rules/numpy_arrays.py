"""Operators of `mx.np`: elements, reductions, shapes and joins.

Their names begin with `_np`. They broadcast by themselves, accept values without axes, and otherwise follow the rules
of their older siblings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import mxnet as mx

from .attributes import Attributes, literal
from .axes import along_axis, normal_axis, reduction
from .elementwise import broadcast, unary
from .joining import joined
from .linalg import matrices
from .rule import Emit, OperatorCall, Rule, alone
from .shapes import broadcast_to_shape, same_elements, squeeze_keeps_rows, transpose, transposed
from .symbols import apply
from .values import ROWS, STACK, NotBatchable, Shape, Val, convert, reshaped


def norm(call: OperatorCall) -> list[Val]:
    """Roots of sums of squares, by the older operator; `flag` is how numpy's arguments arrive."""
    data, flag = call.data, call.attrs.integer("flag", -1)
    axes = call.attrs.axes("axis") or tuple(range(data.ndim))
    squares = flag in (-2, 1) or (flag == -1 and call.attrs.number("ord", 2.0) == 2.0 and len(axes) == 1)
    if not squares or not axes:
        raise NotBatchable("linalg.norm of a matrix, or of another order than 2")
    if len(axes) == data.ndim and not call.shape:
        flat = reshaped(data, (math.prod(data.shape),), STACK)
        return call.deliver(apply("norm", [flat.sym], {"axis": 1}), STACK)
    if len(axes) > 2:
        raise NotBatchable("linalg.norm over more than two axes")
    attrs = Attributes({"ord": 2, "axis": axes, "keepdims": call.attrs.flag("keepdims")})
    return reduction(one_is_itself=False)(replace(call, name="norm", attrs=attrs))


def reshape_keeps_rows(call: OperatorCall) -> bool:
    """A leading -1 stands for axis 0 where all other codes speak of later axes; -2 copies it."""
    codes = call.attrs.axes("newshape") or ()
    if not codes or call.attrs.flag("reverse"):
        return False
    copies = call.name == "_npx_reshape" and codes[0] == -2
    return copies or (codes[0] == -1 and all(code > 0 for code in codes[1:]))


def reshape_in_order(call: OperatorCall) -> list[Val]:
    if call.attrs.text("order", "C") != "C":
        raise NotBatchable(f"{call.name} in another order than C")
    return same_elements(reshape_keeps_rows)(call)


def at_least(call: OperatorCall) -> list[Val]:
    """Each input with axes of length 1 put in; in MXNet no gradient comes back through it."""
    values = [_with_shape(value, shape) for value, (shape, _) in zip(call.inputs, call.outputs)]
    return [value._replace(sym=apply("BlockGrad", [value.sym], {})) for value in values]


def _with_shape(value: Val, shape: Shape) -> Val:
    """The same elements in another shape, shared ones included."""
    if value.shape == shape:
        return value
    if value.shared and shape:
        return value._replace(sym=apply("Reshape", [value.sym], {"shape": shape}), shape=shape)
    return reshaped(value, shape)


def moveaxis(call: OperatorCall) -> list[Val]:
    ndim = call.data.ndim
    source = [normal_axis(axis, ndim) for axis in call.attrs.axes("source") or ()]
    destination = [normal_axis(axis, ndim) for axis in call.attrs.axes("destination") or ()]
    order = [axis for axis in range(ndim) if axis not in source]
    for to, axis in sorted(zip(destination, source)):
        order.insert(to, axis)
    return transposed(call.data, order, call.outputs[0][1])


def over_axes(key: str, default: Sequence[int] | None = None) -> Emit:
    """An operator that works along given axes and leaves the others alone: rows unless axis 0 is among them."""

    def emit(call: OperatorCall) -> list[Val]:
        data = call.data
        given = call.attrs.axes(key) or default
        if given is None:
            raise NotBatchable(f"{call.name} over all axes")
        axes = [normal_axis(axis, data.ndim) for axis in given]
        if data.rows and 0 not in axes:
            return call.deliver(call.same([data.sym], **{key: _spelled(axes)}), ROWS, data.poly)
        shifted = _spelled([axis + 1 for axis in axes])
        return call.deliver(call.same([convert(data, STACK).sym], **{key: shifted}), STACK)

    return emit


def _spelled(axes: Sequence[int]) -> int | tuple[int, ...]:
    return axes[0] if len(axes) == 1 else tuple(axes)


def flip(call: OperatorCall) -> list[Val]:
    axes = call.attrs.axes("axis")
    chosen = range(call.data.ndim) if axes is None else [normal_axis(axis, call.data.ndim) for axis in axes]
    return over_axes("axis", tuple(chosen))(call)


def pad(call: OperatorCall) -> list[Val]:
    widths = literal(call.attrs.text("pad_width", "()"))
    data = call.data
    if data.rows and not any(widths[0]):
        return call.deliver(call.same([data.sym]), ROWS, data.poly)
    return call.deliver(call.same([convert(data, STACK).sym], pad_width=((0, 0), *widths)), STACK)


def broadcast_to(call: OperatorCall) -> list[Val]:
    return broadcast_to_shape(call, call.shape, keeps_rows=False)


def diag(call: OperatorCall) -> list[Val]:
    """A vector's matrix or a matrix' diagonal."""
    if call.data.ndim == 2:
        stacked = convert(call.data, STACK)
        attrs = {"k": call.attrs.integer("k", 0), "axis1": 1, "axis2": 2}
        return call.deliver(apply("diag", [stacked.sym], attrs), STACK)
    return diagflat(call)


def diagflat(call: OperatorCall) -> list[Val]:
    if call.data.dtype not in ("float32", "float64"):
        raise NotBatchable(f"{call.name} of {call.data.dtype}")
    flat = reshaped(call.data, (math.prod(call.data.shape),), STACK)
    return call.deliver(apply("_linalg_makediag", [flat.sym], {"offset": call.attrs.integer("k", 0)}), STACK)


def diagonal(call: OperatorCall) -> list[Val]:
    stacked = convert(call.data, STACK)
    axes = {
        key: normal_axis(call.attrs.integer(key, default), stacked.ndim) + 1
        for key, default in (("axis1", 0), ("axis2", 1))
    }
    return call.deliver(call.same([stacked.sym], **axes), STACK)


def tril(call: OperatorCall) -> list[Val]:
    if call.data.ndim < 2:
        raise NotBatchable("_npi_tril of a vector")
    return matrices()(call)


def concatenate(call: OperatorCall) -> list[Val]:
    given = call.attrs.optional_integer("axis", 0)
    if given is None:
        return joined(call, [_with_shape(value, (math.prod(value.shape),)) for value in call.inputs], 0)
    return joined(call, call.inputs, normal_axis(given, call.data.ndim))


def stacking(axis: int, least: int) -> Emit:
    """vstack, dstack: values with fewer axes get some of length 1 first, then join along one axis."""

    def emit(call: OperatorCall) -> list[Val]:
        return joined(call, [_with_shape(value, _padded(value.shape, least)) for value in call.inputs], axis)

    return emit


def _padded(shape: Shape, least: int) -> Shape:
    """Pads a shape like numpy: up to two axes in front, a third one behind."""
    if len(shape) < min(least, 2):
        shape = (1,) * (min(least, 2) - len(shape)) + shape
    return shape if len(shape) >= least else (*shape, 1)


def hstack(call: OperatorCall) -> list[Val]:
    values = [_with_shape(value, value.shape or (1,)) for value in call.inputs]
    return joined(call, values, 0 if values[0].ndim == 1 else 1)


def column_stack(call: OperatorCall) -> list[Val]:
    return joined(
        call, [value if value.ndim > 1 else _with_shape(value, (math.prod(value.shape), 1)) for value in call.inputs], 1
    )


def split_axis(axis: int) -> Emit:
    """hsplit and dsplit: split_v2 along a fixed axis, for hsplit of vectors the only one."""

    def emit(call: OperatorCall) -> list[Val]:
        data = call.data
        along = min(axis, data.ndim - 1)
        attrs = {key: call.attrs[key] for key in ("indices", "sections", "squeeze_axis") if key in call.attrs}
        if data.rows and along > 0:
            return call.deliver(apply("_split_v2", [data.sym], {**attrs, "axis": along}), ROWS, data.poly)
        stacked: mx.sym.Symbol = convert(data, STACK).sym
        return call.deliver(apply("_split_v2", [stacked], {**attrs, "axis": along + 1}), STACK)

    return emit


def trace(call: OperatorCall) -> list[Val]:
    stacked = convert(call.data, STACK)
    if stacked.ndim == 2:
        entries = apply("diag", [stacked.sym], {"k": call.attrs.integer("offset", 0), "axis1": 1, "axis2": 2})
        return call.deliver_each(apply("_np_sum", [entries], {"axis": 1}), ())
    return diagonal(call)


_UNARY = """absolute negative reciprocal sign rint fix ceil floor trunc sqrt square cbrt exp expm1 log log10 log1p log2
    logical_not sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh degrees radians bitwise_not
    isfinite isinf isnan isneginf isposinf nan_to_num around full_like
    add_scalar subtract_scalar rsubtract_scalar multiply_scalar true_divide_scalar rtrue_divide_scalar mod_scalar
    rmod_scalar power_scalar rpower_scalar arctan2_scalar rarctan2_scalar
    ldexp_scalar rldexp_scalar lcm_scalar bitwise_and_scalar bitwise_or_scalar bitwise_xor_scalar equal_scalar
    not_equal_scalar greater_scalar greater_equal_scalar less_scalar less_equal_scalar where_scalar2""".split()

_BINARY = """add subtract multiply true_divide mod power copysign arctan2 hypot lcm ldexp bitwise_and bitwise_or
    bitwise_xor equal not_equal greater greater_equal less less_equal where where_lscalar where_rscalar""".split()

_OFF_AXIS_0 = "rows unless axis 0 takes part"

RULES: dict[str, Rule] = {
    **{f"_npi_{name}": Rule("elementwise", unary) for name in _UNARY},
    **{name: Rule("elementwise", unary) for name in ("_npx_relu", "_npx_sigmoid", "_np_copy")},
    **{f"_npi_{name}": Rule("elementwise", broadcast, notes="stacked if the leading axes differ") for name in _BINARY},
    **{
        name: Rule("axis", reduction(), notes=_OFF_AXIS_0)
        for name in (
            "_np_sum",
            "_np_prod",
            "_np_max",
            "_np_min",
            "_np_all",
            "_np_any",
            "_npi_mean",
            "_npi_std",
            "_npi_var",
        )
    },
    "_npi_norm": Rule("axis", norm, notes=_OFF_AXIS_0),
    **{
        name: Rule("axis", along_axis(default=None, keeps=False), notes=_OFF_AXIS_0)
        for name in ("_npi_argmax", "_npi_argmin")
    },
    "_np_cumsum": Rule("axis", along_axis(default=None), notes=_OFF_AXIS_0),
    **{name: Rule("shape", reshape_in_order) for name in ("_np_reshape", "_npx_reshape")},
    "_np_squeeze": Rule("shape", same_elements(squeeze_keeps_rows)),
    **{f"_np_atleast_{n}d": Rule("shape", at_least) for n in (1, 2, 3)},
    "_np_transpose": Rule("shape", transpose, notes="rows if axis 0 stays in front"),
    "_np_moveaxis": Rule("shape", moveaxis, notes="rows if axis 0 stays in front"),
    "_npi_flip": Rule("axis", flip, notes=_OFF_AXIS_0),
    "_npi_rot90": Rule("axis", over_axes("axes", (0, 1)), notes=_OFF_AXIS_0),
    "_np_roll": Rule("axis", over_axes("axis"), notes=_OFF_AXIS_0 + "; alone over all axes"),
    "_npi_diff": Rule("axis", over_axes("axis", (-1,)), notes=_OFF_AXIS_0),
    "_npi_pad": Rule("axis", pad, notes=_OFF_AXIS_0),
    "_npi_broadcast_to": Rule("rewritten", broadcast_to, notes="the target without the sample axis"),
    "_np_diag": Rule("rewritten", diag, notes="axes shifted by the sample axis"),
    "_np_diagflat": Rule("rewritten", diagflat, notes="a matrix from each sample's flat vector"),
    "_np_diagonal": Rule("rewritten", diagonal, notes="axes shifted by the sample axis"),
    "_np_trace": Rule("rewritten", trace, notes="axes shifted by the sample axis"),
    "_npi_tril": Rule("row-wise", tril, notes="stacked, or rows of batches of matrices"),
    "_npi_concatenate": Rule("axis", concatenate, notes="rows unless along axis 0; shared operands are repeated"),
    "_npi_vstack": Rule("axis", stacking(0, 2)),
    "_npi_dstack": Rule("axis", stacking(2, 3)),
    "_npi_hstack": Rule("axis", hstack),
    "_npi_column_stack": Rule("axis", column_stack),
    "_npi_hsplit": Rule("axis", split_axis(1)),
    "_npi_dsplit": Rule("axis", split_axis(2)),
    **{
        name: Rule("row-wise", matrices(), notes="stacked, or rows of batches of matrices")
        for name in ("_npi_cholesky", "_npi_svd", "_npi_eigh", "_npi_eigvalsh")
    },
    **{
        f"_npi_{name}": alone("draws into a fixed shape, independent of the number of samples", random=True)
        for name in (
            "normal",
            "normal_n",
            "uniform",
            "uniform_n",
            "bernoulli",
            "choice",
            "exponential",
            "gamma",
            "gumbel",
            "logistic",
            "multinomial",
            "pareto",
            "rayleigh",
            "weibull",
            "powerd",
        )
    },
}
