"""Convolutions along a length: one product for the windows of all nodes, whose rows are gathered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from gluonjit.engines.torch.arrays import sent
from gluonjit.engines.torch.rules.values import NotBatchable, Shape


class Windows(NamedTuple):
    """The windows along one axis: the rows of each, how far apart they begin, the padding, and how far apart the rows
    of one are."""

    kernel: int
    stride: int
    padding: int
    dilation: int

    def rows(self, before: Sequence[int], after: Sequence[int]) -> Any:
        """The rows of all windows, one window after the other; for padding the one behind the last.

        before, after: how many rows and windows each node has.
        """
        sizes, windows = np.array(before), np.array(after)
        first = np.repeat(np.cumsum(sizes) - sizes, windows)
        number = np.arange(len(first)) - np.repeat(np.cumsum(windows) - windows, windows)
        within = (number * self.stride - self.padding)[:, None] + np.arange(self.kernel) * self.dilation
        there = (within >= 0) & (within < np.repeat(sizes, windows)[:, None])
        return np.where(there, first[:, None] + within, sizes.sum()).reshape(-1)


def windows_of(args: dict[str, Any], axis: int, shape: Shape, result: Shape, weight: Shape) -> Windows:
    """The windows of a convolution of one sample along an axis. Raises NotBatchable if it has others as well."""
    if args["transposed"] or args["groups"] != 1 or shape[0] != 1 or axis < 2:
        raise NotBatchable("a convolution transposed, in groups, or of several samples")

    def at(name: str, place: int) -> int:
        given = args[name]
        return int(given[place if len(given) > 1 else 0])

    for place, size in enumerate(shape[2:]):
        if place + 2 != axis and (weight[place + 2] != size or result[place + 2] != 1 or at("padding", place)):
            raise NotBatchable("a convolution along several axes")
    place = axis - 2
    return Windows(weight[axis], at("stride", place), at("padding", place), at("dilation", place))


def convolved(rows: Any, weight: Any, *rest: Any, axis: int, windows: Windows) -> Any:
    """The results of all windows of all nodes, (windows, channels).

    rest: the bias, if there is one; then the numbers of rows and of windows of each node.
    """
    *bias, before, after = rest
    order = [axis, 1, *[place for place in range(2, weight.dim()) if place != axis], 0]
    kernel = weight.permute(order).reshape(-1, weight.shape[0])
    flat = rows.reshape(rows.shape[0], -1)
    padded = torch.cat([flat, flat.new_zeros((1, flat.shape[1]))]) if windows.padding else flat
    columns = padded.index_select(0, sent(windows.rows(before, after), rows.device)).view(-1, kernel.shape[0])
    return torch.addmm(bias[0], columns, kernel) if bias else torch.mm(columns, kernel)
