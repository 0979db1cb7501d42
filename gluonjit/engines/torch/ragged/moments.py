"""Means and variances of channels over the rows of each node, and batch norm in training by them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Any, NamedTuple

import torch

from gluonjit.engines.torch.arrays import sent
from gluonjit.engines.torch.ragged.choosing import begins_of
from gluonjit.engines.torch.ragged.stages import Packed
from gluonjit.program.arguments import counted
from gluonjit.program.axes.values import Shape
from gluonjit.program.trace import NotBatchable


class Channels(NamedTuple):
    """The place of channels in a row: so many entries `before`, the `number` of channels, and so many `after`."""

    before: int
    number: int
    after: int


_VARIANCES = ("var_mean.correction", "var.correction", "std.correction")
OF_CHANNELS = ("native_batch_norm.default", *_VARIANCES)
"""Operators that have the statistics of channels (n, C, ...), or of what else is kept."""


def of_channels(name: str, args: Mapping[str, Any], value: Packed, kept: Shape) -> tuple[Callable[..., Any], str]:
    """The function for such an operator on packed values, and its text. Raises NotBatchable.

    kept: the shape of statistics.
    """
    shape = value.val.shape  # with the packed axis in front
    if name in _VARIANCES:
        return _variances(name, args, value, kept)
    if value.axis == 1 or len(shape) < 2:
        raise NotBatchable(f"{name}: the number of channels differs")
    channels = _channels(shape, 2 if value.axis else 1)
    has = (args.get("weight") is not None, args.get("bias") is not None)
    if not args["training"]:
        return partial(scaled, has=has, channels=channels, eps=args["eps"]), f"scaled {has} {channels} {args['eps']}"
    if any(args.get(running) is not None for running in ("running_mean", "running_var")):
        raise NotBatchable(f"{name}: not by the statistics of the sample")
    return partial(
        normalized, has=has, channels=channels, eps=args["eps"]
    ), f"normalized {has} {channels} {args['eps']}"


def _channels(shape: Shape, first: int, last: int | None = None) -> Channels:
    """The place of these axes in a row of a shape, the first of which is packed."""
    last = first + 1 if last is None else last
    return Channels(prod(shape[1:first]), prod(shape[first:last]), prod(shape[last:]))


def _variances(name: str, args: Mapping[str, Any], value: Packed, kept: Shape) -> tuple[Callable[..., Any], str]:
    """Variances over the packed axis and others, of what lies in one piece."""
    shape, packed = value.val.shape, value.axis
    assert packed is not None
    order = [packed, *[place for place in range(len(shape)) if place != packed]]
    dims = {counted(len(shape), dim) for dim in args.get("dim") or range(len(shape))}
    places = [place for place, was in enumerate(order) if was not in dims]
    if packed not in dims or places != list(range(places[0], places[-1] + 1) if places else []):
        raise NotBatchable(f"{name}: not along the rows of each sample")
    channels = _channels(shape, places[0], places[-1] + 1) if places else Channels(prod(shape[1:]), 1, 1)
    correction = args.get("correction")
    correction = 1 if correction is None else correction
    text = f"{name} {channels} {correction} {kept}"
    return partial(moments, name=name, channels=channels, correction=correction, kept=kept), text


def moments(rows: Any, owners: Any, sizes: Any, name: str, channels: Channels, correction: float, kept: Shape) -> Any:
    """The variances and means of each node, (nodes, *kept), or one of variances and deviations."""
    variance, mean = [found.view(-1, *kept) for found in _moments(rows, owners, sizes, channels, correction)[:2]]
    if name != "std.correction":
        return (variance, mean) if name == "var_mean.correction" else variance
    there = variance > 0  # at zero PyTorch says that the derivative is none
    return torch.where(there, torch.where(there, variance, 1.0).sqrt(), variance)


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


def scaled(rows: Any, *rest: Any, has: tuple[bool, bool], channels: Channels, eps: float) -> tuple[Any, Any, Any]:
    """Rows normalized by running statistics; of these nothing is given back, as PyTorch does.

    rest: weight and bias, those there are; means and variances; the node of each row, and the numbers of rows of each.
    """
    *own, mean, variance, _, sizes = rest
    weight, bias = [own.pop(0) if there else None for there in has]
    scale = (variance + eps).rsqrt()
    scale = scale if weight is None else scale * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    found = torch.addcmul(shift[:, None], rows.reshape(rows.shape[0], *channels), scale[:, None])
    nothing = rows.new_empty((len(sizes), 0))
    return found.reshape(rows.shape), nothing, nothing


def _moments(rows: Any, owners: Any, sizes: Any, channels: Channels, correction: float) -> tuple[Any, Any, Any]:
    """Variances and means of each node, and what rows differ from the latter: (rows, before, channels, after).

    Of what rows differ from the first one: equal rows have no variance then, not even by rounding.
    """
    whole = rows.reshape(rows.shape[0], *channels)
    counts = sent(sizes * (channels.before * channels.after), rows.device).to(rows.dtype)[:, None]
    first = whole.detach()[:, 0, :, 0].index_select(0, sent(begins_of(sizes), rows.device))

    def of_each(entries: Any) -> Any:
        return entries.new_zeros((len(sizes), channels.number)).index_add(0, owners, entries.sum((1, 3)))

    def spread(found: Any) -> Any:
        return found.index_select(0, owners)[:, None, :, None]

    apart = whole - spread(first)
    mean = of_each(apart) / counts
    centered = apart - spread(mean)
    return of_each(centered.square()) / (counts - correction), first + mean, centered
