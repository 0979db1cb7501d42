"""Layers: norms, convolutions and pooling, whose leading dimension is already one of samples."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from gluonjit.engines.torch.rules.values import ANY, NotBatchable, OperatorCall, Val


def layer_norm(call: OperatorCall) -> list[Val]:
    """native_layer_norm: over the last dimensions."""
    val = call["input"]
    axes = len(call["normalized_shape"])
    if any(isinstance(call.get(name), Val) and not call[name].shared for name in ("weight", "bias")):
        raise NotBatchable(f"{call.name}: weights differ by sample")
    placed = call.ending(val, axes)
    if len(placed.rest) != axes and placed.lead != ANY:
        placed = call.form(val, prod(val.shape[: val.rank - axes]), val.shape[val.rank - axes :])
    slots = call.again({"input": placed}, 3)
    small = (*placed.rest[: len(placed.rest) - axes], *(1,) * axes)
    return [
        call.result(slot, placed.lead, rest, k)
        for k, (slot, rest) in enumerate(zip(slots, (placed.rest, small, small)))
    ]


def over_samples(call: OperatorCall) -> list[Val]:
    """convolution, pooling and batch norm: (n, C, ...) of all nodes form one array."""
    name = "input" if "input" in call.args else "self"
    val = call[name]
    if any(not other.shared for other in call.vals() if other is not val):
        raise NotBatchable(f"{call.name}: weights differ by sample")
    if call.get("training", False):
        return _normalized(call, val)
    rank, out = val.rank, call.shape
    spatial = _RANKS.get(call.name)
    alone = spatial is not None and rank == spatial - 1  # without a leading dimension: one image
    placed = call.stack(val) if alone else call.rows(val)
    count = len(call.outputs)
    if call.name == "convolution.default" and _is_plain(call):
        own = [call[each] for each in ("weight", "bias") if call.get(each) is not None]
        slots = call.emit(_convolved, [placed, *own], tuple(call["stride"]), tuple(call["padding"]))
    else:
        slots = call.again({name: placed}, count)
    found = []
    for number, slot in enumerate((slots,) if count == 1 else slots):
        shape = call.outputs[number][0]
        if len(shape) == len(out):
            found.append(call.result(slot, placed.lead, shape if alone else shape[1:], number))
        else:  # statistics, which nothing uses
            found.append(Val(slot, shape, call.outputs[number][1], None, shape))
    return found


_SMALL, _SMALL_POINTS = 6_144, 32_768
"""Elements of images, and where kernels are points: with fewer oneDNN takes longer to begin than to compute."""


def _is_plain(call: OperatorCall) -> bool:
    """Tells whether a convolution is one of pictures, forward, in one group, of neighbouring points."""
    spread = tuple(call["dilation"]) != (1, 1) or call["transposed"] or call["groups"] != 1
    return len(call["weight"].shape) == 4 and not spread


def _convolved(images: Any, weight: Any, *rest: Any) -> Any:
    """Convolves pictures: a few small ones by PyTorch's own kernel, as PyTorch does a single one.

    Of images or weights that lie otherwise than row by row that kernel gives another weight's gradient, or none.
    """
    *bias, stride, padding = rest
    own = bias[0] if bias else None
    most = _SMALL if weight.shape[2:].numel() > 1 else _SMALL_POINTS
    small = images.numel() <= most and images.device.type == "cpu" and torch.get_num_threads() == 1
    if small and images.dtype is torch.float32 and not torch.is_autocast_enabled("cpu"):
        rows = images.contiguous()
        if _lies_in_rows(rows) and _lies_in_rows(weight):
            return torch.ops.aten._slow_conv2d_forward(rows, weight, weight.shape[2:], own, stride, padding)
    return torch.convolution(images, weight, own, stride, padding, (1, 1), False, (0, 0), 1)


def _lies_in_rows(pictures: Any) -> bool:
    """Tells whether pictures lie row by row; their other strides say so too, where PyTorch goes by these."""
    _, channels, height, width = pictures.shape
    return bool(pictures.stride() == (channels * height * width, height * width, width, 1))


def _normalized(call: OperatorCall, val: Val) -> list[Val]:
    """Batch norm in training: each node with its own statistics, which are those of channels of its own."""
    if call.get("running_mean") is not None or call.get("running_var") is not None:
        raise NotBatchable(f"{call.name}: it writes to running statistics")
    placed = call.stack(val)
    own = [call[name] for name in ("weight", "bias") if call.get(name) is not None]
    named = tuple([call.get(name) is not None for name in ("weight", "bias")])
    slots = call.emit(_each_by_itself, [placed, *own], named, call["eps"], outputs=3)
    return [call.stacked(slot, number) for number, slot in enumerate(slots)]


def _each_by_itself(rows: Any, *rest: Any) -> tuple[Any, Any, Any]:
    """Normalizes (nodes, n, C, ...) as (n, nodes * C, ...); returns that, means and inverse deviations."""
    *own, named, eps = rest
    count, _, channels, *_ = rows.shape
    given = rows.transpose(0, 1).flatten(1, 2)
    if given.dim() > 3:  # in which an axis of 1 may look like one of channels, last: gradients are wrong then
        given = given.flatten(2)
    weight, bias = [own.pop(0).repeat(count) if has else None for has in named]
    found, mean, deviation = torch.native_batch_norm(given, weight, bias, None, None, True, 0.0, eps)
    return (
        found.reshape(rows.shape[1], *rows.shape[:1], *rows.shape[2:]).transpose(0, 1),
        mean.reshape(count, channels),
        deviation.reshape(count, channels),
    )


_RANKS: dict[str, Any] = {
    "max_pool2d_with_indices.default": 4,
    "avg_pool2d.default": 4,
    "_adaptive_avg_pool2d.default": 4,
    "max_pool3d_with_indices.default": 5,
    "avg_pool3d.default": 5,
    "avg_pool1d.default": 3,
    "reflection_pad1d.default": 3,
    "reflection_pad2d.default": 4,
    "upsample_nearest2d.default": 4,
    "_adaptive_avg_pool3d.default": 5,
    "adaptive_max_pool2d.default": 4,
    "adaptive_max_pool3d.default": 5,
    "im2col.default": 4,
    "col2im.default": 3,
}


def padded(call: OperatorCall) -> list[Val]:
    """constant_pad_nd: of the last dimensions."""
    val, pad = call["self"], call["pad"]
    axes = len(pad) // 2
    if axes > val.rank or (val.lead == ANY and axes == val.rank):
        raise NotBatchable(f"{call.name}: the rows of a sample are padded")
    placed = call.form(val, ANY, val.shape[1:]) if val.lead == ANY else call.stack(val)
    rest = call.shape if placed.lead == 1 else call.shape[1:]
    return call.results({"self": placed}, placed.lead, rest)
