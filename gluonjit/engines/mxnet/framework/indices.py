"""Basic indices of arrays, made of integers, slices and new axes, and what they select."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

Cuts = list[tuple[int, Optional[int], int]]


def basic_index(parts: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Cuts | None, tuple[int, ...]]:
    """Splits a basic index: what each part cuts out of its axis, None for all of it, and the result's shape."""
    cuts: Cuts = []
    result: list[int] = []
    for part in parts:
        if part is None:
            result.append(1)
            continue
        axis, extent = len(cuts), shape[len(cuts)]
        if isinstance(part, slice):
            first, last, stride = part.indices(extent)
            result.append(len(range(first, last, stride)))
            cuts.append((first, None if last < 0 else last, stride))
        elif -extent <= part < extent:
            cuts.append((int(part) % extent, int(part) % extent + 1, 1))
        else:
            raise IndexError(f"index {part} is out of bounds for axis {axis} with size {extent}")
    whole = all(cut == (0, extent, 1) for cut, extent in zip(cuts, shape))
    return None if whole else cuts, tuple(result)


def is_basic(parts: tuple[Any, ...]) -> bool:
    """True if an index has integers, slices and new axes only."""
    return all(
        part is None or (isinstance(part, (int, np.integer, slice)) and not isinstance(part, bool)) for part in parts
    )


def expanded(parts: tuple[Any, ...], ndim: int) -> tuple[Any, ...]:
    """An index with a part for each axis: an ellipsis, or else the end, stands for whole axes."""
    count = ndim - sum(part is not None and part is not Ellipsis for part in parts)
    if count < 0:
        raise IndexError(f"too many indices for an array of {ndim} axes")
    at = next((k for k, part in enumerate(parts) if part is Ellipsis), len(parts))
    return (*parts[:at], *[slice(None)] * count, *parts[at + 1 :])
