"""The choice for one flush, as reports show it; `choosing` makes it."""

from __future__ import annotations

from typing import Any, NamedTuple

from gluonjit.analysis.choice import Estimate, Setting


class Choice(NamedTuple):
    """The choice for the last flush, and between what, the cheapest first.

    decided: whether all ways have been looked at; looked: whether some were in this flush; profiled: whether the engine
    was waited for after each step of it, so that the model learns what they take; ruled_out: ways that cannot pay;
    origin: the day and file of the earlier process that has decided it, if this one has not.
    """

    setting: Setting
    decided: bool
    looked: bool
    profiled: bool
    estimates: tuple[Estimate, ...]
    ruled_out: dict[str, str]
    origin: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As numbers, strings, lists and dictionaries; times in seconds."""
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
