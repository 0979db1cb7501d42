"""Warnings that teach: what makes a program slower than it needs to be, on which line, and what to do about it.

Each piece of advice is given once a process, after the flush that showed it.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Hashable
from types import CodeType

from gluonjit.errors import (
    AloneWarning,
    CacheWarning,
    CellWarning,
    EarlyFlushWarning,
    GluonJITWarning,
    SmallBatchWarning,
)
from gluonjit.graph import Line, line_of
from gluonjit.hybrid.provenance import Provenance
from gluonjit.hybrid.report import Report

_IN_A_ROW = 10  # batches of which one could be an accident
_TOO_FEW = 1.5  # nodes a launch: below, a launch does no more than a call without batching
_THRASHING = 0.1  # of the launches are of graphs never seen before, after so many batches
_OPERATORS = 6  # of a function, from which on one node would pay
_CALLS = 30

_given: set[Hashable] = set()


ONE_AT_A_TIME = "samples were captured and differentiated one at a time, so that nothing could be batched."


class _Streaks(threading.local):
    """For each thread, how many batches in a row had what advice is about."""

    def __init__(self) -> None:
        self.alone = 0
        self.small = 0
        self.missing = 0
        self.looked = 0  # batches whose operators were counted
        self.seen: tuple[Report, int] | None = None


_streaks = _Streaks()


def advise(category: type[GluonJITWarning], key: Hashable, message: str, line: Line | None) -> None:
    """Warn, once for each key, as if from the user's line."""
    if (category, key) in _given:
        return
    _given.add((category, key))
    file, number = (line.file, line.number) if line is not None else ("<unknown>", 0)
    warnings.warn_explicit(message, category, file, number)


def forget() -> None:
    """Give all advice again."""
    _given.clear()
    _streaks.__init__()  # type: ignore[misc]


def after_flush(report: Report, flush: Provenance, samples: int, line: Line | None, early: bool) -> None:
    """What the flush of so many samples teaches; `line` made it run, `early` in the middle of what was captured."""
    if early and flush.plan.steps:
        _early(line)
    _alone(report, flush)
    _small(report, flush, samples, line, early)
    _thrashing(report, flush, line)
    _operators(flush)


def _early(line: Line | None) -> None:
    advise(
        EarlyFlushWarning,
        line,
        "a value is needed here while samples are being captured, so what they have captured so far runs "
        "by itself, in small batches. If the number is only wanted for a look, read it after the minibatch; if "
        "the program has to decide by it, let all samples reach this place before the first one reads.",
        line,
    )


def _alone(report: Report, flush: Provenance) -> None:
    for number, step in enumerate(flush.plan.steps):
        if step.kind.lone and step.count > 1:
            advise(
                AloneWarning,
                (step.kind.name, step.kind.lone),
                f"{step.kind.name} runs once per sample ({step.count} times in this batch): {step.kind.lone}. "
                f"Everything around it is batched; `python -m gluonjit rules{_operator(step.kind.lone)}` says how "
                f"operators run.",
                flush.line(number),
            )
    for name, reason in report.unbatched.items():
        if not any(reason.startswith(f"{operator}: ") for operator in report.alone):
            advise(
                CellWarning,
                (name, reason),
                f"a call of {name} is not one node, its operators are captured one by one: {reason}.",
                flush.line(0) if flush.plan.steps else None,
            )


def _operator(reason: str) -> str:
    """The operator that a reason begins with, as an argument of a command; nothing where it begins otherwise."""
    name, colon, _ = reason.partition(": ")
    return f" {name}" if colon and " " not in name else ""


def _small(report: Report, flush: Provenance, samples: int, line: Line | None, early: bool) -> None:
    """One sample at a time, or batches in which hardly anything runs together."""
    plan = flush.plan
    launches = sum(step.count if step.kind.lone else 1 for step in plan.steps)
    single = samples == 1 and not early and not any(step.mode >= 2 for step in plan.steps)
    _streaks.alone = _streaks.alone + 1 if single else 0
    small = samples != 1 and launches > 1 and plan.nodes < _TOO_FEW * launches
    _streaks.small = _streaks.small + 1 if small else 0
    if _streaks.alone == _IN_A_ROW:
        advise(
            SmallBatchWarning,
            ("single", line),
            f"the last {_IN_A_ROW} batches held one sample each, because a value was read after each: call the block "
            f"for all samples of a minibatch first, and read the results then.",
            line,
        )
    if _streaks.small == _IN_A_ROW:
        advise(
            SmallBatchWarning,
            "few",
            f"the last {_IN_A_ROW} batches ran fewer than {_TOO_FEW} nodes a launch, so batching does not pay: put "
            f"more samples into a minibatch, or see gluonjit.explain() for what keeps them apart.",
            line,
        )


def _thrashing(report: Report, flush: Provenance, line: Line | None) -> None:
    before = _streaks.seen[1] if _streaks.seen is not None and _streaks.seen[0] is report else 0
    misses = report.cache["misses"]
    _streaks.seen = (report, misses)
    _streaks.missing = _streaks.missing + 1 if misses - before > _THRASHING * len(flush.plan.steps) else 0
    if _streaks.missing == 2 * _IN_A_ROW:
        advise(
            CacheWarning,
            report.missed,
            f"each of the last {2 * _IN_A_ROW} batches met calls with a signature never seen before, the last one of "
            f"{report.missed}, and each of these is traced and made into a batched graph of its own. A number that "
            f"changes from call to call should be an array, not a Python number; a length that changes should be that "
            f"of axis 0.",
            line,
        )


def _operators(flush: Provenance) -> None:
    """Functions whose operators are captured one by one, call after call."""
    if _streaks.looked >= _IN_A_ROW:
        return
    nodes: dict[CodeType, dict[int, int]] = {}
    for step in flush.plan.steps:
        if not step.kind.operator or step.count < _CALLS:
            continue
        for record, numbers in step.parts:
            for node in numbers.tolist():
                origin = record.origins[node]
                if origin is not None:
                    offsets = nodes.setdefault(origin[0], {})
                    offsets[origin[1]] = offsets.get(origin[1], 0) + 1
    _streaks.looked += bool(nodes)
    for code, offsets in nodes.items():
        places = [count for count in offsets.values() if count >= _CALLS]
        if len(places) >= _OPERATORS and not code.co_name.startswith("<"):
            line = line_of((code, 0))
            advise(
                CellWarning,
                code,
                f"{line.function if line else code.co_name} captures {len(places)} operators a call, one by one, in "
                f"about {max(places)} calls. As a function or method decorated with @gluonjit.cell, what it computes "
                f"for one node of a sample would be captured at once; what recurses has to stay outside.",
                line,
            )
