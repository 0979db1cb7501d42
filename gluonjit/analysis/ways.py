"""The way in which a flush is captured and scheduled, and what it is predicted to take."""

from __future__ import annotations

from typing import NamedTuple


class Costs(NamedTuple):
    """Predicted seconds of each part of a flush and of its backward."""

    capture: float
    analysis: float
    inputs: float
    gather: float
    compute: float
    results: float
    backward: float

    @property
    def total(self) -> float:
        """All of it."""
        return sum(self)


class Setting(NamedTuple):
    """The way in which a flush is captured and scheduled."""

    granularity: str
    sharing: bool
    scheduler: str

    def __str__(self) -> str:
        return f"{self.granularity}, {self.scheduler}, sharing {'on' if self.sharing else 'off'}"
