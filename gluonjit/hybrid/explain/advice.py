"""Performance warnings: what slows a program down, on which line, and what to do about it.

Each piece of advice is given once per process, after the flush that showed it.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Hashable
from types import CodeType
from typing import Any

from gluonjit.errors import (
    AloneWarning,
    BackwardWarning,
    CacheWarning,
    CellWarning,
    EarlyFlushWarning,
    GluonJITWarning,
    SmallBatchWarning,
)
from gluonjit.graph import Line, line_of, warn_at
from gluonjit.hybrid.explain.minibatch import MINIBATCH, TOO_FEW, Early
from gluonjit.hybrid.explain.provenance import Provenance
from gluonjit.hybrid.explain.report import Report

_IN_A_ROW = 10  # batches of which one could be an accident
_MANY = 8  # nodes a launch: from here on one call is a minibatch by itself
_THRASHING = 0.1  # of the launches are of graphs never seen before, after this many batches
_OPERATORS = 6  # of a function, from which on one node would pay
_CALLS = 30

_given: set[Hashable] = set()
_shown: dict[Any, Any] = {}  # as Python keeps for each module what it has shown


ONE_AT_A_TIME = "samples were captured and differentiated one at a time, so nothing could be batched."


class _Streaks(threading.local):
    """The number of consecutive batches that showed each fault, by thread."""

    def __init__(self) -> None:
        self.alone = 0
        self.small = 0
        self.missing = 0
        self.told = False  # that samples are differentiated one by one
        self.looked = 0  # batches whose operators were counted
        self.seen: tuple[Report, int] | None = None
        self.anew = 0


_streaks = _Streaks()


def advise(category: type[GluonJITWarning], key: Hashable, message: str, line: Line | None) -> None:
    """Warns, once for each key, as if from the user's line."""
    if (category, key) in _given:
        return
    _given.add((category, key))
    warn_at(line, message, category)


def forget() -> None:
    """Gives all advice again."""
    _given.clear()
    _shown.clear()
    _streaks.__init__()  # type: ignore[misc]


def one_at_a_time(message: str, line: Line | None) -> None:
    """Warns that samples are differentiated one by one; a warning about small batches is then unnecessary."""
    _streaks.told = True
    warn_at(line, message, BackwardWarning, registry=_shown)


def after_flush(
    report: Report, flush: Provenance, samples: int, reason: str, line: Line | None, early: Early | None
) -> None:
    """Advises after a flush of this many samples; `line` made it run, `early` is an earlier one that was too early."""
    if early is not None:
        _early(early)
        _streaks.alone = 0
    plan = flush.plan
    if plan.common.by_operators is None:
        plan.common.by_operators = any(step.kind.operator and step.count >= _CALLS for step in plan.steps)
    if plan.launches > len(plan.steps) or report.unbatched:
        _alone(report, flush)
    _thrashing(report, flush, line)
    if not MINIBATCH.passes:  # what a checkpoint computes again has its samples one by one
        _small(flush, samples, reason, line)
    if plan.common.by_operators and _streaks.looked < _IN_A_ROW:
        _operators(flush)


_DECIDES = (
    "If the number is only for inspection, read it after the minibatch; if the program branches on it, type "
    "gluonjit.map(function, samples) for the loop over samples, in which all reach this line before the batch runs, or "
    "torch.where(condition, a, b) (mx.nd.where), which needs no value. Integer inputs are read without running "
    "anything."
)
_INTO = "type `out = out.{}(...)`, which returns a new tensor and is captured"
_BY_VALUES = (
    "the number of its rows depends on values: keep all rows, as by torch.where(mask, x, 0), or compute the mask "
    "from integer inputs, which are known"
)
_INSTEAD = {
    "__setitem__": (
        "create the tensor like a captured one, as `out = h.new_zeros(...)`, or collect the rows in a list and "
        "torch.stack them"
    ),
    "masked_select": _BY_VALUES,
    "nonzero": _BY_VALUES,
    "unique": _BY_VALUES,
    "__getitem__": _BY_VALUES,
    "requires_grad_": "make the tensor that requires gradients before, from known numbers (torch.zeros)",
}
"""The call to type instead of a function that needs values; by its name, as the framework has it."""


def _early(early: Early) -> None:
    said = _INSTEAD.get(early.caller)
    if said is None and early.caller.endswith("_") and not early.caller.endswith("__"):
        said = _INTO.format(early.caller[:-1])
    if said is not None:
        said = f"{early.caller} needs values here: {said}."
    advise(
        EarlyFlushWarning,
        early.line,
        "a value is read here while samples are being captured, so what they have captured so far runs by "
        f"itself, in small batches. {said or _DECIDES}",
        early.line,
    )


def _alone(report: Report, flush: Provenance) -> None:
    for number, step in enumerate(flush.plan.steps):
        if step.kind.lone and step.count > 1:
            advise(
                AloneWarning,
                (step.kind.name, step.kind.lone),
                f"{step.kind.name} runs once per sample ({step.count} times in this batch): {step.kind.lone}. "
                f"Everything around it is batched; `python -m gluonjit rules{_operator(step.kind.lone)}` says how "
                "operators run.",
                flush.line(number),
            )
    for name, reason in report.unbatched.items():
        if name not in report.fine and not any(reason.startswith(f"{operator}: ") for operator in report.alone):
            advise(
                CellWarning,
                (name, reason),
                f"a call of {name} is not one node, its operators are captured one by one: {reason}.",
                flush.line(0) if flush.plan.steps else None,
            )


def _operator(reason: str) -> str:
    """The operator that a reason begins with, as an argument of a command; empty if there is none."""
    name, colon, _ = reason.partition(": ")
    return f" {name}" if colon and " " not in name else ""


def _small(flush: Provenance, samples: int, reason: str, line: Line | None) -> None:
    """Warns of one sample per batch, or of batches in which hardly anything runs together."""
    plan = flush.plan
    launches = plan.launches
    asked = "flush_at=" in reason or "max_nodes" in reason  # options
    single = samples == 1 and plan.nodes < _MANY * launches and not asked
    if samples or asked:  # else it goes on with the sample before
        _streaks.alone = _streaks.alone + 1 if single else 0
    small = samples != 1 and not _streaks.anew and launches > 1 and plan.nodes < TOO_FEW * launches
    _streaks.small = _streaks.small + 1 if small else 0
    if _streaks.alone == _IN_A_ROW and not _streaks.told:
        why = "backward was called" if reason.startswith("backward") else "a value was read"
        advise(
            SmallBatchWarning,
            ("single", line),
            f"the last {_IN_A_ROW} batches held one sample each, because {why} after each: call the block for all "
            "samples of a minibatch first, then read the results, or call backward once for the sum of losses.",
            line,
        )
    if _streaks.small == _IN_A_ROW:
        advise(
            SmallBatchWarning,
            "few",
            f"the last {_IN_A_ROW} batches ran fewer than {TOO_FEW} nodes per launch, so batching does not pay: "
            "put more samples into a minibatch, or see gluonjit.explain() for what keeps them apart.",
            line,
        )


def _thrashing(report: Report, flush: Provenance, line: Line | None) -> None:
    before = _streaks.seen[1] if _streaks.seen is not None and _streaks.seen[0] is report else 0
    misses = report.cache["misses"]
    _streaks.seen = (report, misses)
    _streaks.missing = _streaks.missing + 1 if misses - before > _THRASHING * len(flush.plan.steps) else 0
    _streaks.anew = _streaks.anew + 1 if _streaks.missing and report.anew else 0
    if _streaks.missing == 2 * _IN_A_ROW and _streaks.anew >= _IN_A_ROW:
        advise(
            CacheWarning,
            ("anew", report.anew),
            f"each of the last {2 * _IN_A_ROW} batches met a {report.anew} that was never called before. Each of "
            "these objects is traced and compiled into its own batched graph, whose calls run with no other's. "
            f"Make the {report.anew} once, outside of the loop, and call it for all samples.",
            line,
        )
    elif _streaks.missing == 2 * _IN_A_ROW:
        advise(
            CacheWarning,
            report.missed,
            f"each of the last {2 * _IN_A_ROW} batches met calls with a new signature, the last one of "
            f"{report.missed}. Each of these is traced and compiled into its own batched graph. Pass a number "
            "that changes from call to call as an array, not as a Python number; a length that changes should be "
            "that of axis 0.",
            line,
        )


def _operators(flush: Provenance) -> None:
    """Warns of functions whose operators are captured one by one, call after call."""
    nodes: dict[CodeType, Counter[int]] = defaultdict(Counter)
    for step in flush.plan.steps:
        if not step.kind.operator or step.count < _CALLS:
            continue
        for record, numbers in step.parts:
            for node in numbers.tolist():
                origin = record.origins[node]
                if origin is not None:
                    nodes[origin[0]][origin[1]] += 1
    _streaks.looked += bool(nodes)
    for code, offsets in nodes.items():
        places = [count for count in offsets.values() if count >= _CALLS]
        if len(places) >= _OPERATORS and not code.co_name.startswith("<"):
            line = line_of((code, 0))
            advise(
                CellWarning,
                code,
                f"{line.function if line else code.co_name} captures {len(places)} operators per call, one by "
                f"one, in about {max(places)} calls. Move the computation for one node of a sample into a "
                "function or method decorated with @gluonjit.cell, which is captured at once; recursion has to "
                "stay outside.",
                line,
            )
