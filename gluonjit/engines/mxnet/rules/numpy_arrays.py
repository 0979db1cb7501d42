"""Operators of `mx.np`: elements, reductions, shapes and joins.

Their names begin with `_np`. They broadcast by themselves, accept values without axes, and otherwise follow the rules
of their older siblings.
"""

from __future__ import annotations

import math
from dataclasses import replace

from .attributes import Attributes, literal
from .axes import OFF_AXIS_0, along_axis, reduction
from .elementwise import broadcast, unary
from .joining import joined
from .linalg import LAST_AXES, matrices
from .rule import Emit, OperatorCall, Rule, alone_of, rules_of
from .shapes import broadcast_to_shape, over_axes, same_elements, squeeze_keeps_rows, transpose, transposed
from .symbols import apply
from .values import STACK, NotBatchable, Shape, Val, convert, normal_axis, reshaped, with_shape


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
    values = [with_shape(value, shape) for value, (shape, _) in zip(call.inputs, call.outputs)]
    return [value._replace(sym=apply("BlockGrad", [value.sym], {})) for value in values]


def moveaxis(call: OperatorCall) -> list[Val]:
    ndim = call.data.ndim
    source = call.axes("source")
    destination = call.axes("destination")
    order = [axis for axis in range(ndim) if axis not in source]
    for to, axis in sorted(zip(destination, source)):
        order.insert(to, axis)
    return transposed(call.data, order, call.dtype)


def flip(call: OperatorCall) -> list[Val]:
    axes = call.attrs.axes("axis")
    chosen = range(call.data.ndim) if axes is None else [normal_axis(axis, call.data.ndim) for axis in axes]
    return over_axes("axis", tuple(chosen))(call)


def pad(call: OperatorCall) -> list[Val]:
    widths = literal(call.attrs.text("pad_width", "()"))
    made = (tuple(widths), ((0, 0), *widths))
    return call.deliver_along(not any(widths[0]), lambda sym, by: call.same([sym], pad_width=made[by]))


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
    axes = {key: call.axis(key, default) + 1 for key, default in (("axis1", 0), ("axis2", 1))}
    return call.deliver(call.same([stacked.sym], **axes), STACK)


def tril(call: OperatorCall) -> list[Val]:
    if call.data.ndim < 2:
        raise NotBatchable("_npi_tril of a vector")
    return matrices()(call)


def concatenate(call: OperatorCall) -> list[Val]:
    given = call.attrs.optional_integer("axis", 0)
    if given is None:
        return joined(call, [with_shape(value, (math.prod(value.shape),)) for value in call.inputs], 0)
    return joined(call, call.inputs, normal_axis(given, call.data.ndim))


def stacking(axis: int, least: int) -> Emit:
    """vstack, dstack: values with fewer axes get some of length 1 first, then join along one axis."""

    def emit(call: OperatorCall) -> list[Val]:
        return joined(call, [with_shape(value, _padded(value.shape, least)) for value in call.inputs], axis)

    return emit


def _padded(shape: Shape, least: int) -> Shape:
    """Pads a shape like numpy: up to two axes in front, a third one behind."""
    if len(shape) < min(least, 2):
        shape = (1,) * (min(least, 2) - len(shape)) + shape
    return shape if len(shape) >= least else (*shape, 1)


def hstack(call: OperatorCall) -> list[Val]:
    values = [with_shape(value, value.shape or (1,)) for value in call.inputs]
    return joined(call, values, 0 if values[0].ndim == 1 else 1)


def column_stack(call: OperatorCall) -> list[Val]:
    return joined(
        call, [value if value.ndim > 1 else with_shape(value, (math.prod(value.shape), 1)) for value in call.inputs], 1
    )


def split_axis(axis: int) -> Emit:
    """hsplit and dsplit: split_v2 along a fixed axis, for hsplit of vectors the only one."""

    def emit(call: OperatorCall) -> list[Val]:
        along = min(axis, call.data.ndim - 1)
        attrs = {key: call.attrs[key] for key in ("indices", "sections", "squeeze_axis") if key in call.attrs}
        return call.deliver_along(along > 0, lambda sym, by: apply("_split_v2", [sym], {**attrs, "axis": along + by}))

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
    not_equal_scalar greater_scalar greater_equal_scalar less_scalar less_equal_scalar where_scalar2"""

_BINARY = """add subtract multiply true_divide mod power copysign arctan2 hypot lcm ldexp bitwise_and bitwise_or
    bitwise_xor equal not_equal greater greater_equal less less_equal where where_lscalar where_rscalar"""


RULES: dict[str, Rule] = {
    **{f"_npi_{name}": rule for name, rule in rules_of(_UNARY, unary, "elementwise").items()},
    **rules_of("_npx_relu _npx_sigmoid _np_copy", unary, "elementwise"),
    **{
        f"_npi_{name}": rule
        for name, rule in rules_of(_BINARY, broadcast, "elementwise", "stacked if the leading axes differ").items()
    },
    **rules_of(
        "_np_sum _np_prod _np_max _np_min _np_all _np_any _npi_mean _npi_std _npi_var", reduction(), "axis", OFF_AXIS_0
    ),
    "_npi_norm": Rule("axis", norm, notes=OFF_AXIS_0),
    **rules_of("_npi_argmax _npi_argmin", along_axis(default=None, keeps=False), "axis", OFF_AXIS_0),
    "_np_cumsum": Rule("axis", along_axis(default=None), notes=OFF_AXIS_0),
    **rules_of("_np_reshape _npx_reshape", reshape_in_order, "shape"),
    "_np_squeeze": Rule("shape", same_elements(squeeze_keeps_rows)),
    **rules_of("_np_atleast_1d _np_atleast_2d _np_atleast_3d", at_least, "shape"),
    "_np_transpose": Rule("shape", transpose, notes="rows if axis 0 stays in front"),
    "_np_moveaxis": Rule("shape", moveaxis, notes="rows if axis 0 stays in front"),
    "_npi_flip": Rule("axis", flip, notes=OFF_AXIS_0),
    "_npi_rot90": Rule("axis", over_axes("axes", (0, 1)), notes=OFF_AXIS_0),
    "_np_roll": Rule("axis", over_axes("axis"), notes=OFF_AXIS_0 + "; alone over all axes"),
    "_npi_diff": Rule("axis", over_axes("axis", (-1,)), notes=OFF_AXIS_0),
    "_npi_pad": Rule("axis", pad, notes=OFF_AXIS_0),
    "_npi_broadcast_to": Rule("rewritten", broadcast_to, notes="the target without the sample axis"),
    "_np_diag": Rule("rewritten", diag, notes="axes shifted by the sample axis"),
    "_np_diagflat": Rule("rewritten", diagflat, notes="a matrix from each sample's flat vector"),
    "_np_diagonal": Rule("rewritten", diagonal, notes="axes shifted by the sample axis"),
    "_np_trace": Rule("rewritten", trace, notes="axes shifted by the sample axis"),
    "_npi_tril": Rule("row-wise", tril, notes=LAST_AXES),
    "_npi_concatenate": Rule("axis", concatenate, notes="rows unless along axis 0; shared operands are repeated"),
    "_npi_vstack": Rule("axis", stacking(0, 2)),
    "_npi_dstack": Rule("axis", stacking(2, 3)),
    "_npi_hstack": Rule("axis", hstack),
    "_npi_column_stack": Rule("axis", column_stack),
    "_npi_hsplit": Rule("axis", split_axis(1)),
    "_npi_dsplit": Rule("axis", split_axis(2)),
    **rules_of("_npi_cholesky _npi_svd _npi_eigh _npi_eigvalsh", matrices(), notes=LAST_AXES),
    **alone_of(
        """_npi_normal _npi_normal_n _npi_uniform _npi_uniform_n _npi_bernoulli _npi_choice _npi_exponential _npi_gamma
        _npi_gumbel _npi_logistic _npi_multinomial _npi_pareto _npi_rayleigh _npi_weibull _npi_powerd""",
        "draws into a fixed shape, independent of the number of samples",
        random=True,
    ),
}
