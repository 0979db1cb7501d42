"""A recorder's knowledge of ATen operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch

from gluonjit.engines.torch.framework.originals import above, run_backward
from gluonjit.engines.torch.operators.binding import RANDOM
from gluonjit.engines.torch.operators.table import row_of
from gluonjit.hybrid.capture.structure import items_of, map_structure
from gluonjit.program.trace import NeedsValue

_ATEN = torch.ops.aten
_NORMS = {"native_batch_norm.default", "cudnn_batch_norm.default", "miopen_batch_norm.default"}
_FUNCTIONAL = {"bernoulli_.float": "bernoulli.p", "normal_.default": "normal_functional.default"}


def _like(target: Any, value: Any) -> Any:
    return value.to(target.dtype).expand(target.shape)


def _full(target: Any, value: Any) -> Any:
    return torch.full(target.shape, value, dtype=target.dtype, device=target.device)


ASSIGNING: dict[Any, Any] = {
    _ATEN.copy_.default: _like,
    _ATEN.fill_.Tensor: _like,
    _ATEN.fill_.Scalar: _full,
    _ATEN.zero_.default: lambda target: torch.zeros(target.shape, dtype=target.dtype, device=target.device),
}
"""By the operator that writes over all of its first argument: what gives the new numbers, of that and the second."""


def _lstm_cell(inputs: Any, states: Any, memory: Any, *biases: Any) -> tuple[Any, Any, Any]:
    gates = sum([bias for bias in biases if bias is not None], inputs + states)
    i, f, g, o = gates.chunk(4, 1)
    memory = f.sigmoid() * memory + i.sigmoid() * g.tanh()
    return o.sigmoid() * memory.tanh(), memory, gates


def _gru_cell(inputs: Any, states: Any, before: Any, *biases: Any) -> tuple[Any, Any]:
    first, last = [each if bias is None else each + bias for each, bias in zip((inputs, states), (*biases, None, None))]
    (i_r, i_z, i_n), (h_r, h_z, h_n) = first.chunk(3, 1), last.chunk(3, 1)
    new = (i_n + (i_r + h_r).sigmoid() * h_n).tanh()
    return new + (i_z + h_z).sigmoid() * (before - new), last


def _group_norm(
    given: Any, weight: Any, bias: Any, samples: int, channels: int, size: int, groups: int, eps: float
) -> tuple[Any, Any, Any]:
    if samples == 1 and given.dim() > 2:  # whose points may be of any number
        each = (channels // groups,) if channels > groups else ()  # an axis of 1 may look like one of channels, last
        rows = given.reshape(1, groups, *each, *given.shape[2:])
        normal, _, _ = torch.native_batch_norm(rows, None, None, None, None, True, 0.0, eps)
    else:
        rows = given.reshape(samples * groups, channels // groups * size)
        normal, _, _ = torch.native_layer_norm(rows, [channels // groups * size], None, None, eps)
    variance, mean = torch.var_mean(given.reshape(samples * groups, -1), 1, correction=0)
    found = normal.reshape(given.shape)
    across = (channels, *(1,) * (given.dim() - 2))
    if weight is not None:
        found = found * weight.reshape(across)
    statistics = mean.reshape(samples, groups), (variance + eps).rsqrt().reshape(samples, groups)
    return (found if bias is None else found + bias.reshape(across), *statistics)


def _unfold(given: Any, dimension: int, size: int, step: int) -> Any:
    dim, length = dimension % given.dim(), given.shape[dimension]
    if not 0 < size <= length or step <= 0:
        return NotImplemented
    last = length - size
    if size * step <= length:  # fewer slices than windows
        return torch.stack([given[(slice(None),) * dim + (slice(k, k + last + 1, step),)] for k in range(size)], -1)
    return torch.stack([given.narrow(dim, k, size).movedim(dim, -1) for k in range(0, last + 1, step)], dim)


def _safe_softmax(given: Any, dim: int, dtype: Any = None) -> Any:
    nothing = (given == -float("inf")).all(dim, keepdim=True)  # whose softmax, and gradient, would be NaN
    return torch.softmax(given.masked_fill(nothing, 0.0), dim, dtype=dtype).masked_fill(nothing, 0.0)


_SAME: dict[Any, Any] = {
    _ATEN.unfold.default: _unfold,
    _ATEN._thnn_fused_lstm_cell.default: _lstm_cell,
    _ATEN._thnn_fused_gru_cell.default: _gru_cell,
    _ATEN.native_group_norm.default: _group_norm,
    _ATEN._safe_softmax.default: _safe_softmax,
}
"""Functions that do the same as an operator by others, where PyTorch has none, or one that looks at memory.

The first two are steps of recurrent layers as accelerators have them. Last results are for a backward pass of the
operator's own, which nothing asks for.
"""

_HIDDEN_VIEWS = {_ATEN._unsafe_view.default}
"""Operators that give a view, of which their schema says nothing: `kron(out=)` writes through one."""

COPIED = {_ATEN.unfold.default}
"""Operators that give a view, by functions that give a copy."""

_APART = {
    _ATEN.multilabel_margin_loss_forward.default,  # which count what comes after the first -1
    _ATEN.index_fill.int_Tensor,  # whose value gets the gradients of all that is not filled
    _ATEN.fill.Tensor,  # into a copy, which has no derivative
    _ATEN._native_batch_norm_legit.default,  # which go backward through the statistics, too
    _ATEN._native_batch_norm_legit.no_stats,
}
"""Operators that PyTorch takes apart into others that differ."""


WITHOUT_DERIVATIVE = {_ATEN._scaled_dot_product_flash_attention_for_cpu.default: "attn_mask"}
"""Operators that have no derivative by an argument, by which others have one that they are taken apart into."""


NOT_LEARNED = {
    _ATEN.nll_loss_forward.default: ("weight",),
    _ATEN.nll_loss2d_forward.default: ("weight",),
    _ATEN.multi_margin_loss.default: ("weight",),
    _ATEN.binary_cross_entropy.default: ("weight",),
    _ATEN.binary_cross_entropy_with_logits.default: ("weight", "pos_weight"),
    _ATEN.soft_margin_loss.default: ("target",),
}
"""Arguments that must require no gradient, says PyTorch."""
_REACHED: dict[tuple[Any, ...], set[int] | None] = {}


def _copied(item: Any) -> Any:
    return item.clone() if isinstance(item, torch.Tensor) else item


def reached_from(func: Any, named: dict[str, Any], name: str) -> set[int] | None:
    """The results of an operator, by number, from which gradients come to an argument, be they zeros.

    None if PyTorch refuses to go backward to it; tensors are any of its shapes.
    """
    key = func, name, *named
    if key not in _REACHED:
        try:
            _REACHED[key] = _reached_from(func, named, name)
        except (RuntimeError, TypeError, ValueError) as error:  # most say that there are no such sizes, or kernels
            refused = "derivative" in str(error) and "not implemented" in str(error)
            _REACHED[key] = None if refused else set()
    return _REACHED[key]


def _reached_from(func: Any, named: dict[str, Any], name: str) -> set[int]:
    found = set()
    with above(), torch.inference_mode(False), torch.enable_grad():
        leaf = map_structure(named[name], _learning)
        others = map_structure(named, _copied)  # traces know numbers by these tensors, and it may write to them
        result = func(**{**others, name: map_structure(leaf, _copied)})
        leaves = tuple(item for item in items_of(leaf, torch.Tensor) if item.requires_grad)
        for number, item in enumerate(result if isinstance(result, (list, tuple)) else [result]):
            if leaves and isinstance(item, torch.Tensor) and item.requires_grad:
                gradients = run_backward((item,), (torch.ones_like(item),), True, False, leaves, True, False)
                if any(gradient is not None for gradient in gradients):
                    found.add(number)
    return found


def with_history(func: Any, named: dict[str, Any]) -> set[int]:
    """The results of an operator, by number, through which gradients go."""
    return set().union(*[reached_from(func, named, name) or () for name in named])


def _learning(item: Any) -> Any:
    if not isinstance(item, torch.Tensor):
        return item
    return item.clone().requires_grad_(item.is_floating_point() or item.is_complex())


@cache
def name_of(func: Any) -> str:
    """The name by which rules know an operator."""
    name: str = str(func)
    return name.removeprefix("aten.")


_BY_NUMBERS = {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output}


class AtenOperator(NamedTuple):
    """The facts about an operator, which PyTorch makes anew whenever it is asked for them.

    arguments: their names; known: whether it is PyTorch's own; random: whether it may draw; by_numbers: whether the
    shape of its result depends on numbers; views: whether a result may be a view.
    """

    name: str
    arguments: tuple[str, ...]
    known: bool
    mutable: bool
    random: bool
    by_numbers: bool
    views: bool


@cache
def operator_of(func: Any) -> AtenOperator:
    """Looks an operator up."""
    schema, tags = func._schema, func.tags
    return AtenOperator(
        name_of(func),
        tuple(argument.name for argument in schema.arguments),
        func.namespace in ("aten", "prim"),
        schema.is_mutable,
        RANDOM in tags,
        not _BY_NUMBERS.isdisjoint(tags),
        func in _HIDDEN_VIEWS or any(result.alias_info is not None for result in schema.returns),
    )


def without_rule(func: Any, apart: bool = False) -> Any:
    """Finds a function that does the same as an operator without a rule by other operators, if PyTorch has one.

    apart: whether to take an operator with a rule apart, too.
    """
    if (row_of(operator_of(func).name) is not None and not apart) or func in _APART:
        return None
    if func in _SAME:
        return _SAME[func]
    if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
        return func.decompose
    from torch._decomp import decomposition_table  # takes a while to import, and most programs need none of it

    return decomposition_table.get(func)


def functional(func: Any) -> Any:
    """The operator that gives a new tensor where this one writes to an argument, or to `out`. Raises NeedsValue."""
    name = name_of(func)
    base, _, overload = _FUNCTIONAL.get(name, name.replace("_.", ".")).partition(".")
    packet = getattr(torch.ops.aten, base, None)
    if packet is not None:
        if name in _FUNCTIONAL:
            return getattr(packet, overload)
        names = packet.overloads()
        names.sort(key=overload.__ne__)  # that of the same name is tried first
        for other in [getattr(packet, each) for each in names]:
            if not other._schema.is_mutable and _takes(other) == _takes(func):
                return other
    raise NeedsValue


def _takes(func: Any) -> list[tuple[str, str]]:
    return [(argument.name, str(argument.type)) for argument in func._schema.arguments if not argument.is_out]


def keeps_statistics(func: Any, args: Sequence[Any]) -> bool:
    """True if a call writes to running statistics, which its schema does not say."""
    if name_of(func) not in _NORMS:
        return False
    named = dict(zip(operator_of(func).arguments, args))
    return bool(named.get("training")) and named.get("running_mean") is not None


def split_arguments(func: Any, named: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments by name as those of a call: by position, and by name if there is no other way."""
    arguments = [argument for argument in func._schema.arguments if not argument.kwarg_only]
    last = max([k for k, argument in enumerate(arguments) if argument.name in named], default=-1)
    by_name = {
        argument.name: named[argument.name]
        for argument in func._schema.arguments
        if argument.kwarg_only and argument.name in named
    }
    return [named.get(argument.name, argument.default_value) for argument in arguments[: last + 1]], by_name
