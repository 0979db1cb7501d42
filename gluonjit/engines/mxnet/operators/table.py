"""Rows of MXNet's operators: for each, what it does with its axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf, prod
from typing import Any

import mxnet as mx

from gluonjit.engines.mxnet.framework.symbols import ALONE, DRAWN, STATEFUL, canonical, draws, listed, read
from gluonjit.engines.mxnet.operators import layers, linear, picking, recurring, shapes
from gluonjit.engines.mxnet.operators.binding import Writer
from gluonjit.program.axes.along import Along, Indexed, Reduce, Section, Turned
from gluonjit.program.axes.elementwise import Make, Map
from gluonjit.program.axes.products import Contract
from gluonjit.program.axes.row import Application, By, Row, lifted, of_any_rows, rows_by_name
from gluonjit.program.axes.samples import Last, Pick, Samples
from gluonjit.program.axes.shapes import Expand, Join, Keep, Permute, Reshape
from gluonjit.program.axes.values import PREFIX, ROWS, NotBatchable, Shaped, Vals, Values, is_sized
from gluonjit.program.children.reading import Operators
from gluonjit.program.trace import TraceOp
from gluonjit.program.work import traced_work

ROWS_OF: dict[str, Row] = {}
"""The row of each operator that runs for many samples."""


def row(names: str, each: Row) -> None:
    """Notes the row of some operators."""
    ROWS_OF.update(rows_by_name(names, each))


def by(names: str, rule: Callable[[Application], Vals], kind: str, said: str, **options: Any) -> None:
    """Notes operators with a rule of their own."""
    row(names, By(rule, kind, said, True, **options))


# -- elementwise -------------------------------------------------------------------------------------------

_EACH = linear.MAP
row(
    """abs=ABS arccos arccosh arcsin arcsinh arctan arctanh cbrt ceil cos cosh degrees erf erfinv exp=EXP expm1 fix
    floor gamma gammaln hard_sigmoid log=LOG log10 log1p log2 logical_not negative=NEG radians rcbrt
    reciprocal=RECIPROCAL relu=RELU rint round sigmoid=SIGMOID sign sin sinh smooth_l1 sqrt=SQRT square=SQUARE tan
    tanh=TANH trunc Cast amp_cast BlockGrad=STOP make_loss
    _contrib_quadratic _contrib_gradientmultiplier _contrib_round_ste _contrib_sign_ste
    _plus_scalar=ADD _minus_scalar=SUB _rminus_scalar=RSUB _mul_scalar=MUL _div_scalar=DIV _rdiv_scalar=RDIV
    _mod_scalar _rmod_scalar _power_scalar _rpower_scalar _maximum_scalar=MAX _minimum_scalar=MIN _hypot_scalar
    _equal_scalar _not_equal_scalar _greater_scalar _greater_equal_scalar _lesser_scalar _lesser_equal_scalar
    _logical_and_scalar _logical_or_scalar _logical_xor_scalar _npx_relu=RELU _npx_sigmoid=SIGMOID""",
    _EACH,
)
row("zeros_like=0 ones_like=1 _npi_full_like", Make())
for _name in "add=ADD sub=SUB mul=MUL div=DIV".split():
    row(f"elemwise_{_name}", Map(casts=None, wide=f"broadcast_{_name[:3]}"))
    row(f"broadcast_{_name}", _EACH)
for _name in """maximum=MAX minimum=MIN power mod hypot equal not_equal greater greater_equal lesser lesser_equal
        logical_and logical_or logical_xor""".split():
    row(f"_{_name}", Map(casts=None, wide=f"broadcast_{_name.partition('=')[0]}"))
    row(f"broadcast_{_name}", _EACH)
_NUMPY = """absolute=ABS negative=NEG reciprocal=RECIPROCAL sign rint fix ceil floor trunc sqrt=SQRT square=SQUARE cbrt
    exp=EXP expm1 log=LOG log10 log1p log2
    logical_not sin cos tan arcsin arccos arctan sinh cosh tanh=TANH arcsinh arccosh arctanh degrees radians bitwise_not
    isfinite isinf isnan isneginf isposinf nan_to_num around
    add_scalar=ADD subtract_scalar=SUB rsubtract_scalar=RSUB multiply_scalar=MUL true_divide_scalar=DIV
    rtrue_divide_scalar=RDIV mod_scalar rmod_scalar power_scalar rpower_scalar arctan2_scalar rarctan2_scalar
    ldexp_scalar rldexp_scalar lcm_scalar bitwise_and_scalar bitwise_or_scalar bitwise_xor_scalar equal_scalar
    not_equal_scalar greater_scalar greater_equal_scalar less_scalar less_equal_scalar where_scalar2
    add=ADD subtract=SUB multiply=MUL true_divide=DIV mod power copysign arctan2 hypot lcm ldexp bitwise_and bitwise_or
    bitwise_xor equal not_equal greater greater_equal less less_equal where where_lscalar where_rscalar"""
row(" ".join([f"_npi_{name}" for name in _NUMPY.split()]), _EACH)


def _activated(call: Application, a: Any) -> Any:
    """Activations as oneDNN has them, whose relu makes 0 of a NaN."""
    kind = call.attrs["act_type"]
    if kind == "softsign":
        return a / (a.do("ABS") + 1.0)
    return a.do({"sigmoid": "SIGMOID", "tanh": "TANH", "relu": "POSITIVE", "softrelu": "SOFTRELU"}[kind])


row("Activation", Map(casts=None, code=_activated))
row("softsign", Map(casts=None, code=lambda call, a: a / (a.do("ABS") + 1.0)))
row("rsqrt", Map(casts=None, code=lambda call, a: a.do("SQRT").do("RECIPROCAL")))
row("clip", Map(casts=None, code=lambda call, a: a.limited(call.attrs["a_min"], call.attrs["a_max"])))
row("_copy _np_copy", Keep())
row("add_n", layers.Total(code=lambda call, first, *others: sum(others, first)))
by(
    "where",
    layers.where,
    "elementwise",
    "elementwise, or row by row where the condition has an entry for each",
    padded=True,
)
by(
    "LeakyReLU",
    layers.leaky,
    "elementwise",
    "elementwise; prelu on rows; rrelu runs alone",
    padded=True,
    code=lambda call, a, *slopes: {"leaky": a.leaky}[call.get("act_type", "leaky")](call.get("slope", 0.25)),
)
by("Dropout", layers.dropout, "elementwise", "elementwise, or one draw along axes, wherever they are")
by("amp_multicast", layers.multicast, "elementwise", Map.said)
by("_identity_with_attr_like_rhs", layers.first, "elementwise", Map.said)
row("MakeLoss", Map(casts=None, refuse=layers.divided_by_batch))
for _name in """abs exp negative relu sigmoid tanh sin cos erf square sign rint round fix floor ceil trunc Cast
        BlockGrad Activation softsign clip _plus_scalar _minus_scalar _rminus_scalar _mul_scalar _maximum_scalar
        _minimum_scalar elemwise_add elemwise_sub elemwise_mul _maximum _minimum broadcast_add broadcast_sub
        broadcast_mul broadcast_maximum broadcast_minimum
        _npx_relu _npx_sigmoid _npi_absolute _npi_negative _npi_exp _npi_tanh
        _npi_sin _npi_cos _npi_square _npi_add _npi_subtract _npi_multiply _npi_add_scalar _npi_subtract_scalar
        _npi_rsubtract_scalar _npi_multiply_scalar""".split():
    ROWS_OF[_name].smooth = True  # type: ignore[attr-defined]  # at any number it is finite, and its derivatives are

# -- along axes --------------------------------------------------------------------------------------------


def _over_none(call: Application) -> str | None:
    return "over no axis" if call.get("axis") == () else None


def _over_all(call: Application) -> str | None:
    return "over all axes" if call.get("axis") is None else None


_KEEP: Mapping[str, Any] = {"keep": "keepdims"}
for _kind, _mean, _none in (("", "mean", None), ("_np_", "_npi_mean", _over_none)):
    _several: Mapping[str, Any] = {"many": True, "idle": True, "refuse": _none, **_KEEP}
    row(f"{_kind}sum=SUM", Reduce("axis", fill=0, **_several))
    row(f"{_mean}=MEAN", Reduce("axis", mean=f"{_kind}sum", **_several))
    row(f"{_kind}prod", Reduce("axis", fill=1, **_several))
    row(f"{_kind}max", Reduce("axis", fill=-inf, made="amax", **_several))
    row(f"{_kind}min", Reduce("axis", fill=inf, made="amin", **_several))
row("nansum norm", Reduce("axis", many=True, fill=0, **_KEEP))
row("nanprod", Reduce("axis", many=True, fill=1, **_KEEP))
row("moments", Reduce("axes", many=True, **_KEEP))
row("_np_all _np_any _npi_std _npi_var", Reduce("axis", many=True, refuse=_over_none, **_KEEP))
row("argmax=ARGMAX _npi_argmax", Reduce("axis", fill=-inf, **_KEEP))
row("argmin _npi_argmin", Reduce("axis", fill=inf, **_KEEP))
by("_npi_norm", shapes.numpy_norm, "reduction", Along.said)
by(
    "argmax_channel",  # which itself makes every graph that holds it raise: it is not registered as without gradient
    lambda call: ROWS_OF["argmax"].lift(call.on("argmax", {"axis": 1}, call.vals, call.outs)),
    "reduction",
    "argmax over axis 1",
    refuse=lambda call: None if call.vals[0].rank == 2 else "data without exactly two axes",
)
row("pick", picking.PICK)
row("softmax=SOFTMAX", Along("axis", -1, fill=layers.behind, after=0))
row("log_softmax=LOGSOFTMAX", Along("axis", -1, fill=layers.behind, after=0, refill=True))
row("softmin sort argsort topk", Along("axis", -1))
row("_np_cumsum", Along("axis", fill=PREFIX))
by("repeat", shapes.repeated, "reduction", Along.said, padded=True)
row("reverse _npi_flip", Turned("axis", many=True))
row("_np_roll", Along("axis", many=True, refuse=_over_all))
row("_npi_diff", Along("axis", -1))
row("_npi_rot90", Along("axes", (0, 1)))
row("LayerNorm", Along("axis", -1, params=1, code=lambda call, a, *own: a.normalized(call.get("eps", 1e-5), *own)))
by("_npi_pad", shapes.padded, "reduction", Along.said)
by("tile", shapes.tiled, "reduction", Along.said)

# -- shapes ------------------------------------------------------------------------------------------------

_ORDER = "another order than C"
row(
    "Reshape _np_reshape _npx_reshape",
    Reshape(shapes.reshape_keeps, refuse=lambda call: None if call.get("order", "C") == "C" else _ORDER),
)
row("reshape_like", Reshape(lambda call: False))
row("Flatten", Reshape())
row("expand_dims", Reshape(lambda call: bool(shapes.axis_of(call, "axis", 0, 1))))
row("squeeze _np_squeeze", Reshape(shapes.squeeze_keeps))
by("_np_atleast_1d _np_atleast_2d _np_atleast_3d", shapes.at_least, "shape", Reshape.said)
row("transpose _np_transpose", Permute(shapes.turned))
row("SwapAxis", Permute(shapes.swapped))
row("_np_moveaxis", Permute(shapes.moved))
row("broadcast_to", Expand(lambda call: listed(call.get("shape"))[:1] == (0,)))
row("broadcast_axis", Expand(shapes.squeeze_keeps))
row("broadcast_like _npi_broadcast_to", Expand(lambda call: False))
row("slice_axis", shapes.SliceAxis("axis", 0, begins=shapes.begins))
by("slice", shapes.sliced, "shape", Section.said, code=Section(), padded=True)
by("slice_like", shapes.sliced_like, "shape", "slice to the known shape", padded=True)
row("SliceChannel", Section("axis", 1))
row("_split_v2", Section("axis", 0))
by("_npi_hsplit", shapes.splitting(1), "shape", Section.said)
by("_npi_dsplit", shapes.splitting(2), "shape", Section.said)
row("Concat", shapes.Concat(default=1))
row("stack _npi_stack", Join("axis", new=True))
row("_npi_concatenate", shapes.Concat("axis"))
by("_npi_vstack", shapes.stacking(0, lambda shape: shapes.with_axes(shape, 2)), "shape", Join.said)
by("_npi_dstack", shapes.stacking(2, lambda shape: shapes.with_axes(shape, 3)), "shape", Join.said)
by("_npi_hstack", shapes.stacking(1, lambda shape: shape or (1,)), "shape", Join.said)
by("_npi_column_stack", shapes.stacking(1, shapes.as_column), "shape", Join.said)
row("_rnn_param_concat", Join(refuse=lambda call: "parameters that are not the same for all samples"))
_AXES = "of two axes, on stacked samples"
by("diag _np_diag", shapes.diag, "shape", _AXES)
by("_np_diagonal", shapes.diagonal, "shape", _AXES)
by("_np_trace", shapes.trace, "shape", _AXES)
by("_np_diagflat", shapes.diagflat, "shape", "a matrix from all elements of each sample")

# -- products and linear algebra ---------------------------------------------------------------------------


def _by_filters(call: Application) -> int:
    """Each result is a sum over one filter, (channels, height, width)."""
    return prod((*call.shape, *call.vals[1].shape[1:]))


by(
    "FullyConnected",
    linear.connected,
    "product",
    Contract.said,
    code=lambda call, a, weight, *bias: a.linear(weight, *bias),
    work=_by_filters,
    padded=True,
)
by("dot", linear.dot, "product", Contract.said, refuse=linear.is_sparse, code=linear.DOT, padded=True)
row("batch_dot", Contract(linear.matrices, each=True, refuse=linear.is_sparse))
by("_linalg_gemm _linalg_gemm2", linear.gemm, "product", "as dot or batch_dot", work=linear.factors, padded=True)
by("_np_dot", linear.numpy_dot, "product", Contract.said, work=linear.factors, padded=True)
by("_npi_matmul", linear.matmul, "product", Contract.said, work=linear.factors, padded=True)
row("_npi_tensordot _npi_tensordot_int_axes", Contract(linear.tensordot, rows=False))
row("_npi_einsum", By(linear.einsum, "product", "with one more letter for the samples"))


row(
    """_linalg_potrf _linalg_potri _linalg_trmm _linalg_trsm _linalg_syrk _linalg_gelqf _linalg_syevd
    _linalg_inverse _linalg_extractdiag _linalg_extracttrian _contrib_box_nms _contrib_bipartite_matching
    _npi_cholesky _npi_svd _npi_eigh _npi_eigvalsh _npi_tril _npi_solve""",
    Last(2, refuse=lambda call: None if call.get("axis", -2) == -2 else "matrices on other axes than the last two"),
)
row("_linalg_det _linalg_slogdet _linalg_sumlogdiag", Last(2, number=True))
row("_linalg_makediag _linalg_maketrian _contrib_div_sqrt_dim", Last(1))

# -- by integers -------------------------------------------------------------------------------------------

row("Embedding", Pick(1, 0))
by("one_hot", picking.one_hot, "picking", "a row of classes for each number", padded=True)
by("take", picking.take, "picking", f"{Indexed.said}, offset by the sample; alone with mode raise")
by("batch_take", picking.batch_take, "picking", "pick, with its gradient blocked")
_COLUMNS = "all samples' columns side by side"
row("_ravel_multi_index", By(picking.ravel_multi_index, "picking", _COLUMNS))
row("_unravel_index", By(picking.unravel_index, "picking", _COLUMNS))
row("gather_nd", By(picking.gather_nd, "picking", "the sample as one more coordinate"))

# -- layers, whose first axis is the batch -----------------------------------------------------------------

_IMAGES = partial(Samples, least=3, refuse=layers.batch_not_first)
row("Convolution Convolution_v1", _IMAGES(work=_by_filters, fill=0))
row("Deconvolution", _IMAGES(work=_by_filters))
_WHOLE = {"max": ROWS_OF["max"], "avg": ROWS_OF["mean"], "sum": ROWS_OF["sum"]}
row("Pooling Pooling_v1", layers.Pooling(whole=_WHOLE, least=3, refuse=layers.batch_not_first))
row("_contrib_AdaptiveAvgPooling2D", layers.Pooling(whole=_WHOLE, least=4))
row("_contrib_DeformableConvolution", Samples(least=4, data=2, refuse=layers.batch_not_first))
row("BatchNorm _contrib_BatchNormWithReLU", Samples(fill=0, refuse=layers.statistics_of_batch))
row("InstanceNorm GroupNorm LRN col2im", Samples(least=3))
row("L2Normalization SoftmaxActivation GridGenerator", Samples())
row("Pad", Samples(least=4, refuse=lambda call: "pads the batch" if any(call.get("pad_width", ())[:2]) else None))
row("depth_to_space space_to_depth im2col", Samples(least=4))
row("Correlation BilinearSampler SpatialTransformer Crop", Samples(data=99))
row("_contrib_BilinearResize2D", Samples(least=4, data=99))
row("LinearRegressionOutput LogisticRegressionOutput MAERegressionOutput", Samples(least=1, data=2))
row("SVMOutput", Samples(data=2))
row("SoftmaxOutput", Samples(data=2, refuse=layers.divided_by_batch))
by("UpSampling", layers.upsampled, "layer", f"{Samples.said}; with bilinear the weight is the same for all")
by("softmax_cross_entropy", layers.cross_entropy, "layer", "summed for each sample")
_SIDE = "the samples' batches side by side"
for _name, _rule in {
    "SequenceMask SequenceReverse SequenceLast": layers.sequence,
    "_contrib_interleaved_matmul_selfatt_qk": layers.by_batches((1,), 0),
    "_contrib_interleaved_matmul_selfatt_valatt": layers.by_batches((1, 0), 1),
    "_contrib_interleaved_matmul_encdec_qk": layers.by_batches((1, 1), 0),
    "_contrib_interleaved_matmul_encdec_valatt": layers.by_batches((1, 0), 1),
}.items():
    by(_name, _rule, "layer", _SIDE)

by("CTCLoss", layers.aligned, "layer", _SIDE, padded=True)
by(
    "RNN",
    recurring.recurrent,
    "layer",
    _SIDE,
    work=lambda call: prod((*call.vals[0].shape[:2], *call.vals[1].shape)),
    padded=True,
)

# -- draws, densities, and what is made --------------------------------------------------------------------

for _name in DRAWN:
    row(_name, Make() if _name.endswith("_like") else Last(0))
by("_sample_multinomial", picking.multinomial, "layer", "by the probabilities along the last axis")
row(
    """_random_pdf_normal _random_pdf_uniform _random_pdf_gamma _random_pdf_negative_binomial
    _random_pdf_generalized_negative_binomial""",
    Last((1, 0, 0)),
)
row("_random_pdf_exponential _random_pdf_poisson", Last((1, 0)))
row("_random_pdf_dirichlet", Last((2, 1), number=True))
CONSTANT = "constant"
"""The kind of operators whose result is the same for all samples."""
row(
    """_zeros _ones _full _arange _eye _linspace _npi_zeros _npi_ones _npi_arange _npi_eye _npi_identity
    _npi_indices _npi_logspace _npi_hanning _npi_hamming _npi_blackman""",
    By(picking.constant, CONSTANT, "the same for every sample, so computed once"),
)
row(
    "_contrib_arange_like shape_array size_array",
    By(picking.constant, CONSTANT, "the known shape's numbers", True, True),
)

KNOWN = frozenset([*ROWS_OF, *ALONE])
"""Operators of which the table says something."""


def call_of(op: TraceOp, vals: Sequence[Any], outputs: Sequence[Shaped]) -> tuple[Row | None, Application]:
    """The row of an operator of a trace, and its call on values."""
    name = canonical(op.name)
    call = Application(name, read(op.attrs), vals, outputs, Writer())
    _spell_out(call)
    return ROWS_OF.get(name), call


def _lies(op: TraceOp, vals: Sequence[Values], outs: Sequence[Shaped]) -> Vals:
    writer = Writer()
    for val in vals:
        mode = "rows" if val.packed else "shared"
        writer.value(mx.sym.var(f"x{val.slot}"), val.shape, val.dtype, mode, True)
    return batch_op(op.name, dict(op.attrs), vals, outs, writer)


OPERATORS = Operators(call_of, _lies)
work_of = partial(traced_work, call_of)
"""The work of one node of a trace, which runs as so many operators."""


def batch_op(
    name: str,
    attrs: Mapping[str, str],
    vals: Sequence[Values],
    outputs: Sequence[Shaped],
    writer: Writer,
) -> Vals:
    """Writes down operator `name` for all nodes at once. Raises NotBatchable.

    outputs: shapes and dtypes of one node's results.
    """
    try:
        name = canonical(name)
        why = ALONE.get(name)
        row = None if why else ROWS_OF[name]
    except (KeyError, ValueError):
        raise NotBatchable(f"no rule for operator {name}") from None
    if row is None:
        raise NotBatchable(f"{name}: {why}")
    for shape, _ in [*[(val.shape, "") for val in vals], *outputs]:
        if 0 in shape:
            raise NotBatchable(f"{name}: zero-size arrays")
    call = Application(name, attrs if writer.sized else read(attrs), *of_any_rows(vals, outputs), writer)
    if all(val.shared for val in vals):
        if not is_sized(tuple(val.shape for val in vals) + tuple(shape for shape, _ in outputs)):
            return _once(name, attrs, vals, outputs, writer)
        if not vals:
            return _as_long(call)
        call.vals = [writer.spread(val) if is_sized(val.shape) else val for val in vals]
    elif not writer.sized:
        writer.like = call.mine[0]
        if len({val.packed for val in call.mine}) > 1:
            raise call.refuse("rows of varying length together with values that are not")
    if writer.padded and draws(name, call.attrs):
        raise call.refuse("it draws at random beside padding")
    _spell_out(call)
    try:
        call.check(row)
        found = lifted(call, row)
    except (ValueError, TypeError, LookupError) as error:  # attributes that the operator itself may understand
        raise NotBatchable(f"{name}: {error}") from error
    _check(call, found)
    return [val._replace(shape=shape) for val, (shape, _) in zip(found, outputs)]


_BY_SIZE = {**dict.fromkeys(("_zeros", "_ones", "_full", "_npi_zeros", "_npi_ones"), "shape"), "_arange": "stop"}


def _as_long(call: Application) -> Vals:
    """Numbers made of a length, as many as of the longest: those of each node are the first of them."""
    if any(is_sized(value) and key != _BY_SIZE.get(call.name) for key, value in call.attrs.items()):
        raise call.refuse("of numbers that differ")
    return call.lying([call.writer.longest(call.name, call.attrs, [])], None, call.shape)


def _spell_out(call: Application) -> None:
    """Names the axes of which all others were named."""
    if not call.get("exclude"):
        return
    rank, axes = call.vals[0].rank, listed(call.get("axis"))
    excluded = {axis % rank for axis in axes}
    left = tuple(axis for axis in range(rank) if axis not in excluded)
    if not left:
        raise call.refuse("every axis is excluded")
    call.attrs = {**call.attrs, "exclude": False, "axis": left if axes else None}


def _check(call: Application, found: Sequence[Values]) -> None:
    """Checks what every row must satisfy, whatever the operator."""
    several = [val for val in found if not val.shared]
    any_rows = any(val.packed for val in call.vals) and not call.writer.sized
    if any_rows and not all(val.packed and val.shape[0] == ROWS for val in several):
        raise call.refuse("does not keep the number of rows, which varies")
    deepest = max(len(val.rest) for val in (*call.mine, *several))
    if deepest >= _MOST_AXES:
        raise call.refuse(f"{deepest} axes and one for the samples are too many for MXNet's kernels")


# Several kernels (slice, broadcast, reductions) take five axes at most, and only say so when they run.
_MOST_AXES = 5


def _once(
    name: str, attrs: Mapping[str, str], vals: Sequence[Values], outputs: Sequence[Shaped], writer: Writer
) -> Vals:
    """Operands equal for all nodes give results equal for all, unless something else has a say."""
    if draws(name, read(attrs)):
        raise NotBatchable(f"{name}: draws for each sample, but does not know how many there are")
    if name in STATEFUL:
        raise NotBatchable(f"{name}: has effects beyond its outputs")
    if any(not shape for shape, _ in outputs) or any(not val.shape for val in vals):
        raise NotBatchable(f"{name}: a value without axes, the same for all samples")
    return Application(name, attrs, vals, outputs, writer).once()
