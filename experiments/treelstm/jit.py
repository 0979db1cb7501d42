"""All that the experiment asks of gluonjit, in one place."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gluonjit

if TYPE_CHECKING:
    from mxnet import gluon

HOST_PARTS = ("capture", "analysis")  # their times need no waits for the engine
PARTS = (*HOST_PARTS, "gather", "compute", "backward")


@dataclass
class Figures:
    """What one minibatch took, as the library reports it."""

    launches: int
    lower_bound: int
    hits: int
    misses: int
    ms: dict[str, float]


def batch_dynamically(net: gluon.Block, sharing: bool, **options: Any) -> None:
    """Make a net batch itself; this is the only change to it."""
    net.hybridize(dynamic_batch=True, sharing=sharing, **options)


def batch_repeatably(net: gluon.Block) -> None:
    """Make a net batch itself in a way that no measurement changes, so that equal runs give equal bits."""
    net.hybridize(dynamic_batch=True, granularity="cell", scheduler="agenda", sharing=True)


def add_n(losses: list[Any]) -> Any:
    """Return the sum of the losses of a minibatch."""
    return gluonjit.add_n(losses)


def last_figures() -> Figures:
    """Return what the last minibatch on this thread took."""
    report = gluonjit.explain()
    ms = {part: float(report.ms.get(part, 0.0)) for part in PARTS}
    return Figures(report.launches, report.lower_bound, report.cache["hits"], report.cache["misses"], ms)


def profiled(sharing: bool, **options: Any) -> AbstractContextManager[Any]:
    """Return a region whose parts are timed with a wait after each."""
    regional = {name: value for name, value in options.items() if not name.endswith("reuse")}  # that is a block's
    return gluonjit.batching(profile=True, sharing=sharing, **regional)
