"""Steps of a flush that run in C as a whole, on the memory of a framework's arrays."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from gluonjit.analysis.plan import Plan
from gluonjit.graph import Kind
from gluonjit.graph.values import Spec
from gluonjit.rows.program import RowProgram
from gluonjit.rows.running import NO_FLAGS
from gluonjit.rows.steps import Steps
from gluonjit.rows.stretches import StepStretch


class FusedSteps:
    """The `steps` of a flush that run in C; an engine says where its arrays lie.

    session: has the plan, the arrays by arena, the report, and the tape, or None, with flags of rows (`row_flags`) that
    learn, and of those that have been read under recording. As the `learner` of steps the tape gives the `weights` of a
    kind that learn, once a flush, and what is `learning`, given operands and weights that do: the same in every flush.
    As the `memory` of steps this gives addresses of float32, row by row, which may be read and written at once: of an
    `arena`, of the `gradient` of its rows, of a weight (`constant`) and of what it has `learned`.

    * `through(stretch, number, way, given)`: finds how a pass goes through a step from these results (see
      `Steps.reach`): operands, and a form.
    """

    through: Callable[..., Any]
    _pass: Any = None  # that goes through a stretch

    make: Callable[[Kind], RowProgram]  # the program of the nodes of a kind; raises NotFusable
    threads: Callable[[], int]  # that the framework lets an operator take
    address: Callable[[Any], int]  # of an array, when it may be read and written

    def __init__(self, session: Any, without: Collection[str]) -> None:
        self.plan: Plan = session.plan
        self._arrays: list[Any] = session.arrays
        self._room_for: Callable[[Spec, int], Any] = session.runner.room_for
        self._tape = None if session.tape is None else weakref.ref(session.tape)  # which holds the steps that have run
        recorded = [False] * len(self.plan.steps) if session.tape is None else self.plan.recorded
        self.steps = Steps(self.plan, without, self.make, session.report.unfused, self.threads, recorded)

    @property
    def tape(self) -> Any:
        """The history, or None."""
        return None if self._tape is None else self._tape()

    def run(self, begin: int, end: int) -> StepStretch | None:
        """Runs steps, up to one that has to run otherwise; None if that is the first."""
        tape = self.tape
        memory: Any = self
        learned, read = (NO_FLAGS, NO_FLAGS) if tape is None else (tape.learned_rows, tape.read_rows)
        ways = self.steps.choose(begin, end, learned, read, tape, memory)
        return self.steps.run(begin, ways, memory) if ways else None

    def go_back(self, stretch: StepStretch, made: Any) -> tuple[list[int], list[int]]:
        """Goes back through steps from the rows that a pass has reached (`hybrid.run.tape.Pass`); adds gradients to its
        arenas and weights unless it is dry. Returns the steps that gradients go through, and their nanoseconds."""
        ways = self.steps.ways
        pairs = [pair for pair in zip(stretch.steps[::-1], stretch.ways[::-1]) if ways[pair[1]].learning.learns]
        if not pairs:
            return [], []
        steps, by = map(list, zip(*pairs))
        passed = None if made.route is None else frozenset(steps) - made.route.steps
        self._pass = made
        try:
            going = self.steps.reach(steps, by, made.flags, passed, partial(self.through, stretch), self.other(made))
            took = [] if made.dry else self.steps.backward(going, self)
        finally:
            self._pass = None
        return [number for number, _ in going], took

    def other(self, made: Any) -> Callable[[int], Any] | None:
        """Returns what goes through a step whose nodes have any number of rows, where a node is reached as a whole."""
        return None

    def marks(self, stretch: StepStretch) -> bool:
        """True if rows learn by any of these steps."""
        return any([self.steps.ways[way].learning.marks for way in set(stretch.ways)])

    def array(self, number: int) -> Any:
        """The rows of an arena."""
        found = self._arrays[number]
        if found is None:
            arena = self.plan.arenas[number]
            found = self._arrays[number] = self._room_for(arena.spec, arena.rows)
        return found

    # --- gluonjit.rows.Memory -----------------------------------------------------------------------------------

    def arena(self, number: int) -> int:
        """The address of an arena's rows."""
        return self.address(self.array(number))

    def gradient(self, number: int) -> int:
        """The address of the gradients of an arena's rows."""
        return self.address(self._pass.arena(number))

    def constant(self, array: Any) -> int:
        """The address of a weight."""
        return self.address(array)

    def learned(self, array: Any) -> int:
        """The address of a weight's gradient."""
        return self.address(self._pass.learned(array))
