"""Measured points of one cost against its size, and the interpolation to other sizes."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from math import log2
from typing import NamedTuple

import numpy as np

from gluonjit.analysis.costs.fit import fit

_KEPT = 7  # points of a bucket
_BUCKETS = 64
_WIDE = 4.0  # a line is drawn through points whose sizes differ by this factor


class Point(NamedTuple):
    """A size, its measured seconds, and those predicted by the coefficients."""

    size: float
    seconds: float
    expected: float


class Curve:
    """Seconds against size: between measured sizes by interpolation, beyond them by a line that does not fall.

    Points are kept by half octaves of their size, a few each, the latest. Each bucket counts with its median, so that
    single outliers, which an interrupted measurement makes, do not show.
    """

    _medians: list[Point] | None = None
    _slope: float | None = None  # of the line through them, where it is known

    def __init__(self) -> None:
        self._buckets: dict[int, deque[Point]] = {}
        self._sizes: list[float] = []  # of these

    def __len__(self) -> int:
        return sum(map(len, self._buckets.values()))

    def add(self, size: float, seconds: float, expected: float) -> None:
        """Notes a measurement."""
        number = round(2 * log2(max(size, 1e-12)))
        if number not in self._buckets and len(self._buckets) >= _BUCKETS:
            return
        self._buckets.setdefault(number, deque(maxlen=_KEPT)).append(Point(size, seconds, expected))
        self._medians = None

    def at(self, size: float, expected: float) -> float:
        """Seconds for this size; `expected` is the coefficients' prediction, and the answer if nothing was measured."""
        points = self._points()
        if not points:
            return expected
        first, last = points[0], points[-1]
        if first.size <= size <= last.size:
            return self._between(points, size)
        if size < first.size:
            return min(first.seconds, first.seconds * expected / max(first.expected, 1e-12))
        if len(points) >= 3 and last.size >= _WIDE * first.size:
            return last.seconds + self._rise(points) * (size - last.size)
        return max(last.seconds, last.seconds * expected / max(last.expected, 1e-12))

    def _points(self) -> list[Point]:
        """The median of each bucket in order of size; seconds never fall."""
        if self._medians is None:
            rows = [_median(self._buckets[number]) for number in sorted(self._buckets)]
            self._medians = _rising(rows)
            self._sizes, self._slope = [point.size for point in self._medians], None
        return self._medians

    def _between(self, points: list[Point], size: float) -> float:
        """Interpolates between two neighbours."""
        place = bisect_left(self._sizes, size)
        after = points[place]
        if after.size == size:
            return after.seconds
        before = points[place - 1]
        return before.seconds + (after.seconds - before.seconds) * (size - before.size) / (after.size - before.size)

    def _rise(self, points: list[Point]) -> float:
        """The slope of the line through all points; fitted at the first question, as a plan asks for many steps."""
        if self._slope is None:
            sizes = np.array([[1.0, point.size] for point in points])
            self._slope = float(fit(sizes, np.array([point.seconds for point in points]))[1])
        return self._slope


def _median(points: deque[Point]) -> Point:
    """The lower median: what is done once, or disturbs, only slows a measurement down."""
    seconds = sorted(point.seconds for point in points)[(len(points) - 1) // 2]
    sizes = sum(point.size for point in points) / len(points)
    return Point(sizes, seconds, sum(point.expected for point in points) / len(points))


def _rising(points: list[Point]) -> list[Point]:
    """Neighbours that fall are replaced by their mean, until none does (pool adjacent violators)."""
    pools: list[list[Point]] = []
    for point in points:
        pools.append([point])
        while len(pools) > 1 and _mean(pools[-2]) > _mean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    return [point._replace(seconds=_mean(pool)) for pool in pools for point in pool]


def _mean(points: list[Point]) -> float:
    return sum(point.seconds for point in points) / len(points)
