"""Rules of convolutions and of batch norm in training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gluonjit.program.axes.row import Application
from gluonjit.program.axes.samples import Samples
from gluonjit.program.axes.values import Labels, Values


class Convolution(Samples):
    """A convolution: a few small pictures by PyTorch's own kernel."""

    def run(self, call: Application, vals: list[Values], labels: Labels, shift: int) -> Sequence[int]:
        """Adds the operator, or the kernel."""
        if not _is_plain(call):
            return call.again(vals)
        return [call.writer.apply(_convolved, vals, tuple(call.attrs["stride"]), tuple(call.attrs["padding"]))]


_SMALL, _SMALL_POINTS = 6_144, 32_768
"""Elements of images, and where kernels are points: with fewer oneDNN takes longer to begin than to compute."""


def _is_plain(call: Application) -> bool:
    """Tells whether a convolution is one of pictures, forward, in one group, of neighbouring points."""
    attrs = call.attrs
    spread = tuple(attrs["dilation"]) != (1, 1) or attrs["transposed"] or attrs["groups"] != 1
    return bool(call.val("weight").rank == 4 and not spread)


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


_FIXED = Samples()


def normalized(call: Application) -> list[Values]:
    """native_batch_norm: in training each sample with statistics of its own."""
    if not call.get("training", False):
        return _FIXED.lift(call)
    vals = call.stacked(call.val("input"))
    own = [call.val(name) for name in ("weight", "bias")]
    if any([val is not None and not val.shared for val in own]):
        raise call.refuse("weights differ by sample")
    vals += [val for val in own if val is not None]
    return call.applied(_each_by_itself, vals, tuple([val is not None for val in own]), call.attrs["eps"])


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
