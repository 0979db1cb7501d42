"""Steps that ran in C one after the other."""

from __future__ import annotations

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
