"""Steps that ran in C one after the other, and those that still run."""

from __future__ import annotations

from typing import Any, NamedTuple


class StepStretch(NamedTuple):
    """Steps that ran one after the other: their numbers and ways, what backward needs of them, nanoseconds of each."""

    steps: list[int]
    ways: list[int]
    saved: Any
    took: list[int]


class Ahead(NamedTuple):
    """Steps that run while Python goes on: their numbers and ways, the `Flight` of `_rows`, and its launches."""

    steps: list[int]
    ways: list[int]
    flight: Any
    launches: Any

    def wait(self) -> tuple[float, float, str | None]:
        """Waits until they have run; returns when that began and ended, and the fault of the step under way, if any."""
        found: tuple[float, float, str | None] = self.flight.wait()
        return found

    @property
    def stretch(self) -> StepStretch:
        """The steps, when they have run."""
        return StepStretch(self.steps, self.ways, None, self.launches[:, 4].tolist())

    @property
    def under_way(self) -> int:
        """The step that runs, or that has failed."""
        number: int = self.flight.next
        return self.steps[number]
