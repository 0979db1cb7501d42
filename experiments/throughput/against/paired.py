"""The median of paired ratios, with an interval that holds for any distribution."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from statistics import median
from typing import NamedTuple

LEVEL = 0.95


class Ratio(NamedTuple):
    """A median; the true one lies in `low` to `high` with a probability of `coverage`."""

    median: float
    low: float
    high: float
    coverage: float


def ratio(seconds: Sequence[tuple[float, float]]) -> Ratio:
    """Return how many times faster the first of each pair is than the second.

    The interval ends at order statistics of the ratios, the narrowest that covers `LEVEL`; too few pairs for that
    give the whole range, which covers less.
    """
    found = sorted(other / mine for mine, other in seconds)
    count = len(found)
    cut = 0
    while _coverage(count, cut + 1) >= LEVEL:
        cut += 1
    return Ratio(median(found), found[cut], found[count - 1 - cut], _coverage(count, cut))


def _coverage(count: int, cut: int) -> float:
    """Return the probability that the median lies within the range left after cutting `cut` values from each end."""
    return 1 - 2 * sum(comb(count, below) for below in range(cut + 1)) / 2**count
