"""Minibatches of a thread: where they begin and end, what ran in the last one, and whether that ran too early.

A minibatch extends from the first capture after the last backward pass, optimizer step, or beginning or end of
`batching()` to the next of these. A program may divide it into several flushes by reading in the middle. Outside of
`batching()` a read between samples may also be its end: what runs next belongs to it if it uses its results, or if one
backward pass later goes through both.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple
from weakref import ref

from gluonjit.analysis.plan import Plan
from gluonjit.graph import Line
from gluonjit.hybrid.explain.counts import KindRow
from gluonjit.hybrid.explain.report import Report

TOO_FEW = 1.5
"""Nodes a launch: below, a launch does no more than a call without batching."""


class MinibatchPart(NamedTuple):
    """A batch's part of a minibatch: its report, less what that was when the minibatch began."""

    report: Report
    before: Report | None
    batch: ref[Any]


class Early(NamedTuple):
    """A flush that came early: what made it run, `"sample"` or `"scope"` it was in the middle of, and its kinds.

    caller: the function of the framework's that needed values, where one did.
    """

    line: Line | None
    middle: str
    kinds: frozenset[int]
    caller: str = ""


class Minibatch(threading.local):
    """The last minibatch of a thread.

    pieces: what ran of it; ended: whether what runs next is sure to be of another; passes: how many backward
    passes are under way; gone: whether one has gone through a batch.
    """

    def __init__(self) -> None:
        self.pieces: list[MinibatchPart] = []
        self.ended = True
        self.passes = 0
        self.gone = False
        self._marks: dict[int, MinibatchPart] = {}  # reports when the last minibatch ended, by address
        # Since then, and what each can be differentiated by.
        self._recent: list[tuple[MinibatchPart, ref[Any] | None]] = []
        self._early: Early | None = None

    def end(self) -> None:
        """Ends the minibatch: later runs belong to another one."""
        self.gone = False
        if self.ended:
            return
        histories = [None if history is None else history() for _, history in self._recent]
        reached = [number for number, tape in enumerate(histories) if tape is not None and tape.gone]
        if reached:
            pieces = {id(piece.report): piece for piece, _ in self._recent[reached[0] :]}
            self.pieces = [piece for piece in self.pieces if id(piece.report) not in pieces] + list(pieces.values())
        living = [piece for piece in self.pieces if piece.batch() is not None]  # which may run more
        self._marks = {id(piece.report): piece._replace(before=counts_now(piece.report)) for piece in living}
        self.ended, self._recent = True, []

    def ran(self, batch: Any, carried: bool, history: Any) -> None:
        """Notes a flush; `carried` if it used earlier results; `history` differentiates it."""
        report, ended = batch.report, self.ended
        piece = None if ended else next((known for known in self.pieces if known.report is report), None)
        if piece is None:
            if not ended and (batch.explicit or carried):
                piece = MinibatchPart(report, None, ref(batch))
                self.pieces = [*self.pieces, piece]
            else:
                piece = self._marks.get(id(report)) or MinibatchPart(report, None, ref(batch))
                self.pieces = [piece]
                if ended:
                    self.ended, self._marks, self._early = False, {}, None
        recent = self._recent
        recent.append((piece, None if history is None else ref(history)))
        while recent and ((first := recent[0][1]) is None or first() is None):
            del recent[0]  # nobody can go back through it any more

    def came_early(
        self, plan: Plan, samples: int, apart: int, middle: str, line: Line | None, caller: str
    ) -> Early | None:
        """Notes a flush in the `middle` of something; returns the earlier one that has cost something, or None.

        Of `samples` samples that were begun, `apart` use no earlier results: they could have run earlier. Only later
        flushes show whether anything was lost: if all samples had reached this one, nothing was.
        """
        before, self._early = self._early, None
        if before is None and not middle:
            return None
        kinds = frozenset(id(step.kind) for step in plan.steps)
        little = samples == 1 or (not samples and plan.nodes < TOO_FEW * plan.launches)
        if middle and kinds and (middle == "sample" or little):
            self._early = Early(line, middle, kinds, caller)
        if before is None or not apart or not (before.kinds & kinds):
            return None
        return before if before.middle == "sample" or little else None

    def report(self, batch: Any) -> Report:
        """Returns the report of the minibatch: all its pieces, and that of an open `batch` with pending calls."""
        pieces = self.pieces
        if batch is not None and not batch.empty:
            known = any(piece.report is batch.report for piece in pieces)
            if self.ended or not (known or batch.explicit or batch.carried):
                return batch.report  # type: ignore[no-any-return]
            pieces = pieces if known else [*pieces, MinibatchPart(batch.report, None, ref(batch))]
        if not pieces:
            return Report()
        last = pieces[-1].report
        if len(pieces) == 1 and pieces[0].before is None:
            return last
        whole = Report()
        for piece in pieces:
            since = 0.0
            for part, sign in ((piece.report, 1), (piece.before, -1)):
                if part is not None:
                    _add(whole, part, sign)
                    whole._bound += sign * part.lower_bound
            if piece.before is not None:
                since = max([end for *_, end in piece.before._events], default=0.0)
            whole._events.extend([event for event in piece.report._events if event[2] >= since])
        for name in ("choice", "missed", "last", "model", "captured", "_step_seconds"):
            setattr(whole, name, getattr(last, name))
        return whole


MINIBATCH = Minibatch()
"""The minibatch of the thread that asks."""

_NUMBERS = "calls nodes dropped launches fused row_ms gathers gathered flushes checked".split()
_NOTES = ("alone", "unbatched", "by_number", "outlined", "unfused", "fine", "distrusted", "unchecked")
_COUNTS = ("reasons_at", "cache", "ms", "reads")


def counts_now(report: Report) -> Report:
    """Copies the current counts of a report."""
    copy = Report(last=report.last, _plans=list(report._plans), _bound=report._bound)
    _add(copy, report, 1)
    copy._events.extend([report._events[-1]] if report._events else [])
    return copy


def _add(whole: Report, part: Report, sign: int) -> None:
    """Adds a report's counts to another's, or takes them away."""
    for name in _NUMBERS:
        setattr(whole, name, getattr(whole, name) + sign * getattr(part, name))
    for name in _NOTES:
        if sign > 0:
            getattr(whole, name).update(getattr(part, name))
    for name in _COUNTS:
        _count(getattr(whole, name), getattr(part, name), sign)
    whole.reasons_at = {reason: count for reason, count in whole.reasons_at.items() if count}
    for name, row in part.kinds.items():
        known = whole.kinds.get(name, KindRow(0, 0, 0))
        whole.kinds[name] = KindRow(*[have + sign * count for have, count in zip(known, row)])
    whole.kinds = {name: row for name, row in whole.kinds.items() if any(row)}
    for name, found in vars(part.reuse).items():
        if isinstance(found, dict):
            _count(getattr(whole.reuse, name), found, sign)
        else:
            setattr(whole.reuse, name, getattr(whole.reuse, name) + sign * found)


def _count(whole: dict[Any, Any], part: dict[Any, Any], sign: int) -> None:
    for name, count in part.items():
        whole[name] = whole.get(name, 0) + sign * count
