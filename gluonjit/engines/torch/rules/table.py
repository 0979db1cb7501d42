"""The rules, one for each ATen operator, and the handling of operators without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch

from gluonjit.engines.torch.rules import layers, linear, losses, picking, pointwise, recurrent, reductions, shapes
from gluonjit.engines.torch.rules.values import FAST, NotBatchable, OperatorCall, Shaped, Val, Writer, call_operator

Rule = Callable[[OperatorCall], list[Val]]
RANDOM = torch.Tag.nondeterministic_seeded
DETACH = "detach.default"
FILLED = {name for kind in ("zeros", "ones", "full") for name in (f"{kind}_like.default", f"new_{kind}.default")}
"""Operators whose results have the same numbers, whatever they are given of its shape."""
UNWRITTEN = {"empty_like.default", "new_empty.default"}
WITHOUT_HISTORY = {DETACH, "rand_like.default", "randn_like.default", *UNWRITTEN, *FILLED}
"""Operators whose results require no gradients, whatever they are given."""

_ROWS: list[tuple[Rule, str]] = [
    (shapes.viewed, "view.default _unsafe_view.default unsqueeze.default squeeze.dim squeeze.dims squeeze.default"),
    (shapes.viewed, "flatten.using_ints _reshape_alias.default reshape.default alias.default unflatten.int"),
    (shapes.moved, "clone.default detach.default _to_copy.default contiguous.default"),
    (shapes.permuted, "t.default transpose.int permute.default"),
    (shapes.expanded, "expand.default broadcast_to.default"),
    (shapes.cut, "slice.Tensor select.int narrow.default"),
    (shapes.cut_list, "split.Tensor split_with_sizes.default unsafe_split.Tensor unsafe_split_with_sizes.default"),
    (shapes.cut_list, "unbind.int chunk.default unsafe_chunk.default"),
    (shapes.concatenated, "cat.default"),
    (shapes.stacked, "stack.default"),
    (shapes.repeated, "repeat.default"),
    (shapes.flipped, "flip.default"),
    (picking.picked, "index_select.default"),
    (picking.gathered, "gather.default"),
    (picking.embedded, "embedding.default"),
    (picking.bagged, "_embedding_bag.default _embedding_bag_forward_only.default"),
    (picking.classified, "one_hot.default"),
    (picking.indexed, "index.Tensor"),
    (picking.put, "index_put.default"),
    (picking.added, "index_add.default index_copy.default"),
    (picking.scattered, "scatter.src scatter.value scatter_add.default scatter_reduce.two"),
    (shapes.paired, "view_as_complex.default view_as_real.default"),
    (shapes.diagonal, "tril.default triu.default"),
    (shapes.of_diagonal, "diagonal.default"),
    (linear.mm, "mm.default"),
    (linear.addmm, "addmm.default"),
    (linear.mv, "mv.default"),
    (linear.dot, "dot.default vdot.default"),
    (linear.bmm, "bmm.default"),
    (linear.baddbmm, "baddbmm.default"),
    (linear.trilinear, "_trilinear.default"),
    (linear.distances, "_cdist_forward.default"),
    (linear.of_matrices, "linalg_inv_ex.default linalg_cholesky_ex.default _linalg_solve_ex.default"),
    (linear.of_matrices, "_linalg_det.default _linalg_slogdet.default _linalg_eigh.default _linalg_svd.default"),
    (linear.of_matrices, "linalg_qr.default linalg_matrix_exp.default linalg_solve_triangular.default"),
    (linear.of_matrices, "cholesky_solve.default"),
    (linear.attention, "_scaled_dot_product_flash_attention_for_cpu.default"),
    (reductions.reduced, "sum.dim_IntList sum.default mean.dim mean.default amax.default amin.default max.dim min.dim"),
    (reductions.reduced, "max.default min.default any.dim any.default all.dim all.default prod.dim_int prod.default"),
    (reductions.reduced, "_is_any_true.default _is_all_true.default"),
    (reductions.reduced, "argmax.default argmin.default logsumexp.default var.correction std.correction"),
    (reductions.reduced, "linalg_vector_norm.default norm.ScalarOpt_dim var_mean.correction"),
    (reductions.reduced, "median.dim kthvalue.default mode.default"),
    (reductions.kept, "_softmax.default _log_softmax.default cumsum.default cumprod.default sort.default topk.default"),
    (reductions.kept, "cummax.default cummin.default logcumsumexp.default"),
    (reductions.transformed, "_fft_c2c.default _fft_r2c.default _fft_c2r.default"),
    (losses.elementwise, "mse_loss.default smooth_l1_loss.default huber_loss.default binary_cross_entropy.default"),
    (losses.elementwise, "binary_cross_entropy_with_logits.default soft_margin_loss.default"),
    (losses.nll, "nll_loss_forward.default"),
    (layers.layer_norm, "native_layer_norm.default"),
    (layers.over_samples, "convolution.default native_batch_norm.default max_pool2d_with_indices.default"),
    (
        layers.over_samples,
        "avg_pool2d.default _adaptive_avg_pool2d.default avg_pool1d.default upsample_nearest2d.default",
    ),
    (layers.over_samples, "max_pool3d_with_indices.default avg_pool3d.default _adaptive_avg_pool3d.default"),
    (layers.over_samples, "adaptive_max_pool2d.default adaptive_max_pool3d.default im2col.default col2im.default"),
    (layers.over_samples, "upsample_nearest1d.default upsample_linear1d.default upsample_bilinear2d.default"),
    (layers.over_samples, "upsample_bicubic2d.default upsample_nearest3d.default upsample_trilinear3d.default"),
    (recurrent.recurrent, "lstm.input gru.input rnn_tanh.input rnn_relu.input"),
    (layers.padded, "constant_pad_nd.default"),
    (pointwise.filled, "empty_like.default zeros_like.default ones_like.default full_like.default rand_like.default"),
    (pointwise.filled, "randn_like.default bernoulli.p bernoulli.default"),
    (pointwise.made_like, "new_zeros.default new_ones.default new_full.default"),
    (pointwise.pointwise, "where.self masked_fill.Scalar log_sigmoid_forward.default"),
    (pointwise.masked, "masked_fill.Tensor"),
]
RULES: dict[str, Rule] = {name: rule for rule, names in _ROWS for name in names.split()}

for _name in "add sub mul div sigmoid tanh relu exp abs clone detach t".split():
    _operator = getattr(torch.ops.aten, _name)
    FAST[_operator.Tensor if _name in ("add", "sub", "mul", "div") else _operator.default] = getattr(torch, _name)

_operators: dict[str, Any] = {}


def operator_named(name: str) -> Any:
    """The operator of ATen of a name with its overload."""
    found = _operators.get(name)
    if found is None:
        space, _, rest = ("aten." + name if not name.startswith("prim") else name).partition(".")
        base, _, overload = rest.partition(".")
        found = _operators[name] = getattr(getattr(getattr(torch.ops, space), base), overload)
    return found


@cache
def may_draw(name: str) -> bool:
    """Tells whether an operator may draw at random."""
    return RANDOM in operator_named(name).tags


def draws(func: Any, args: Mapping[str, Any]) -> bool:
    """Tells whether a call of an operator draws at random: not a recurrent layer that drops nothing."""
    return RANDOM in func.tags and bool(args.get("dropout", True))


@cache
def _is_pointwise(name: str) -> bool:
    return torch.Tag.pointwise in operator_named(name).tags


def rule_of(name: str) -> Rule | None:
    """The rule of an operator, if there is one: by its name, or because it works elementwise."""
    rule = RULES.get(name)
    return pointwise.pointwise if rule is None and _is_pointwise(name) else rule


def batch_op(name: str, args: Mapping[str, Any], outputs: Sequence[Shaped], writer: Writer) -> list[Val]:
    """Writes down one operator for all nodes; tensors among `args` are Val. Raises NotBatchable.

    outputs: shapes and dtypes of one node's results.
    """
    func = operator_named(name)
    call = OperatorCall(name, func, args, outputs, writer)
    vals = call.vals()
    if all(val.shared for val in vals):
        if draws(func, args):
            raise NotBatchable(f"{name}: it draws at random from values that are the same for all samples")
        slots = call_operator(writer, func, args, len(outputs))
        listed = (slots,) if len(outputs) == 1 else slots
        return [Val(slot, shape, dtype, None, shape) for slot, (shape, dtype) in zip(listed, outputs)]
    rule = rule_of(name)
    if rule is None:
        raise NotBatchable(f"{name}: it has no rule")
    return rule(call)
