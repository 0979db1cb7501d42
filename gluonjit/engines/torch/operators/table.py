"""Rows of ATen's operators: for each, what it does with its axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from math import inf, nan, prod
from typing import Any

import torch

from gluonjit.engines.torch.operators import layers, picking
from gluonjit.engines.torch.operators.binding import Writer, draws, operator_named
from gluonjit.engines.torch.operators.recurring import recurrent
from gluonjit.engines.torch.operators.vmapped import vmapped
from gluonjit.program.axes.along import Along, PerAxis, Reduce, Section, Turned
from gluonjit.program.axes.elementwise import Filled, Loss, Make, Map
from gluonjit.program.axes.products import Contract
from gluonjit.program.axes.row import Application, By, Row, lifted, of_any_rows, rows_by_name
from gluonjit.program.axes.samples import Last, Pick, Samples
from gluonjit.program.axes.shapes import Expand, Join, Keep, Permute, Reshape
from gluonjit.program.axes.values import (
    PREFIX,
    NotBatchable,
    Operand,
    Shaped,
    Vals,
    Values,
    is_sized,
    numbered,
    placed,
)
from gluonjit.program.children.reading import Operators
from gluonjit.program.trace import TraceOp
from gluonjit.program.work import traced_work

DETACH = "detach.default"
FILLED = {name for kind in ("zeros", "ones", "full") for name in (f"{kind}_like.default", f"new_{kind}.default")}
"""Operators whose results have the same numbers, whatever they are given of its shape."""
UNWRITTEN = {"empty_like.default", "new_empty.default"}
WITHOUT_HISTORY = {DETACH, "rand_like.default", "randn_like.default", *UNWRITTEN, *FILLED}
"""Operators whose results require no gradients, whatever they are given."""

ROWS_OF: dict[str, Row] = {}
"""The row of each operator that has one of its own."""


def row(names: str, each: Row) -> None:
    """Notes the row of some operators; names without an overload have the default one."""
    for name, found in rows_by_name(names, each).items():
        ROWS_OF[name if "." in name else f"{name}.default"] = found


def _swapped(call: Application, rank: int) -> list[int]:
    order = list(range(rank))
    first, second = call.attrs["dim0"], call.attrs["dim1"]
    order[first], order[second] = order[second], order[first]
    return order


_BY_CHANNELS = (torch.channels_last, torch.channels_last_3d)


def _in_rows(call: Application) -> dict[str, Any]:
    """Memory formats are those of a sample's own axes; in a batch these lie row by row in any case."""
    return {"memory_format": torch.contiguous_format} if call.get("memory_format") in _BY_CHANNELS else {}


def _scales(call: Application) -> tuple[Any, Any]:
    return call.get("alpha", 1), call.get("beta", 1)


def _by_value(call: Application) -> str | None:
    value, other = call.val("value"), call.val("self")
    if not value.shared and value.dtype != other.dtype and value.dtype.startswith("complex"):
        return f"a complex number into {other.dtype}, which PyTorch refuses by its value"
    return None


def _by_frequency(call: Application) -> str | None:
    counted = call.get("scale_grad_by_freq")
    return "gradients are divided by the frequency of a word in each call" if counted else None


def _keeps_statistics(call: Application) -> str | None:
    kept = call.get("running_mean") is not None or call.get("running_var") is not None
    return "it writes to running statistics" if kept and call.get("training") else None


def _masked(call: Application) -> Vals:
    """masked_fill by a tensor with one element, possibly one per sample."""
    if call.val("value").shared:
        return ROWS_OF["masked_fill.Scalar"].lift(call)
    return _where(call, call.attrs["mask"], call.attrs["value"])


def _where(call: Application, condition: Any, value: Any) -> Vals:
    """The tensor that is written to, with the value where the condition is true; both are operands of the call."""
    attrs = {"condition": condition, "self": value, "other": call.attrs["self"]}
    vals = [call.vals[place] for place in attrs.values()]
    places = dict(zip(attrs, map(Operand, range(len(vals)))))
    return ROWS_OF["where.self"].lift(call.on("where.self", places, vals, call.outs))


def _put(call: Application) -> Vals:
    """index_put: by truth values the new ones where these are true, if they are the same for each place."""
    (val, value), (index, *others) = (call.val("self"), call.val("values")), call.attrs["indices"]
    mask = None if others or index is None else call.vals[index]
    if mask is None or mask.dtype != "bool" or call.get("accumulate") or value.rank > val.rank - mask.rank:
        return picking.put(call)
    for axis in range(mask.rank, val.rank):
        attrs = {"self": Operand(0), "dim": axis}
        wider = call.on("unsqueeze.default", attrs, [mask], [((*mask.shape, 1), "bool")])
        (mask,) = ROWS_OF["unsqueeze.default"].lift(wider)
    call.vals[index] = mask
    return _where(call, index, call.attrs["values"])


class _Repeat(PerAxis):
    """Copies, as many as it says for each dimension, the last ones a sample's own."""

    kind = "shape"
    copies = ordered = True

    def lift(self, call: Application) -> Vals:
        """Writes down the call."""
        val = call.vals[0]
        call.vals = [val._replace(shape=(1,) * (len(call.attrs["repeats"]) - val.rank) + val.shape)]
        if call.writer.sized and is_sized(call.shape):
            if any(size != 1 != times for size, times in zip(call.vals[0].shape, call.attrs["repeats"])):
                raise call.mixed_rows
            return ROWS_OF["expand.default"].lift(call.on("expand.default", {"self": Operand(0)}, [val], call.outs))
        return super().lift(call)


def _softplus(call: Application, a: Any) -> Any:
    if (call.get("beta", 1), call.get("threshold", 20)) != (1, 20):
        raise call.refuse("with another beta or threshold")
    return a.do("SOFTRELU")


def _of_steps(call: Application) -> int:
    """Each step of a recurrent layer goes through all matrices."""
    weights = [prod(val.shape) for val in call.vals if val.rank == 2]
    return prod(call.vals[0].shape[:2]) * sum(weights)


_END = 1 << 62  # what comes after it is no end of a slice


def _begins(call: Application) -> tuple[Any, int]:
    """The beginning of a part of a dimension, None if it is its end, and one in how many it takes."""
    if call.name == "select.int":
        return call.attrs["index"], 1
    begin, step = call.get("start", 0), call.get("step", 1)
    end = call.get("end", _END) if call.name == "slice.Tensor" else 0
    if is_sized(begin) or begin < 0:
        if step != 1 or is_sized(end) or end < _END:
            raise call.refuse("of numbers that differ")
        return None, 1
    return begin, step


def _behind(call: Application) -> float:
    """The number that is sorted behind all others."""
    topk = call.name == "topk.default"
    if topk and call.writer.used[1:2] != (False,):
        raise call.refuse("which of equal entries is chosen depends on how many there are")
    return -inf if call.get("largest", True) and call.get("descending", topk) else nan


row("view _unsafe_view unsqueeze squeeze.dim squeeze.dims squeeze flatten.using_ints", Reshape())
row("_reshape_alias reshape alias unflatten.int", Reshape())
row("clone detach=STOP _to_copy contiguous", Keep(_in_rows))
row("t", Permute(lambda call, rank: range(rank)[::-1]))
row("transpose.int", Permute(_swapped))
row("permute", Permute(lambda call, rank: call.attrs["dims"]))
row("expand broadcast_to", Expand(lambda call: call.vals[0].shape == call.shape))
row("slice.Tensor select.int narrow", Section("dim", 0, begins=_begins))
row("split.Tensor split_with_sizes unsafe_split.Tensor", Section("dim", 0))
row("unsafe_split_with_sizes unbind.int chunk unsafe_chunk", Section("dim", 0))
row("cat", Join())
row("stack", Join(new=True))
row("repeat", _Repeat(rest={"repeats": 1}))
row("flip", Turned("dims", many=True))
row("tril triu", Last(2, fill=PREFIX))
row("diagonal", By(layers.of_diagonal, "shape", "of two dimensions of a sample's value", padded=True))

row("where.self", Map(casts=True, smooth=True))
row("masked_fill.Scalar", Map(smooth=True))
row("log_sigmoid_forward", Map(smooth=True, code=lambda call, a: -(-a).do("SOFTRELU")))
row("masked_fill.Tensor", By(_masked, "elementwise", Map.said, True, True, refuse=_by_value))
row("empty_like zeros_like=0 ones_like=1 full_like", Make())
row("rand_like randn_like bernoulli.p bernoulli", Make())
row("new_zeros new_ones new_full", Filled())

row("sum.dim_IntList=SUM linalg_vector_norm", Reduce(many=True, fill=0))
row("mean.dim=MEAN", Reduce(many=True, mean="sum.dim_IntList"))
row("var.correction std.correction var_mean.correction", layers.Moments(many=True))
row("norm.ScalarOpt_dim", Reduce(many=True))
row("amax", Reduce(many=True, fill=-inf, made="amax"))
row("logsumexp=LOGSUMEXP", Reduce(many=True, fill=-inf))
row("amin", Reduce(many=True, fill=inf, made="amin"))
row("max.dim argmax", Reduce(fill=-inf))
row("min.dim argmin", Reduce(fill=inf))
row("any.dim", Reduce(fill=0))
row("all.dim prod.dim_int", Reduce(fill=1))
row("median.dim", Reduce())
row("kthvalue", Reduce(default=-1, fill=nan))
row("mode", Reduce(default=-1))
row("sum=SUM", Reduce(many=True, whole="sum.dim_IntList", fill=0))
row("mean=MEAN", Reduce(many=True, whole="mean.dim", mean="sum.dim_IntList"))
row("max", Reduce(many=True, whole="amax.default", fill=-inf, made="amax"))
row("min", Reduce(many=True, whole="amin.default", fill=inf, made="amin"))
row("prod", Reduce(whole="prod.dim_int", fill=1))
row("any _is_any_true", Reduce(whole="any.dim", fill=0))
row("all _is_all_true", Reduce(whole="all.dim", fill=1))
row("_softmax=SOFTMAX", Along(fill=-inf, after=0))
row("_log_softmax=LOGSOFTMAX", Along(fill=-inf, after=0, refill=True))
row("cumsum cumprod cummax cummin logcumsumexp", Along(fill=PREFIX))
row("sort topk", Along(default=-1, fill=_behind, after=0, refill=True))
row("_fft_c2c _fft_r2c _fft_c2r", Along(many=True))

row("mm", Contract("ik,kj->ij"))
row("addmm", Contract("+ij,ik,kj->ij", _scales))
row("mv", Contract("ik,k->i"))
row("dot", Contract("k,k->"))
row("vdot", Contract("k,k->", real=True))
row("bmm", Contract("bik,bkj->bij", each=True))
row("baddbmm", Contract("+bij,bik,bkj->bij", _scales, each=True))
row("_trilinear", By(layers.trilinear, "product", "three tensors, multiplied and summed"))
row(
    "_scaled_dot_product_flash_attention_for_cpu",
    By(layers.attention, "product", "its own samples are those of all", padded=True),
)
row("linalg_inv_ex linalg_cholesky_ex _linalg_solve_ex _linalg_det _linalg_slogdet _linalg_eigh _linalg_svd", Last(2))
row("linalg_qr linalg_matrix_exp linalg_solve_triangular cholesky_solve _cdist_forward", Last(2))

row(
    "index_select",
    By(
        picking.picked,
        "picking",
        "by integers, for each sample among its own elements",
        True,
        code=Reduce(code="PICK"),
    ),
)
row("gather scatter.src scatter.value scatter_add scatter_reduce.two", picking.IndexedRows())
row("embedding", Pick(refuse=_by_frequency))
row(
    "_embedding_bag _embedding_bag_forward_only",
    By(picking.bagged, "picking", "bags of rows of a shared table", refuse=_by_frequency),
)
row("one_hot", By(picking.classified, "picking", "a row of classes for each number", True, True))
row("index.Tensor", By(picking.indexed, "picking", "by integers, for each sample among its own elements", True))
row("index_put", By(_put, "picking", "by integers, for each sample among its own elements, or by a mask", True, True))
row("index_add index_copy", By(picking.added, "picking", "slices of a dimension, for each sample into its own", True))

row(
    "native_layer_norm",
    Last(
        lambda call: len(call.attrs["normalized_shape"]),
        1,
        code=lambda call, a, *own: a.normalized(call.attrs["eps"], call.val("weight"), call.val("bias")),
    ),
)
row("constant_pad_nd", layers.Margins(lambda call: len(call.attrs["pad"]) // 2))
row("convolution", layers.Convolution(fill=0, work=lambda call: prod((*call.shape, *call.vals[1].shape[1:]))))
row("native_batch_norm", By(layers.normalized, "layer", Samples.said, True, True, refuse=_keeps_statistics))
row(
    "lstm.input gru.input rnn_tanh.input rnn_relu.input",
    By(recurrent, "layer", "sequences side by side", True, True, work=_of_steps),
)
for _rank, _names in {
    3: "col2im upsample_nearest1d upsample_linear1d",
    4: "im2col upsample_nearest2d upsample_bilinear2d upsample_bicubic2d",
    5: "upsample_nearest3d upsample_trilinear3d",
}.items():
    row(_names, Samples(_rank))
_LARGEST, _MEAN = (ROWS_OF["amax.default"], "amax.default"), (ROWS_OF["mean.dim"], "mean.dim")
row("avg_pool1d", layers.Pooling(3, whole=_MEAN, fill=0))
for _rank in (4, 5):
    _names = f"avg_pool{_rank - 2}d _adaptive_avg_pool{_rank - 2}d"
    row(_names, layers.Pooling(_rank, whole=_MEAN, fill=0))
    _names = f"max_pool{_rank - 2}d_with_indices adaptive_max_pool{_rank - 2}d"
    row(_names, layers.Pooling(_rank, whole=_LARGEST, fill=-inf, after=0, refill=True))

_TOTALS = {
    picking.MEAN: (ROWS_OF["mean.default"], "mean.default", {"self": Operand(0)}),
    picking.SUM: (ROWS_OF["sum.default"], "sum.default", {"self": Operand(0)}),
}
for _names, _entries in {
    "binary_cross_entropy soft_margin_loss": None,
    "mse_loss": lambda call, a, b: (a - b).do("SQUARE"),
    "smooth_l1_loss huber_loss": picking.smoothed,
    "binary_cross_entropy_with_logits": lambda call, a, b: (1.0 - b) * a + (-a).do("SOFTRELU"),
}.items():
    row(_names, Loss(totals=_TOTALS, none=picking.NONE, default=picking.MEAN, code=_entries))
_CLASS = "the score of each row's class, summed or averaged"
row("nll_loss_forward", By(picking.nll, "loss", _CLASS, True, code=picking.nll_of_row, pools=picking.pooled))

_FINITE = frozenset(
    """add sub rsub mul neg relu tanh sigmoid exp gelu silu leaky_relu elu hardtanh clamp clamp_min clamp_max abs
    maximum minimum eq ne lt le gt ge logical_not logical_and logical_or bitwise_not bitwise_and bitwise_or where
    masked_fill sin cos erf softplus log_sigmoid_forward sign round floor ceil square isnan isinf""".split()
)
"""Operators that are finite at any number, and so are their derivatives."""
_CASTS = frozenset("add sub mul div pow maximum minimum addcmul addcdiv lerp rsub".split())


def _elementwise(name: str, code: Any = None) -> Map:
    base = name.partition(".")[0]
    return Map(casts=base in _CASTS, smooth=base in _FINITE, code=code)


for _names, _code in {
    "rsqrt": lambda call, a: a.do("SQRT").do("RECIPROCAL"),
    "silu": lambda call, a: a * a.do("SIGMOID"),
    "softplus": _softplus,
    "leaky_relu": lambda call, a: a.leaky(call.get("negative_slope", 0.01)),
    "pow.Tensor_Scalar": lambda call, a: a.do({2: "SQUARE"}[call.attrs["exponent"]]),
    "clamp clamp_min clamp_max": lambda call, a: a.limited(call.get("min"), call.get("max")),
    **{
        name: name.partition(".")[0].upper()
        for name in "sigmoid tanh relu exp log sqrt abs neg reciprocal xlogy.Tensor add.Tensor add.Scalar sub.Tensor "
        "sub.Scalar mul.Tensor mul.Scalar div.Tensor div.Scalar rsub.Scalar".split()
    },
}.items():
    for _name in _names.split():
        row(_name, _elementwise(_name, _code))


def row_of(name: str) -> Row | None:
    """The row of an operator, if there is one: by its name, or because it works elementwise."""
    return ROWS_OF.get(name) or _by_tag(name)


@cache
def _by_tag(name: str) -> Row | None:
    return _elementwise(name) if torch.Tag.pointwise in operator_named(name).tags else None


def call_of(op: TraceOp, vals: Sequence[Any], outputs: Sequence[Shaped]) -> tuple[Row | None, Application]:
    """The row of an operator of a trace, and its call on values."""
    return row_of(op.name), Application(op.name, dict(op.attrs), vals, outputs, Writer(0))


def _lies(op: TraceOp, vals: Sequence[Values], outs: Sequence[Shaped]) -> Vals:
    args = {name: placed(value, vals) for name, value in op.attrs}
    return batch_op(op.name, args, outs, Writer(len(vals)))


OPERATORS = Operators(call_of, _lies)
work_of = partial(traced_work, call_of)
"""The work of one node of a trace, which runs as so many operators."""


def batch_op(name: str, args: Mapping[str, Any], outputs: Sequence[Shaped], writer: Writer) -> Vals:
    """Writes down one operator for all nodes; tensors among `args` are Values. Raises NotBatchable.

    outputs: shapes and dtypes of one node's results.
    """
    vals: Vals = []
    attrs = {key: numbered(value, Values, vals) for key, value in args.items()}
    if writer.sized and vals and all(val.shared for val in vals) and is_sized((*vals[0].shape, *outputs[0][0])):
        vals = [writer.spread(val) if is_sized(val.shape) else val for val in vals]
    elif all(val.shared for val in vals):
        if draws(operator_named(name), args):
            raise NotBatchable(f"{name}: it draws at random from values that are the same for all samples")
        return Application(name, attrs, vals, outputs, writer).once()
    call = Application(name, attrs, *of_any_rows(vals, outputs), writer)
    row = row_of(name)
    call.check(row)
    length = len(writer.code)
    if writer.padded and not isinstance(row, By) and draws(operator_named(name), args):
        raise call.refuse("it draws at random beside padding")
    try:
        found = lifted(call, row)
    except NotBatchable:
        if writer.sized:
            raise
        writer.undo(length)
        if draws(operator_named(name), args):
            raise
        otherwise = vmapped(Application(name, attrs, vals, outputs, writer))
        if otherwise is None:
            raise
        found = otherwise
    return [val._replace(shape=shape) for val, (shape, _) in zip(found, outputs)]
