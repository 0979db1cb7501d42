"""Calls, nodes, launches and flushes of one minibatch, and the reasons why calls were no nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import gluonjit
from experiments.coverage import FORCED
from experiments.coverage.program import Program

# Lines, folders, addresses and numbered names: what differs with the checkout, or with what ran before.
_PLACES = re.compile(r"(?:[\w.~/-]*/)?([\w.-]+)(?::\d+|, line \d+)\b")
_ADDRESSES = re.compile(r" at 0x[0-9a-f]+")
_COUNTED = re.compile(r"(?<=[a-z])\d+(?=[_ :'])")


@dataclass(frozen=True)
class Counts:
    """Figures of one minibatch, over all its flushes; the reasons are those of all minibatches."""

    calls: int
    nodes: int
    launches: int
    flushes: int
    reasons: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {**asdict(self), "reasons": list(self.reasons)}


@contextmanager
def reports() -> Iterator[list[gluonjit.Report]]:
    """Yield the list of the reports of all batches that are opened meanwhile."""
    found: list[gluonjit.Report] = []
    batches: Any = gluonjit.Batch
    begin = batches.__init__

    def noted(batch: Any, *given: Any, **options: Any) -> None:
        begin(batch, *given, **options)
        found.append(batch.report)

    batches.__init__ = noted
    try:
        yield found
    finally:
        batches.__init__ = begin


def measure(program: Program) -> Counts:
    """Run a program, batched by force; returns the counts of its last minibatch. Caches are cleared first."""
    gluonjit.clear_caches()
    with reports() as found:
        step = program.start(FORCED)
        for _ in range(program.minibatches - 1):
            step()
        before = sums(found)
        step()
        calls, nodes, launches, flushes = (now - then for now, then in zip(sums(found), before))
    reasons = {
        _plain(f"{name}: {reason}")
        for report in found
        for name, reason in [*report.unbatched.items(), *report.alone.items()]
    }
    return Counts(calls, nodes, launches, flushes, tuple(sorted(reasons)))


def sums(found: list[gluonjit.Report]) -> list[int]:
    """Return calls, nodes, launches and flushes of all reports together."""
    return [sum(getattr(report, name) for report in found) for name in ("calls", "nodes", "launches", "flushes")]


def _plain(reason: str) -> str:
    return _COUNTED.sub("", _ADDRESSES.sub("", _PLACES.sub(r"\1", reason)))
