"""Cases of the operators of mx.np."""

from __future__ import annotations

from experiments.conformance.rule_cases.case import Arg, case, i, w, x

# fmt: off
for shape in ((1, 4), (3, 4), (4,), ()):
    for name in """absolute negative reciprocal sign rint fix ceil floor trunc sqrt square cbrt exp expm1 log log10
            log1p log2 logical_not sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arctanh degrees radians
            isfinite isinf isnan isneginf isposinf nan_to_num around""".split() if shape == (3, 4) else ["exp"]:
        case(f"_npi_{name}", None, x(*shape, low=0.1, high=0.9), poly=bool(shape))
    for name in """add subtract rsubtract multiply true_divide rtrue_divide mod rmod power rpower
            arctan2 rarctan2 ldexp rldexp equal not_equal greater greater_equal less less_equal
            """.split() if shape == (3, 4) else ["subtract"]:
        case(f"_npi_{name}_scalar", {"scalar": 0.5, "is_int": False}, x(*shape, low=0.1, high=2.0), poly=bool(shape))
    for name in """add subtract multiply true_divide mod power copysign arctan2 hypot ldexp equal not_equal greater
            greater_equal less less_equal""".split() if shape == (3, 4) else ["subtract", "power"]:
        for other in (x(*shape, low=0.1, high=2.0), w(*shape, low=0.1, high=2.0), x(low=0.1, high=2.0),
                      w(3, 1, low=0.1, high=2.0)):
            case(f"_npi_{name}", None, x(*shape, low=0.1, high=2.0), other,
                 poly=bool(shape) and other.shape == shape and not other.shared)
    for name in ("_npx_relu", "_npx_sigmoid", "_np_copy"):
        case(name, None, x(*shape), poly=bool(shape))
    case("_npi_full_like", {"fill_value": 2.0}, x(*shape), poly=bool(shape), grad=False)
    case("_npi_bitwise_not", None, i(9, *shape, dtype="int32"), poly=bool(shape))
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "lcm"):
        case(f"_npi_{name}", None, i(9, *shape, dtype="int32"), i(9, *shape, dtype="int32"), poly=bool(shape))
        case(f"_npi_{name}_scalar", {"scalar": 6}, i(9, *shape, dtype="int32"), poly=bool(shape))
    case("_npi_add", None, x(*shape), w())
    case("_npi_multiply", None, w(), x(*shape))
    case("_npi_add", None, i(9, *shape, dtype="int32"), i(9, *shape, dtype="int32"))
    case("_npi_where", None, i(2, *shape, dtype="int32"), x(*shape), x(*shape), poly=bool(shape))
    case("_npi_where", None, i(2, *shape, dtype="int32"), x(*shape), w(*shape))
    case("_npi_where", None, i(2, *shape, dtype="int32"), x(), x(3, 1))
    case("_npi_where_lscalar", {"scalar": 2.0}, i(2, *shape, dtype="int32"), x(*shape), poly=bool(shape))
    case("_npi_where_rscalar", {"scalar": 2.0}, i(2, *shape, dtype="int32"), x(*shape), poly=bool(shape))
    case("_npi_where_scalar2", {"x": 2.0, "y": 3.0}, i(2, *shape, dtype="int32"), poly=bool(shape), grad=False)
case("_npi_copysign_scalar", {"scalar": 1.0}, x(3, 4), alone=True)
case("_npi_arccosh", None, x(3, 4, low=1.1, high=2.0), poly=True)
case("_npi_maximum", None, x(3, 4), x(4))
case("_npi_maximum", None, x(), x(4))
for name in "_np_sum _np_prod _np_max _np_min _npi_mean _npi_std _npi_var _np_all _np_any".split():
    grad = name not in ("_np_all", "_np_any", "_npi_std", "_npi_var")
    for shape in ((1, 4), (3, 4), (2, 3, 4), (4,)):
        data = x(*shape, low=0.1) if grad else i(2, *shape)
        case(name, None, data, grad=grad)
        case(name, {"keepdims": True}, data, grad=grad)
        case(name, {"axis": 0}, data, grad=grad)
        if len(shape) > 1:
            case(name, {"axis": "(-1,)"}, data, grad=grad, poly=True)
            case(name, {"axis": 1, "keepdims": True}, data, grad=grad, poly=True)
            case(name, {"axis": "(0, 1)"}, data, grad=grad)
case("_npi_std", {"ddof": 1}, x(3, 4), grad=False)
case("_np_sum", {"dtype": "float64"}, x(1, 4), grad=False)
case("_np_sum", None, x())
case("_npi_mean", {"keepdims": True}, x())
case("_np_sum", {"axis": "()"}, x(3, 4), alone=True)
for shape in ((1, 4), (3, 4), (2, 3, 4), (4,)):
    case("_npi_norm", {"ord": 2, "axis": None, "keepdims": False, "flag": -2}, x(*shape))
    case("_npi_norm", {"ord": 2, "axis": "(0,)", "keepdims": False, "flag": -1}, x(*shape))
    if len(shape) > 1:
        case("_npi_norm", {"ord": 2, "axis": "(1,)", "keepdims": True, "flag": 1}, x(*shape), poly=True)
        case("_npi_norm", {"ord": 2, "axis": "(0, 1)", "keepdims": False, "flag": 1}, x(*shape))
case("_npi_norm", {"ord": 2, "axis": "(0, 1)", "keepdims": False, "flag": 2}, x(3, 4), alone=True)
for name in ("_npi_argmax", "_npi_argmin"):
    case(name, None, x(3, 4))
    case(name, {"axis": 1}, x(3, 4), poly=True)
    case(name, {"axis": 0, "keepdims": True}, x(3, 4))
    case(name, {"axis": 0}, x(4))
for shape in ((1, 4), (3, 4), (2, 3, 4), (4,)):
    case("_np_cumsum", None, x(*shape))
    case("_np_cumsum", {"axis": 0}, x(*shape))
    case("_np_cumsum", {"axis": len(shape) - 1}, x(*shape), poly=len(shape) > 1)
    case("_np_transpose", None, x(*shape))
    case("_npi_flip", {"axis": 0}, x(*shape))
    case("_npi_flip", {"axis": len(shape) - 1}, x(*shape), poly=len(shape) > 1)
    case("_np_roll", {"shift": 1, "axis": 0}, x(*shape))
    case("_np_roll", {"shift": 3, "axis": -1}, x(*shape), poly=len(shape) > 1)
    case("_npi_diff", None, x(*shape), poly=len(shape) > 1)
    if len(shape) > 1:
        unpadded = ((0, 0),) * (len(shape) - 1)
        case("_npi_pad", {"pad_width": ((1, 2), *unpadded)}, x(*shape))
        case("_npi_pad", {"pad_width": (*unpadded, (1, 2)), "constant_value": 3}, x(*shape), poly=True)
    case("_npi_broadcast_to", {"shape": (5, *shape)}, x(*shape))
    case("_np_atleast_2d", {"num_args": 2}, x(*shape), x())
    case("_np_atleast_1d", {"num_args": 1}, x(*shape))
    case("_np_atleast_3d", {"num_args": 1}, x(*shape))
    for name in ("vstack", "hstack", "dstack", "column_stack"):
        case(f"_npi_{name}", {"num_args": 2}, x(*shape), x(*shape))
        case(f"_npi_{name}", {"num_args": 2}, x(*shape), w(*shape))
    case("_npi_concatenate", {"num_args": 2, "axis": 0}, x(*shape), x(*shape))
    case("_npi_concatenate", {"num_args": 2, "axis": None}, x(*shape), w(3, 4))
    case("_npi_concatenate", {"num_args": 2, "axis": -1}, x(*shape), x(*shape), poly=len(shape) > 1)
    case("_npi_stack", {"num_args": 2, "axis": -1}, x(*shape), x(*shape), poly=True)
    case("_npi_stack", {"num_args": 2, "axis": 0}, x(*shape), x(*shape))
    case("_npi_hsplit", {"indices": "(0, 2)", "axis": 1, "squeeze_axis": 0, "sections": 0}, x(*shape))
    case("_np_diagflat", {"k": 1}, x(*shape))
    if len(shape) > 1:
        case("_npi_flip", {"axis": "(0, 1)"}, x(*shape))
        case("_npi_rot90", {"k": 1, "axes": "(0, 1)"}, x(*shape))
        case("_np_moveaxis", {"source": "(0,)", "destination": "(-1,)"}, x(*shape))
        case("_npi_tril", None, x(*shape), poly=len(shape) > 2)
        case("_np_trace", {"offset": 1}, x(*shape))
        case("_np_diagonal", {"offset": 1}, x(*shape))
case("_npi_stack", {"num_args": 2, "axis": 0}, x(), x())
case("_npi_stack", {"num_args": 3, "axis": 0}, x(), w(), x())
case("_npi_hstack", {"num_args": 2}, x(), x())
case("_npi_vstack", {"num_args": 2}, x(), x())
case("_npi_column_stack", {"num_args": 2}, x(), x(1))
case("_npi_hsplit", {"indices": "()", "axis": 1, "squeeze_axis": 0, "sections": 2}, x(3, 4), poly=True)
case("_npi_dsplit", {"indices": "()", "axis": 2, "squeeze_axis": 0, "sections": 2}, x(3, 2, 4), poly=True)
case("_np_moveaxis", {"source": "(1, 2)", "destination": "(2, 1)"}, x(2, 3, 4), poly=True)
case("_npi_rot90", {"k": -1, "axes": "(1, 2)"}, x(2, 3, 4), poly=True)
case("_np_diag", None, x(3, 4))
case("_np_diag", {"k": -1}, x(3))
case("_np_trace", {"axis1": 1, "axis2": 2}, x(2, 3, 4))
case("_np_diagonal", {"axis1": -1, "axis2": 1}, x(2, 3, 4))
for shape, target in (((1, 8), (8,)), ((3, 8), (-1, 2, 4)), ((3, 8), (2, 12)), ((1, 1), ()), ((8,), (2, -1)),
                      ((), (1, 1))):
    case("_np_reshape", {"newshape": target}, x(*shape), poly=target == (-1, 2, 4))
    if -1 not in target:
        case("_npx_reshape", {"newshape": target}, x(*shape))
case("_npx_reshape", {"newshape": "(-2, 2, -1)"}, x(3, 8), poly=True)
case("_npx_reshape", {"newshape": "(-1, -2, 4)"}, x(3, 2, 4))
case("_npx_reshape", {"newshape": "(-5, 4)"}, x(3, 2, 4))
case("_npx_reshape", {"newshape": "(-4,)"}, x(3, 2))
case("_np_squeeze", {"axis": 1}, x(3, 1, 4), poly=True)
case("_np_squeeze", None, x(1, 1))
case("_npi_expand_dims", {"axis": 0}, x())
case("_npi_expand_dims", {"axis": 0}, x(3, 4))
products = [((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)), ((1, 4), (4, 5)), ((3, 4), (4, 5)), ((2, 3, 4), (4, 5))]
for left, right in products:
    for name in ("_np_dot", "_npi_matmul"):
        case(name, None, x(*left), x(*right))
        case(name, None, x(*left), w(*right), poly=len(left) > 1)
        case(name, None, w(*left), x(*right))
for left, right in (((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4,)), ((4,), (2, 4, 5)), ((3, 4), (2, 4, 5)),
                    ((2, 2, 3, 4), (2, 4, 5))):
    case("_npi_matmul", None, x(*left), x(*right))
    case("_npi_matmul", None, x(*left), w(*right))
    case("_npi_matmul", None, w(*left), x(*right))
case("_npi_matmul", None, x(2, 1, 3, 4), x(2, 4, 5), alone=True)
case("_np_dot", None, x(), x(3, 4))
case("_np_dot", None, x(3, 4), w())
case("_np_dot", None, x(2, 3, 4), x(2, 4, 5), alone=True)
for left, right in ((x(2, 3, 4), x(4, 3, 5)), (x(2, 3, 4), w(4, 3, 5)), (w(2, 3, 4), x(4, 3, 5))):
    case("_npi_tensordot", {"a_axes_summed": "(1, 2)", "b_axes_summed": "(1, 0)"}, left, right)
    case("_npi_tensordot", {"a_axes_summed": "(-1,)", "b_axes_summed": "(0,)"}, left, right)
case("_npi_tensordot_int_axes", {"axes": 1}, x(3, 4), x(4, 5))
case("_npi_tensordot_int_axes", {"axes": 2}, x(3, 4), w(3, 4, 5))
case("_npi_tensordot_int_axes", {"axes": 0}, x(2), x(3))
for subscripts, operands in (("ij,jk->ik", (x(2, 3), x(3, 4))), ("ij,jk", (x(2, 3), w(3, 4))), ("ij->ji", (x(2, 3),)),
                             ("i,i->", (x(3), x(3))), ("ij,j->i", (w(2, 3), x(3)))):
    case("_npi_einsum", {"subscripts": subscripts, "num_args": len(operands), "optimize": 0}, *operands)
case("_npi_einsum", {"subscripts": "ii->i", "num_args": 1}, x(3, 3))
case("_npi_einsum", {"subscripts": "iji,jj", "num_args": 2}, x(3, 2, 3), x(2, 2))
case("_npi_einsum", {"subscripts": "...ii->...i", "num_args": 1}, x(2, 3, 3))
case("_npi_einsum", {"subscripts": "...i,i->...", "num_args": 2}, x(2, 3), x(3))
case("_npi_einsum", {"subscripts": "...i,...i->...", "num_args": 2}, x(2, 3), x(1, 3), alone=True)
case("_npi_solve", None, Arg((3, 3), spd=True), x(3, 2), fixed=True)
for batch in ((), (2,)):
    case("_npi_cholesky", None, Arg((*batch, 3, 3), spd=True), poly=bool(batch), fixed=not batch)
    case("_npi_eigvalsh", None, Arg((*batch, 3, 3), spd=True), grad=False, fixed=not batch)
    case("_npi_eigh", None, Arg((*batch, 3, 3), spd=True), grad=False, fixed=not batch)
    case("_npi_svd", None, x(*batch, 3, 4), grad=False, poly=bool(batch), fixed=not batch)
    case("_npi_det", None, Arg((*batch, 3, 3), spd=True), fixed=not batch)
    case("_npi_slogdet", None, Arg((*batch, 3, 3), spd=True), fixed=not batch)
case("_npi_zeros", {"shape": "(1, 4)"})
case("_npi_ones", {"shape": "(1, 4)"})
case("_npi_arange", {"start": 0, "stop": 4})
case("_npi_eye", {"N": 3})
case("_npi_identity", {"shape": "(3, 3)"})
case("_npi_indices", {"dimensions": "(2, 3)"})
case("_npi_logspace", {"start": 0, "stop": 2, "num": 5})
for name in ("hanning", "hamming", "blackman"):
    case(f"_npi_{name}", {"M": 4})
case("_npi_zeros", {"shape": "()"}, alone=True)
case("_npx_softmax", {"axis": -1}, x(3, 4), poly=True)
case("_npx_embedding", {"input_dim": 7, "output_dim": 5}, i(7), w(7, 5))
case("_npx_pick", None, x(3, 4), i(4, 3), poly=True)
case("_npi_take", None, x(5), i(5))
case("_npi_take", None, w(7, 5), i(7))
case("_npx_one_hot", {"depth": 4}, i(4))
case("_npi_swapaxes", {"dim1": 0, "dim2": 1}, x(3, 4))
case("_npi_split", {"indices": "(0, 2)", "axis": 1}, x(3, 4), poly=True)
case("_npx_fully_connected", {"num_hidden": 5, "flatten": False}, x(3, 4), w(5, 4), w(5), poly=True)
case("_npx_batch_dot", None, x(2, 3, 4), x(2, 4, 5), poly=True)
case("_npx_reshape_like", None, x(3, 8), x(3, 2, 4))
