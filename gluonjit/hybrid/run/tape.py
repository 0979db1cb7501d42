"""The history of one flush: the steps that were recorded, and backward passes through them, step by step in reverse.

Each step is recorded by itself, and gradients of rows lie in arenas of their own: so gathers cost no zero-filled
gradient of a whole arena, and each weight gets one gradient for the whole flush.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple

from gluonjit.analysis.costs.model import ObservedBackward
from gluonjit.analysis.plan import Place, Plan
from gluonjit.graph import Kind, line_of, user_line
from gluonjit.hybrid.check.entries import entry_of, replace_step
from gluonjit.hybrid.check.steps import StepCheck
from gluonjit.hybrid.choose.costs import cost_model
from gluonjit.hybrid.explain.advice import ONE_AT_A_TIME, one_at_a_time
from gluonjit.hybrid.run.reach import Reach, Route, rows_at
from gluonjit.hybrid.run.session import Session
from gluonjit.hybrid.run.state import LOCAL
from gluonjit.rows.running import row_flags
from gluonjit.rows.stretches import StepStretch, ends_of
from gluonjit.rows.ways import Learning, sources


class TapedStep(NamedTuple):
    """A step that was recorded: its results that have a history, by their numbers, and what learns of its sources.

    operands, consts: operands and weights that gradients go on to, as an engine needs them.
    """

    number: int
    results: Sequence[tuple[int, Any]]
    operands: Sequence[Any] = ()
    consts: Sequence[Any] = ()


class Pass(Reach):
    """One way back through a flush: gradients of rows, by arena, and of weights, by identity; and what it has reached.

    route: leads to the sources that are asked for, None if all are; dry: nothing is computed, it only reaches;
    laps: of a profiled pass, (step, begin, end).
    """

    def __init__(self, plan: Plan, arenas: Sequence[Any], route: Route | None = None, dry: bool = False) -> None:
        super().__init__(plan)
        self.arenas, self.route, self.dry = arenas, route, dry
        self.weights: dict[int, Any] = {}
        self.laps: list[tuple[int, float, float]] = []

    def arena(self, number: int) -> Any:
        """Returns the gradients of an arena's rows."""
        return self.arenas[number]

    def learned(self, weight: Any) -> Any:
        """Returns the gradient of a weight, to be added to."""
        return self.weights[id(weight)]


class Tape:
    """The steps of one flush that were recorded, in their order, as `TapedStep` or in stretches that ran in C.

    An engine says what makes a `new_pass`, how a head is put or added to it, how gradients go through a step of the
    framework (`step_back`), and how one is recorded again.

    backwards: how many passes have begun in it; gone: whether any has come here; freed: whether one has freed it;
    fused: the steps that run in C; check: what compares backward passes, where that is to be done; finite: what looks
    at numbers, if asked to. learned_rows, read_rows: flags of rows that learn, and that recorded steps have read;
    spent: rows through which a pass has come that was not told to keep the history.

    * `new_pass(route, dry)`: makes a pass whose gradients are zeros.
    * `put_head(made, arena, positions, head)`: sets the gradients of rows to numbers of numpy, one for each row.
    * `step_back(entry, made)`: adds to the gradients of a step's operands and weights, and reaches them; False if
      no result was reached.
    * `record_again(number)`: runs a step once more, recorded: one by one, as its program is not trusted.
    * `gradient_of(made, weight)`: returns the gradient of a weight, None if it does not learn.
    * `learns_weight(weight)`: true if gradients go on to a weight.
    """

    new_pass: Callable[..., Any]
    put_head: Callable[..., None]
    step_back: Callable[..., bool]
    record_again: Callable[..., None]
    gradient_of: Callable[..., Any]
    learns_weight: Callable[..., bool]
    advice: str
    framework: tuple[str, Mapping[str, str]]  # name and versions, to which measured costs belong

    def __init__(self, session: Session, samples: int) -> None:
        self.report, self.plan, self.provenance = session.report, session.plan, session.provenance
        self.samples, self.profile, self.finite = samples, session.profile, session.finite
        self.runner = session.runner
        plan = self.plan
        self.backwards = 0
        self.gone = self.freed = False
        self.entries: list[Any] = []
        self.fused: Any = None
        self.check: StepCheck | None = None
        self.learned_rows, self._learned = row_flags(plan)
        self.read_rows, self._read = row_flags(plan)
        self.spent = Reach(plan)

    # --- what the steps in C ask -----------------------------------------------------------------------------

    def weights(self, kind: Kind) -> frozenset[int]:
        """The constants that learn, of steps that are to run in C."""
        return frozenset([k for k, array in enumerate(kind.program.consts) if self.learns_weight(array)])

    def learning(self, kind: Kind, operands: frozenset[int], weights: frozenset[int]) -> Learning:
        """The results that learn, given operands and weights that do."""
        pairs = [(k, *sources(kind, (k,))) for k in range(len(kind.outputs))]
        results = [k for k, read, consts in pairs if read & operands or consts & weights]
        return Learning(weights, results, results, bool(results))

    @property
    def profiles(self) -> bool:
        """True if each step of a pass is waited for."""
        return self.profile

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

    # --- backward -----------------------------------------------------------------------------------------------

    def compare(self) -> None:
        """Compares the backward passes of steps with their traces, where that is still to be done."""
        if self.check is not None:
            self.check.backward(self)
            self.check = None

    def go_back(self, made: Any) -> list[int]:
        """Goes back through the steps from what a pass has reached; returns those that gradients go through."""
        gone = []
        begin = self.now() if not made.dry else 0.0
        for entry in self.entries_back(made):
            numbers, took = self._through(entry, made)
            if numbers and not made.dry:
                end = self.now()
                if self.profiles:
                    ends = ends_of(begin, end, took)
                    made.laps += zip(numbers, [begin, *ends], ends)
                begin = end
            gone += numbers
        return gone

    def entries_back(self, made: Any) -> Iterator[Any]:
        """Lists the entries, the last first, as a pass comes to them."""
        return iter(self.entries[::-1])

    def _through(self, entry: Any, made: Any) -> tuple[list[int], list[int]]:
        """Goes back through an entry; returns the steps that gradients go through, and their nanoseconds in C."""
        took = [0]
        if isinstance(entry, StepStretch):
            numbers, took = self.fused.go_back(entry, made)
            self.report.row_ms += sum(took) / 1e6
        elif made.route is not None and entry.number not in made.route.steps:
            made.pass_over(self.plan.steps[entry.number])
            numbers = []
        else:
            numbers = [entry.number] if self.step_back(entry, made) else []
        if self.finite is not None and not made.dry:
            for number in numbers:
                self.finite.gradients(number, made.arenas, list(made.weights.values()))
        return list(numbers), took

    def trial(self, number: int, heads: Sequence[tuple[int, Sequence[int], Any]]) -> tuple[Any, Any]:
        """Goes back through a step alone from gradients of rows; returns what reads those of rows, and of a weight."""
        made = self.new_pass()
        for arena, positions, head in heads:
            self.put_head(made, arena, list(positions), head)
            made.rows[arena][list(positions)] = True
        finite, self.finite = self.finite, None
        try:
            _, entry, place = entry_of(self.entries, number)
            self._through(entry.part(place, place + 1) if isinstance(entry, StepStretch) else entry, made)
        finally:
            self.finite = finite

        def weight(array: Any) -> Any:
            gradient = self.gradient_of(made, array)
            return None if gradient is None else self.runner.numbers_of(gradient)

        return lambda arena, positions: self.runner.numbers(made.arena(arena), positions), weight

    def redo(self, number: int) -> None:
        """Runs a step once more, recorded, in place of what was recorded of it."""
        before = len(self.entries)
        self.record_again(number)
        fresh = self.entries[before:]
        del self.entries[before:]
        replace_step(self.entries, number, fresh)

    def now(self) -> float:
        """Returns the time, when profiling after all that came before has run."""
        if self.profiles:
            self.runner.wait()
        return perf_counter()

    def account(self, made: Any, begin: float) -> tuple[float, float]:
        """Reports the time since then, by step where it was profiled; returns the seconds of no step, and the end."""
        end, rest = self.now(), 0.0
        for number, first, last in [*made.laps, (-1, end, end)]:
            self.report.took("backward", "backward", begin, first)
            rest += first - begin
            if number >= 0:
                self.report.took(self.plan.steps[number].kind.name, "backward", first, last)
            begin = last
        return rest, end

    def observe(self, made: Any, rest: float) -> None:
        """Lets the cost model learn from a profiled pass."""
        if self.profiles:
            laps = [(number, end - first) for number, first, end in made.laps]
            cost_model(*self.framework).observe_backward(ObservedBackward(self.plan, laps, rest))

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
