"""Ways to capture and to schedule a flush, their predicted costs, and the choice between them.

`choice` compares them; reports show the result.
"""

from __future__ import annotations

from operator import add
from typing import Any, NamedTuple


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

    def plus(self, other: Costs) -> Costs:
        """Both together."""
        return Costs(*map(add, self, other))


class Capture(NamedTuple):
    """The way in which calls are captured."""

    granularity: str
    sharing: bool

    def __str__(self) -> str:
        return f"{self.granularity}, sharing {'on' if self.sharing else 'off'}"


class Setting(NamedTuple):
    """The way in which a flush is captured and scheduled."""

    granularity: str
    sharing: bool
    scheduler: str

    @property
    def capture(self) -> Capture:
        """The way in which calls are captured."""
        return Capture(self.granularity, self.sharing)

    def __str__(self) -> str:
        return f"{self.granularity}, {self.scheduler}, sharing {'on' if self.sharing else 'off'}"


class Estimate(NamedTuple):
    """The model's estimate of one way, for some flushes, all added up; `costs` is in seconds."""

    setting: Setting
    flushes: int
    samples: int
    nodes: int
    launches: int
    costs: Costs

    @property
    def per_sample(self) -> float:
        """Seconds a sample."""
        return self.costs.total / max(self.samples, 1)

    def plus(self, other: Estimate) -> Estimate:
        """Both together."""
        return Estimate(
            self.setting,
            self.flushes + other.flushes,
            self.samples + other.samples,
            self.nodes + other.nodes,
            self.launches + other.launches,
            self.costs.plus(other.costs),
        )


class Choice(NamedTuple):
    """The choice for the last flush, and its alternatives, the cheapest first.

    decided: whether all ways have been tried; compared: whether schedulers were compared in this flush; profiled:
    whether the engine was waited for after each step of it, so that the model learns what they take; ruled_out: ways
    that cannot pay; origin: the day and file of the earlier process that has decided it, if this one has not.
    """

    setting: Setting
    decided: bool
    compared: bool
    profiled: bool
    estimates: tuple[Estimate, ...]
    ruled_out: dict[str, str]
    origin: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Returns plain numbers, strings, lists and dictionaries; times in seconds."""
        ways = [
            {
                **estimate.setting._asdict(),
                "flushes": estimate.flushes,
                "samples": estimate.samples,
                "nodes": estimate.nodes,
                "launches": estimate.launches,
                "seconds": estimate.costs.total,
                "seconds_a_sample": estimate.per_sample,
            }
            for estimate in self.estimates
        ]
        chosen = self.setting._asdict()
        return {
            "setting": chosen,
            "decided": self.decided,
            "origin": self.origin,
            "estimates": ways,
            "ruled_out": self.ruled_out,
        }
