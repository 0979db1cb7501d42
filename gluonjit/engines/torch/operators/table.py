"""Rows of ATen's operators: for each, what it does with its axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import torch

from gluonjit.engines.torch.operators import layers, linear, losses, picking
from gluonjit.engines.torch.operators.binding import draws, operator_named
from gluonjit.engines.torch.operators.recurrent import recurrent
from gluonjit.engines.torch.operators.vmapped import vmapped
from gluonjit.program.axes.along import Along, Indexed, PerAxis, Reduce, Section
from gluonjit.program.axes.elementwise import Filled, Loss, Make, Map
from gluonjit.program.axes.products import Contract
from gluonjit.program.axes.row import Application, By, Row, lifted, of_any_rows
from gluonjit.program.axes.samples import Last, Pick, Samples
from gluonjit.program.axes.shapes import Expand, Join, Keep, Permute, Reshape
from gluonjit.program.axes.values import Shaped, Values
from gluonjit.program.axes.writer import Writer
from gluonjit.program.trace import NotBatchable, Operand, TraceOp

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
    ROWS_OF.update({name if "." in name else f"{name}.default": each for name in names.split()})


def _last_two(call: Application, rank: int) -> list[int]:
    return list(range(rank))[::-1]


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


def _masked(call: Application) -> list[Values]:
    """masked_fill by a tensor with one element, possibly one per sample."""
    if call.val("value").shared:
        return ROWS_OF["masked_fill.Scalar"].lift(call)
    attrs = {"condition": call.attrs["mask"], "self": call.attrs["value"], "other": call.attrs["self"]}
    return _renumbered(ROWS_OF["where.self"], call, "where.self", attrs)


def _renumbered(each: Row, call: Application, name: str, attrs: Mapping[str, Any]) -> list[Values]:
    """The results of another operator on the operands that its arguments name."""
    vals = [call.vals[place] for place in attrs.values()]
    numbered = dict(zip(attrs, map(Operand, range(len(vals)))))
    return each.lift(call.on(name, numbered, vals, call.outs))


def _normalized_axes(call: Application) -> int:
    return len(call.attrs["normalized_shape"])


_REPEATED = PerAxis({"repeats": 1})


def _repeated(call: Application) -> list[Values]:
    """repeat: as often as it says for each dimension, the last ones a sample's own."""
    val = call.vals[0]
    call.vals = [val._replace(shape=(1,) * (len(call.attrs["repeats"]) - val.rank) + val.shape)]
    return _REPEATED.lift(call)


def _normalized(call: Application, a: Any, *others: Any) -> Any:
    return a.normalized(call.attrs["eps"], call.val("weight"), call.val("bias"))


def _softplus(call: Application, a: Any) -> Any:
    if (call.get("beta", 1), call.get("threshold", 20)) != (1, 20):
        raise call.refuse("with another beta or threshold")
    return a.do("SOFTRELU")


def _padded_axes(call: Application) -> int:
    return len(call.attrs["pad"]) // 2


row("view _unsafe_view unsqueeze squeeze.dim squeeze.dims squeeze flatten.using_ints", Reshape())
row("_reshape_alias reshape alias unflatten.int", Reshape())
row("clone _to_copy contiguous", Keep(_in_rows))
row(DETACH, Keep(_in_rows, code="STOP"))
row("t", Permute(_last_two))
row("transpose.int", Permute(_swapped))
row("permute", Permute(lambda call, rank: call.attrs["dims"]))
row("expand broadcast_to", Expand(lambda call: call.vals[0].shape == call.shape))
row("slice.Tensor select.int narrow split.Tensor split_with_sizes unsafe_split.Tensor", Section("dim", 0))
row("unsafe_split_with_sizes unbind.int chunk unsafe_chunk", Section("dim", 0))
row("cat", Join())
row("stack", Join(new=True))
row("repeat", By(_repeated, "shape", PerAxis.said))
row("flip", Along("dims", many=True))
row("tril triu", Last(2))
row("diagonal", By(linear.of_diagonal, "shape", "of two dimensions of a sample's value"))

row("where.self", Map(casts=True))
row("masked_fill.Scalar", Map())
row("log_sigmoid_forward", Map(code=lambda call, a: -(-a).do("SOFTRELU")))
row("masked_fill.Tensor", By(_masked, "elementwise", Map.said, True, refuse=_by_value))
row("empty_like full_like", Make())
row("zeros_like", Make(code=0.0))
row("ones_like", Make(code=1.0))
row("rand_like randn_like bernoulli.p bernoulli", Make())
row("new_zeros new_ones new_full", Filled())

row("amax amin var.correction std.correction var_mean.correction", Reduce(many=True))
row("linalg_vector_norm norm.ScalarOpt_dim", Reduce(many=True))
row("sum.dim_IntList", Reduce(many=True, code="SUM"))
row("mean.dim", Reduce(many=True, code="MEAN"))
row("logsumexp", Reduce(many=True, code="LOGSUMEXP"))
row("max.dim min.dim any.dim all.dim prod.dim_int argmax argmin median.dim", Reduce())
row("kthvalue mode", Reduce(default=-1))
row("sum", Reduce(many=True, whole="sum.dim_IntList", code="SUM"))
row("mean", Reduce(many=True, whole="mean.dim", code="MEAN"))
row("max", Reduce(many=True, whole="amax.default"))
row("min", Reduce(many=True, whole="amin.default"))
row("prod", Reduce(whole="prod.dim_int"))
row("any _is_any_true", Reduce(whole="any.dim"))
row("all _is_all_true", Reduce(whole="all.dim"))
row("_softmax", Along(code="SOFTMAX"))
row("_log_softmax", Along(code="LOGSOFTMAX"))
row("cumsum cumprod cummax cummin logcumsumexp", Along())
row("sort topk", Along(default=-1))
row("_fft_c2c _fft_r2c _fft_c2r", Along(many=True))

row("mm", Contract("ik,kj->ij"))
row("addmm", Contract("+ij,ik,kj->ij", _scales))
row("mv", Contract("ik,k->i"))
row("dot", Contract("k,k->"))
row("vdot", Contract("k,k->", real=True))
row("bmm", Contract("bik,bkj->bij", each=True))
row("baddbmm", Contract("+bij,bik,bkj->bij", _scales, each=True))
row("_trilinear", By(linear.trilinear, "product", "three tensors, multiplied and summed"))
row(
    "_scaled_dot_product_flash_attention_for_cpu",
    By(linear.attention, "product", "its own samples are those of all"),
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
        code=lambda call, a, index: a.pick(index),
    ),
)
row("gather scatter.src scatter.value scatter_add scatter_reduce.two", Indexed())
row("embedding", Pick(refuse=_by_frequency))
row(
    "_embedding_bag _embedding_bag_forward_only",
    By(picking.bagged, "picking", "bags of rows of a shared table", refuse=_by_frequency),
)
row("one_hot", By(picking.classified, "picking", "a row of classes for each number", True))
row("index.Tensor", By(picking.indexed, "picking", "by integers, for each sample among its own elements", True))
row("index_put", By(picking.put, "picking", "by integers, for each sample among its own elements"))
row("index_add index_copy", By(picking.added, "picking", "slices along a dimension, for each sample into its own"))

row("native_layer_norm", Last(_normalized_axes, 1, code=_normalized))
row("constant_pad_nd", Last(_padded_axes))
row("convolution", layers.Convolution())
row("native_batch_norm", By(layers.normalized, "layer", Samples.said, True, refuse=_keeps_statistics))
row(
    "lstm.input gru.input rnn_tanh.input rnn_relu.input",
    By(recurrent, "layer", "sequences side by side"),
)
for _rank, _names in {
    3: "avg_pool1d col2im upsample_nearest1d upsample_linear1d",
    4: "max_pool2d_with_indices avg_pool2d _adaptive_avg_pool2d adaptive_max_pool2d im2col upsample_nearest2d "
    "upsample_bilinear2d upsample_bicubic2d",
    5: "max_pool3d_with_indices avg_pool3d _adaptive_avg_pool3d adaptive_max_pool3d upsample_nearest3d "
    "upsample_trilinear3d",
}.items():
    row(_names, Samples(_rank))

_TOTALS = {
    losses.MEAN: (ROWS_OF["mean.default"], "mean.default", {"self": Operand(0)}),
    losses.SUM: (ROWS_OF["sum.default"], "sum.default", {"self": Operand(0)}),
}
for _names, _code in {
    "binary_cross_entropy soft_margin_loss": None,
    "mse_loss": lambda call, a, b: (a - b).do("SQUARE"),
    "smooth_l1_loss": losses.linear_from("beta", True),
    "huber_loss": losses.linear_from("delta", False),
    "binary_cross_entropy_with_logits": lambda call, a, b: (1.0 - b) * a + (-a).do("SOFTRELU"),
}.items():
    row(_names, Loss(_TOTALS, losses.NONE, losses.MEAN, code=_code))
row(
    "nll_loss_forward",
    By(losses.nll, "loss", "the score of each row's class, summed or averaged for each sample", code=losses.nll_of_row),
)

for _name in "sigmoid tanh relu exp log sqrt abs neg reciprocal xlogy.Tensor".split():
    row(_name, Map(code=_name.partition(".")[0].upper()))
for _name in "add sub mul div".split():
    row(f"{_name}.Tensor {_name}.Scalar", Map(casts=True, code=_name.upper()))
row("rsub.Scalar", Map(casts=True, code="RSUB"))
row("rsqrt", Map(code=lambda call, a: a.do("SQRT").do("RECIPROCAL")))
row("silu", Map(code=lambda call, a: a * a.do("SIGMOID")))
row("softplus", Map(code=_softplus))
row("leaky_relu", Map(code=lambda call, a: a.leaky(call.get("negative_slope", 0.01))))
row("pow.Tensor_Scalar", Map(casts=True, code=lambda call, a: a.do({2: "SQUARE"}[call.attrs["exponent"]])))
row("clamp clamp_min clamp_max", Map(code=lambda call, a: a.limited(call.get("min"), call.get("max"))))
_ELEMENTWISE = Map()
_OF_SEVERAL_DTYPES = Map(casts=True)
_CASTS = frozenset("add sub mul div pow maximum minimum addcmul addcdiv lerp rsub".split())


def row_of(name: str) -> Row | None:
    """The row of an operator, if there is one: by its name, or because it works elementwise."""
    return ROWS_OF.get(name) or _by_tag(name)


@cache
def _by_tag(name: str) -> Row | None:
    if torch.Tag.pointwise not in operator_named(name).tags:
        return None
    return _OF_SEVERAL_DTYPES if name.partition(".")[0] in _CASTS else _ELEMENTWISE


def call_of(op: TraceOp, vals: Sequence[Any], outputs: Sequence[Shaped]) -> tuple[Row | None, Application]:
    """The row of an operator of a trace, and its call on values."""
    return row_of(op.name), Application(op.name, dict(op.attrs), vals, outputs, Writer(0))


def batch_op(name: str, args: Mapping[str, Any], outputs: Sequence[Shaped], writer: Writer) -> list[Values]:
    """Writes down one operator for all nodes; tensors among `args` are Values. Raises NotBatchable.

    outputs: shapes and dtypes of one node's results.
    """
    vals: list[Values] = []
    attrs = {key: _numbered(value, vals) for key, value in args.items()}
    if all([val.shared for val in vals]):
        if draws(operator_named(name), args):
            raise NotBatchable(f"{name}: it draws at random from values that are the same for all samples")
        slots = writer.call(name, attrs, vals, len(outputs))
        return [Values(slot, shape, dtype, None, shape) for slot, (shape, dtype) in zip(slots, outputs)]
    call = Application(name, attrs, *of_any_rows(vals, outputs), writer)
    row = row_of(name)
    why = row.refuse(call) if row is not None and row.refuse is not None else None
    if why:
        raise call.refuse(why)
    length = len(writer.code)
    try:
        found = lifted(call, row)
    except NotBatchable as refused:
        writer.undo(length)
        if draws(operator_named(name), args):
            raise
        found = vmapped(Application(name, attrs, vals, outputs, writer), refused)
    return [val._replace(shape=shape) for val, (shape, _) in zip(found, outputs)]


def _numbered(value: Any, vals: list[Values]) -> Any:
    """An argument with operands in the place of values, which are added to `vals`."""
    if isinstance(value, Values):
        vals.append(value)
        return Operand(len(vals) - 1)
    if value.__class__ is tuple:
        return tuple([_numbered(item, vals) for item in value])
    return value
