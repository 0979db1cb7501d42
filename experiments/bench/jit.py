"""Everything that systems use of gluonjit, in one place."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import gluonjit

HOST_PARTS = ("capture", "analysis")  # their times need no waits for the engine
PARTS = (*HOST_PARTS, "gather", "compute", "backward")


@dataclass
class Figures:
    """Figures of one minibatch, as the library reports them."""

    launches: int
    lower_bound: int
    hits: int
    misses: int
    ms: dict[str, float]


REPEATABLY = {"granularity": "cell", "scheduler": "bound", "sharing": True}
"""Options by which a net is batched in a way that no measurement changes, so that equal runs give equal bits."""


def last_figures() -> Figures:
    """Return the figures of the last minibatch on this thread."""
    report = gluonjit.explain()
    ms = {part: float(report.ms.get(part, 0.0)) for part in PARTS}
    return Figures(report.launches, report.lower_bound, report.cache["hits"], report.cache["misses"], ms)


def profiled(sharing: bool, **options: Any) -> AbstractContextManager[Any]:
    """Return a region whose parts are timed with a wait after each."""
    regional = {name: value for name, value in options.items() if not name.endswith("reuse")}  # that is a block's
    return gluonjit.batching(profile=True, sharing=sharing, **regional)
