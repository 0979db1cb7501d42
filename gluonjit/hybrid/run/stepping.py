"""Steps of a flush on a framework: each runs as a program of the framework's operators, or several at once in C."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from typing import Any

from gluonjit.errors import GluonJITError
from gluonjit.hybrid.check.entries import ROWS
from gluonjit.hybrid.check.runner import NodeRunner
from gluonjit.hybrid.check.steps import StepCheck
from gluonjit.hybrid.run.session import ArraySession
from gluonjit.rows.steps import Steps

_NOW: AbstractContextManager[None] = nullcontext()


class SteppedSession(ArraySession):
    """A session that runs steps in C where it can. An engine says how these run, and how others do.

    check: what compares steps with their traces; rows_in_c: the steps that run in C, or None.
    """

    check: StepCheck
    rows_in_c: Steps | None = None

    def set_up(self, steps: Steps, option: str, runner: NodeRunner) -> None:
        """Takes the steps that run in C, of which a stretch ends where one is to be compared."""
        self.check = StepCheck(self.plan, self.arrays, self.report, self.provenance, option, runner)
        self.rows_in_c = steps
        steps.stops = self.check.stops(steps.begun)

    def run_graph(self, number: int) -> None:
        """Gathers the operands of a step, runs its program, and puts its results into their places."""
        raise NotImplementedError

    def run_rows(self, begin: int, end: int) -> Any:
        """Runs steps in C up to one for which that cannot be; returns what the tape notes, or None if it is the first.

        That has the numbers of `steps` that ran, and what each of them `took`.
        """
        raise NotImplementedError

    def prepare(self, steps: Sequence[int]) -> None:
        """Prepares for steps that do not run in C."""
        raise NotImplementedError

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
        ran, others = self.run_rows(begin, end), [begin]
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
