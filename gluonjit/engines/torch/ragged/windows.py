"""Operators on windows along a length, for all nodes at once: convolutions, pooling, and rows put beside others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from typing import Any, NamedTuple

import numpy as np
import torch

from gluonjit.engines.torch.arrays import sent
from gluonjit.engines.torch.ragged.choosing import begins_of, within
from gluonjit.program.axes.values import Shape
from gluonjit.program.trace import NotBatchable


class Windows(NamedTuple):
    """The windows along one axis: the rows of each, how far apart they begin, the padding, and how far apart the rows
    of one are."""

    kernel: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1

    def rows(self, before: Sequence[int], after: Sequence[int]) -> Any:
        """The rows of all windows, one window after the other; for padding the one behind the last.

        before, after: how many rows and windows each node has.
        """
        sizes, windows = np.array(before), np.array(after)
        first = np.repeat(begins_of(sizes), windows)
        places = (within(windows) * self.stride - self.padding)[:, None] + np.arange(self.kernel) * self.dilation
        there = (places >= 0) & (places < np.repeat(sizes, windows)[:, None])
        return np.where(there, first[:, None] + places, sizes.sum()).reshape(-1)

    def of(self, rows: Any, before: Any, after: Any, padding: float) -> Any:
        """The entries of all windows, (windows, kernel, entries of a row)."""
        flat, places = rows.reshape(rows.shape[0], -1), self.rows(before, after)
        if places.max(initial=0) == len(rows):
            flat = torch.cat([flat, flat.new_full((1, flat.shape[1]), padding)])
        return flat.index_select(0, sent(places, rows.device)).view(-1, self.kernel, flat.shape[1])


Run = Callable[..., Any]
LARGEST = (
    *("max_pool2d_with_indices.default", "max_pool3d_with_indices.default"),
    *("adaptive_max_pool2d.default", "adaptive_max_pool3d.default"),
)
MEANS = (
    *("avg_pool1d.default", "avg_pool2d.default", "avg_pool3d.default"),
    *("_adaptive_avg_pool2d.default", "_adaptive_avg_pool3d.default"),
)
"""Operators that give the largest number of each window, and its place, and those that give the mean."""
WINDOWED = ("convolution.default", LARGEST[0], *MEANS[:2], "constant_pad_nd.default")
"""Those of them that run on packed rows, and others on windows."""


def windowed(name: str, args: dict[str, Any], axis: int, shape: Shape, result: Shape, weight: Shape) -> tuple[Run, str]:
    """The function for an operator on windows along an axis of one sample, of packed rows and weights, and its text.

    Raises NotBatchable if its windows lie along others as well.
    """
    if name == "constant_pad_nd.default":
        margins = margins_of(args["pad"], len(shape))
        before, after = margins.pop(axis)
        if any(map(any, margins)) or min(before, after) < 0:
            raise NotBatchable(f"{name}: along other axes, or by less than nothing")
        value = args.get("value", 0)
        return partial(extended, windows=Windows(1, padding=before), value=value), f"extended {before} {value}"
    if shape[0] != 1 or axis < 2:
        raise NotBatchable(f"{name}: of several samples")
    if name == "convolution.default":
        windows = _convolution(args, axis, shape, result, weight)
        groups = args["groups"]
        return partial(convolved, axis=axis, windows=windows, groups=groups), f"convolved {axis} {windows} {groups}"
    windows = _pooling(name, args, axis, shape)
    largest = name in LARGEST
    return partial(pooled, windows=windows, largest=largest), f"pooled {windows} {largest}"


def margins_of(pad: Sequence[int], rank: int) -> list[tuple[int, int]]:
    """Counts the entries that are put before and after those of each axis."""
    found = [(0, 0)] * rank
    for number in range(len(pad) // 2):
        found[rank - 1 - number] = (pad[2 * number], pad[2 * number + 1])
    return found


def _at(args: dict[str, Any], name: str, place: int) -> int:
    given = args[name]
    return int(given[place if len(given) > 1 else 0])


def _convolution(args: dict[str, Any], axis: int, shape: Shape, result: Shape, weight: Shape) -> Windows:
    if args["transposed"]:
        raise NotBatchable("a transposed convolution")
    for place, size in enumerate(shape[2:]):
        if place + 2 != axis and (weight[place + 2] != size or result[place + 2] != 1 or _at(args, "padding", place)):
            raise NotBatchable("a convolution along several axes")
    return Windows(weight[axis], *[_at(args, name, axis - 2) for name in ("stride", "padding", "dilation")])


def _pooling(name: str, args: dict[str, Any], axis: int, shape: Shape) -> Windows:
    if any(size != 1 for place, size in enumerate(shape[2:], 2) if place != axis):
        raise NotBatchable(f"{name}: along several axes")
    args = {"padding": (0,), "dilation": (1,), **args, "stride": args.get("stride") or args["kernel_size"]}
    found = Windows(*[_at(args, each, axis - 2) for each in ("kernel_size", "stride", "padding", "dilation")])
    if name not in LARGEST and not are_alike(args, found.padding > 0):
        raise NotBatchable(f"{name}: windows of several sizes")
    return found


def are_alike(args: Mapping[str, Any], padded: bool) -> bool:
    """Tells whether all means of windows are of as many numbers; padded: whether windows may hold some that are not."""
    by_others = args.get("ceil_mode") or args.get("divisor_override")
    return not by_others and (not padded or bool(args.get("count_include_pad", True)))


def convolved(rows: Any, weight: Any, *rest: Any, axis: int, windows: Windows, groups: int) -> Any:
    """The results of all windows of all nodes, (windows, channels).

    rest: the bias, if there is one; then the numbers of rows and of windows of each node.
    """
    *bias, before, after = rest
    columns = windows.of(rows, before, after, 0.0)
    order = [axis, 1, *[place for place in range(2, weight.dim()) if place != axis]]
    if groups == 1:
        kernel = weight.permute(*order, 0).reshape(-1, weight.shape[0])
        columns = columns.view(-1, kernel.shape[0])
        return torch.addmm(bias[0], columns, kernel) if bias else torch.mm(columns, kernel)
    kernel = weight.unflatten(0, (groups, -1)).permute(0, *[place + 1 for place in order], 1).flatten(1, -2)
    columns = columns.unflatten(2, (groups, -1)).permute(2, 0, 1, 3).flatten(2)
    found = torch.bmm(columns, kernel).transpose(0, 1).flatten(1)
    return found + bias[0] if bias else found


def pooled(rows: Any, before: Any, after: Any, windows: Windows, largest: bool) -> Any:
    """The largest or the mean of each window, (windows, *row)."""
    found = windows.of(rows, before, after, -inf if largest else 0.0)
    return (found.max(1).values if largest else found.mean(1)).view(-1, *rows.shape[1:])


def extended(rows: Any, before: Any, after: Any, windows: Windows, value: float) -> Any:
    """The rows of each node and more of one value, (rows, *row)."""
    return windows.of(rows, before, after, value).view(-1, *rows.shape[1:])
