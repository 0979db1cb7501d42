"""The history of one flush: the steps that were recorded, and the rows that gradients go through."""

from __future__ import annotations

from typing import Any

from gluonjit.analysis.plan import Place
from gluonjit.graph import line_of, user_line
from gluonjit.hybrid.check.steps import StepCheck
from gluonjit.hybrid.explain.advice import ONE_AT_A_TIME, one_at_a_time
from gluonjit.hybrid.run.reach import rows_at
from gluonjit.hybrid.run.state import LOCAL
from gluonjit.hybrid.run.stepping import SteppedSession
from gluonjit.rows.running import row_flags
from gluonjit.rows.stretches import StepStretch


class Tape:
    """The steps of one flush that were recorded, in their order: an engine's own entries, and stretches that ran in C.

    backwards: how many passes have begun in it; gone: whether any has come here; freed: whether one has freed it;
    fused: the steps that run in C; check: what compares backward passes, where that is to be done; finite: what looks
    at numbers, if asked to. learned_rows, read_rows: flags of rows that learn, and that recorded steps have read.
    """

    advice: str

    def __init__(self, session: SteppedSession, samples: int) -> None:
        self.report, self.plan, self.provenance = session.report, session.plan, session.provenance
        self.samples, self.profile, self.finite = samples, session.profile, session.finite
        plan = self.plan
        self.backwards = 0
        self.gone = self.freed = False
        self.entries: list[Any] = []
        self.fused: Any = None
        self.check: StepCheck | None = None
        self.learned_rows, self._learned = row_flags(plan)
        self.read_rows, self._read = row_flags(plan)

    def learn(self, place: Place) -> None:
        """Notes that gradients go through these rows."""
        self._learned[place.arena][place.begin : place.end] = True

    def learns(self, place: Place, index: Any = None) -> bool:
        """True if gradients go through any of these rows. numpy's own `any` takes ten times as long."""
        return 1 in self._learned[place.arena][rows_at(place, index)].tobytes()

    def learned_at(self, arena: int, rows: Any) -> bool:
        """True if gradients go through all of these rows."""
        return bool(self._learned[arena][list(rows)].all())

    def note_fused(self, ran: StepStretch) -> None:
        """Remembers steps that ran in C, where rows learn by them."""
        if self.fused.marks(ran):
            self.entries.append(ran)

    def drop(self, number: int) -> None:
        """Forgets a step that was recorded last."""
        if self.entries and getattr(self.entries[-1], "number", None) == number:
            del self.entries[-1]

    def note_pass(self, number: int = -1) -> None:
        """Notes a backward pass, the framework's own of this number; warns where it comes from one sample."""
        self.backwards += 1
        if LOCAL.state.one_at_a_time(self.samples, self.backwards == 1, number):
            self.warn(ONE_AT_A_TIME)

    def warn(self, what: str) -> None:
        """Warns of backward passes of few samples, with advice."""
        one_at_a_time(f"{what} {self.advice}", line_of(user_line()))

    def free(self) -> None:
        """Forgets the history."""
        self.freed = True
        self.entries = []
        self.check = self.fused = None
