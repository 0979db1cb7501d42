"""Means and variances of channels over the rows of each node, and batch norm in training by them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Any, NamedTuple

from gluonjit.engines.torch.arrays import sent
from gluonjit.engines.torch.ragged.stages import Packed
from gluonjit.engines.torch.rules.shapes import axis
from gluonjit.engines.torch.rules.values import NotBatchable


class Channels(NamedTuple):
    """The place of channels in a row: so many entries `before`, the `number` of channels, and so many `after`."""

    before: int
    number: int
    after: int


OF_CHANNELS = ("native_batch_norm.default", "var_mean.correction")
"""Operators that have the statistics of channels (n, C, ...)."""


def of_channels(name: str, args: Mapping[str, Any], value: Packed) -> tuple[Callable[..., Any], str]:
    """The function for such an operator on packed values, and its text. Raises NotBatchable."""
    shape = value.val.shape  # with the packed axis in front
    if value.axis == 1 or len(shape) < 2:
        raise NotBatchable(f"{name}: the number of channels differs")
    place = 2 if value.axis else 1
    channels = Channels(prod(shape[1:place]), shape[place], prod(shape[place + 1 :]))
    if name == "var_mean.correction":
        dims = {axis(len(shape), dim) for dim in args.get("dim") or ()}
        if dims != {*range(len(shape))} - {1} or args.get("keepdim", False):
            raise NotBatchable(f"{name}: not of channels")
        correction = args.get("correction")
        correction = 1 if correction is None else correction
        return partial(moments, channels=channels, correction=correction), f"moments {channels} {correction}"
    if not args["training"] or any(args.get(kept) is not None for kept in ("running_mean", "running_var")):
        raise NotBatchable(f"{name}: not by the statistics of the sample")
    has = (args.get("weight") is not None, args.get("bias") is not None)
    return partial(
        normalized, has=has, channels=channels, eps=args["eps"]
    ), f"normalized {has} {channels} {args['eps']}"


def moments(rows: Any, owners: Any, sizes: Any, channels: Channels, correction: float) -> tuple[Any, Any]:
    """The variances and means of each node, (nodes, channels)."""
    return _moments(rows, owners, sizes, channels, correction)[:2]


def normalized(rows: Any, *rest: Any, has: tuple[bool, bool], channels: Channels, eps: float) -> tuple[Any, Any, Any]:
    """Rows normalized by what each node has, means, and inverse deviations.

    rest: weight and bias, those there are; the node of each row, and the numbers of rows of each.
    """
    *own, owners, sizes = rest
    variance, mean, centered = _moments(rows, owners, sizes, channels, 0)
    deviation = (variance + eps).rsqrt()
    weight, bias = [own.pop(0) if there else None for there in has]
    scale = deviation if weight is None else deviation * weight
    found = centered * scale.index_select(0, owners)[:, None, :, None]
    if bias is not None:
        found = found + bias[:, None]
    return found.reshape(rows.shape), mean, deviation


def _moments(rows: Any, owners: Any, sizes: Any, channels: Channels, correction: float) -> tuple[Any, Any, Any]:
    """Variances and means of each node, and what rows differ from the latter: (rows, before, channels, after)."""
    whole = rows.reshape(rows.shape[0], *channels)
    counts = sent(sizes * (channels.before * channels.after), rows.device).to(rows.dtype)[:, None]

    def of_each(entries: Any) -> Any:
        return entries.new_zeros((len(sizes), channels.number)).index_add(0, owners, entries.sum((1, 3)))

    mean = of_each(whole) / counts
    centered = whole - mean.index_select(0, owners)[:, None, :, None]
    return of_each(centered.square()) / (counts - correction), mean, centered
