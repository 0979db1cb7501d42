"""Steps of a flush on a framework: each runs as a program of the framework's operators, or several at once in C."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from typing import Any

from gluonjit.analysis.plan import Gather, Plan, row_bytes
from gluonjit.errors import GluonJITError
from gluonjit.graph.modes import is_recorded
from gluonjit.hybrid.check.entries import GRAPH, ROWS
from gluonjit.hybrid.check.runner import NodeRunner
from gluonjit.hybrid.check.steps import StepCheck
from gluonjit.hybrid.explain.counts import Counts
from gluonjit.hybrid.explain.finite import FiniteCheck
from gluonjit.hybrid.explain.provenance import Provenance
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.session import Session
from gluonjit.rows.fused_steps import FusedSteps
from gluonjit.rows.steps import Steps

_NOW: AbstractContextManager[None] = nullcontext()
_SMALL = 1 << 14  # bytes of an arena that may stay as long as some of its rows


class Indices:
    """Arrays of numbers that steps need on their devices. An engine says how these are `sent`.

    gathers: by step the index of each gather, None if rows follow each other; besides: what else its program is given,
    which tells nodes of different lengths apart, or whose each child is.
    """

    def __init__(self) -> None:
        self.gathers: dict[int, list[Any]] = {}
        self.besides: dict[int, Sequence[Any]] = {}

    def upload(self, plan: Plan, steps: Sequence[int]) -> None:
        """Adds those of these steps. They travel as one."""
        listed = plan.indices(steps)
        for number in steps:
            step = plan.steps[number]
            self.gathers[number] = [None] * len(step.gathers)
            if step.kind.program.stages is not None:
                self.besides[number] = ([(part.record.kind.program, len(part.nodes)) for part in step.parts],)
        self.add_children(plan, [number for number in steps if plan.steps[number].arities is not None], listed)
        for device, wanted in listed.items():
            for (number, position, _), part in zip(wanted, self.sent(device, [index for _, _, index in wanted])):
                if position < 0:
                    self.besides[number] = (part,)
                else:
                    self.gathers[number][position] = part

    def sent(self, device: str, parts: list[Any], /) -> Sequence[Any]:
        """Sends numbers to a device."""
        raise NotImplementedError

    def add_children(self, plan: Plan, steps: list[int], listed: dict[str, list[Any]], /) -> None:
        """Adds whose each child is in these steps, to what is to be sent, with -1 for a gather, or at once."""
        raise NotImplementedError


class SteppedSession(Session):
    """A session that runs steps in C where it can. An engine says how these run, and how others do.

    check: what compares steps with their traces; fused: the steps that run in C, or None; indices: those of others.
    """

    check: StepCheck
    fused: Any = None
    fused_steps: type[FusedSteps]
    indices: Indices

    runner: NodeRunner

    def __init__(self, plan: Plan, report: Counts, options: Options, samples: int, provenance: Provenance) -> None:
        super().__init__(plan, report, options, provenance)
        if options.check_finite:
            self.finite = FiniteCheck(provenance, self.numbers)
        self.make_room()
        self.begin()
        self.set_up(options, samples)

    def begin(self) -> None:
        """Makes what an engine remembers of a flush."""
        raise NotImplementedError

    def numbers(self, array: Any, /) -> Any:
        """Reads an array's numbers."""
        raise NotImplementedError

    def set_up(self, options: Options, samples: int) -> None:
        """Finds out how each step runs; a stretch in C ends where a step is to be compared."""
        self.tape = self.tape_of(samples)
        self.check = StepCheck(self, options.check, self.runner)
        fused = self.fused = self.fused_steps(self, options.without)
        fused.steps.stops = self.check.stops(fused.steps.begun)
        if self.tape is not None:
            self.tape.fused, self.tape.check = fused, self.check
        self.prepare(fused.steps.others)

    def tape_of(self, samples: int) -> Any:
        """Returns a new tape, if anything is recorded, or None."""
        raise NotImplementedError

    @property
    def rows_in_c(self) -> Steps | None:
        """The steps that run in C."""
        return None if self.fused is None else self.fused.steps

    def run_graph(self, number: int) -> None:
        """Gathers the operands of a step, runs its program, and puts its results into their places."""
        step = self.plan.steps[number]
        tape = self.tape if is_recorded(step.mode) else None
        begin = perf_counter()
        with self.as_captured(number):
            operands = [
                self.operand(gather, index, tape) for gather, index in zip(step.gathers, self.indices.gathers[number])
            ]
            middle = self.lap(number, "gather", begin)
            if self.finite is not None:
                self.finite.weights(number, step.kind.program.consts)
            results = self.compute(number, operands, tape)
            agrees = self.check.agrees(number, GRAPH)
        self.lap(number, "compute", middle)
        if not agrees:
            if tape is not None:
                tape.drop(number)
            self.run_graph(number)
        elif self.finite is not None:
            self.finite.results(number, results)

    def as_captured(self, number: int) -> AbstractContextManager[Any]:
        """Returns a region in which a step's framework is as when its calls were captured."""
        return _NOW

    def operand(self, gather: Gather, index: Any, tape: Any) -> Any:
        """Gathers rows, recorded if there is a tape."""
        raise NotImplementedError

    def compute(self, number: int, operands: list[Any], tape: Any) -> Sequence[Any]:
        """Runs the program of a step, recorded if there is a tape, and puts its results into their places."""
        raise NotImplementedError

    def prepare(self, steps: Sequence[int]) -> None:
        """Prepares for steps that do not run in C."""
        if steps:
            self.indices.upload(self.plan, steps)

    def stays(self, arena: int) -> bool:
        """True if an arena may stay for as long as some of its rows: a small one, without history."""
        return self.tape is None and row_bytes(self.plan.arenas[arena].spec) * self.plan.arenas[arena].rows <= _SMALL

    def finish(self) -> None:
        """Forgets what only the run needed."""
        del self.indices
        if self.tape is None:
            if self.fused is not None:
                self.fused.steps.done()
        elif not self.check.owes(self.tape.entries):
            self.tape.check = None

    def error_of(self, number: int, error: Exception) -> Exception | None:
        """Returns the error of a step that failed; None where its nodes are to run one by one."""
        raise NotImplementedError

    def region(self) -> AbstractContextManager[Any]:
        """Returns a region in which steps run."""
        return _NOW

    def run(self, number: int) -> None:
        """Runs a step."""
        try:
            with self.region():
                self.attempt(number)
        except GluonJITError:
            raise
        except Exception as error:
            self._fail(number, error)
            self.run(number)

    def attempt(self, number: int) -> None:
        """Runs a step, in C or not."""
        if not self._run_rows(number, number + 1):
            self.run_graph(number)

    def run_from(self, number: int) -> int:
        """Runs a step, or all from it on that run in C, at once; returns the number of the next one."""
        steps, ran = self.rows_in_c, 0
        if steps is not None and not self.profile and self.finite is None and number in steps:
            try:
                with self.region():
                    ran = self._run_rows(number, steps.end(number))
            except GluonJITError:
                raise
            except Exception as error:
                self._fail(steps.under_way, error)
        return number + ran if ran else super().run_from(number)

    def _fail(self, number: int, error: Exception) -> None:
        """Raises for a step that failed, if its nodes do not run one by one."""
        said = self.error_of(number, error)
        if said is not None:
            raise said from error
        if self.rows_in_c is not None:
            self.prepare(self.rows_in_c.leave(number))

    def _run_rows(self, begin: int, end: int) -> int:
        """Runs steps in C, and returns how many have run so: up to one for which that cannot be."""
        steps = self.rows_in_c
        if steps is None or begin not in steps:
            return 0
        since = perf_counter()
        if self.finite is not None:
            self.finite.weights(begin, self.plan.steps[begin].kind.program.consts)
        ran, others = self.fused.run(begin, end), [begin]
        if ran is not None and not self.check.agrees(begin, ROWS):
            ran, others = None, steps.leave(begin)
        if ran is None:
            self.prepare(others)
            return 0
        if self.tape is not None:
            self.tape.note_fused(ran)
        self.laps(ran, since)
        if self.finite is not None:
            self.finite.results(begin, [self.at(place) for place in self.plan.steps[begin].places])
        return len(ran.steps)
