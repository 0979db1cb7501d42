"""Steps that ran in C one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple


class StepStretch(NamedTuple):
    """Steps that ran one after the other: their numbers and ways, what backward needs of them, nanoseconds of each.

    noted: what an engine notes of them.
    """

    steps: list[int]
    ways: list[int]
    saved: Any
    took: list[int]
    noted: Any = None

    def part(self, begin: int, end: int) -> StepStretch:
        """Some of the steps."""
        return self._replace(steps=self.steps[begin:end], ways=self.ways[begin:end])


def ends_of(begin: float, end: float, took: Sequence[int]) -> list[float]:
    """Returns when each step of a stretch ended, in seconds; the rest of its time is shared out equally."""
    rest = max(end - begin - sum(took) / 1e9, 0.0) / len(took)
    return [*accumulate([nanoseconds / 1e9 + rest for nanoseconds in took], initial=begin)][1:]
