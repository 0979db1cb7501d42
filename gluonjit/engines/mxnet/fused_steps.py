"""Steps of a flush that run in C as a whole (see `gluonjit.rows`), on the memory of MXNet's arrays."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from gluonjit.analysis.plan import Plan
from gluonjit.engines.mxnet.arrays import address_of, room_for
from gluonjit.engines.mxnet.operators.table import call_of
from gluonjit.engines.mxnet.program import program_of
from gluonjit.engines.mxnet.threads import threads
from gluonjit.graph import Kind
from gluonjit.rows.lowering import lowered
from gluonjit.rows.program import NotFusable, RowProgram
from gluonjit.rows.running import NO_FLAGS, row_flags
from gluonjit.rows.steps import Steps
from gluonjit.rows.stretches import StepStretch
from gluonjit.rows.ways import Learner


class StepHistory(Learner, Protocol):
    """A history, as far as gradients need it."""

    learned_rows: Any
    """Flags of rows (`rows.row_flags`) that were computed from something that learns."""

    def gradient_address(self, arena: int) -> int:
        """The address of the gradients of an arena's rows."""

    def learned_address(self, given: Any) -> int:
        """The address of a weight's gradient."""


class FusedSteps:
    """The `steps` of a flush that run in C.

    MXNet computes in the background: a step waits, once, for what MXNet may still be writing.
    """

    def __init__(
        self,
        plan: Plan,
        arrays: list[Any],
        tape: StepHistory | None,
        without: Collection[str],
        unfused: dict[str, str],
    ) -> None:
        self.plan, self._arrays = plan, arrays
        self._tape = None if tape is None else weakref.ref(tape)  # which holds the steps that have run
        self._constants: dict[int, int] = {}
        recorded = [False] * len(plan.steps) if tape is None else plan.recorded
        self._read = NO_FLAGS if tape is None else row_flags(plan)[0]  # which nobody asks for
        self.steps = Steps(plan, without, _program, unfused, threads, recorded)

    def run(self, begin: int, end: int) -> StepStretch | None:
        """Runs steps up to one without a derivative, which runs as a graph; None if that is the first."""
        tape: Any = None if self._tape is None else self._history()
        learned = NO_FLAGS if tape is None else tape.learned_rows
        ways = self.steps.choose(begin, end, learned, self._read, tape, self)
        return self.steps.run(begin, ways, self) if ways else None

    def marks(self, stretch: StepStretch) -> bool:
        """Tells whether rows learn by any of these steps."""
        return any([self.steps.ways[way].learning.marks for way in set(stretch.ways)])

    def begin_backward(self) -> None:
        """Reads weights anew, as MXNet's own backward does, after pending writes to them."""
        self._constants.clear()
        self.steps.forget_weights()

    def reach(
        self,
        stretch: StepStretch,
        reached: Any,
        operands: Callable[[int, int], tuple[int, ...]],
        other: Callable[[int], Any],
    ) -> list[tuple[int, int]]:
        """Goes back through steps from what has been reached; those that gradients go through, each with its way."""
        ways = self.steps.ways
        pairs = [(n, way) for n, way in zip(stretch.steps, stretch.ways) if ways[way].learning.marks]
        steps, by = [n for n, _ in pairs[::-1]], [way for _, way in pairs[::-1]]
        going = self.steps.reach_nodes(steps, by, reached, operands, other)
        return [(number, way) for number, way in going if ways[way].learning.learns]

    def backward(self, going: Sequence[tuple[int, int]]) -> float:
        """Adds to the gradients of the operands and weights of these steps, one after the other; the milliseconds."""
        forms = {way: self.steps.backward_form(number, way, self) for way, number in {w: n for n, w in going}.items()}
        return self.steps.backward([(number, forms[way]) for number, way in going], self)

    def written(self, arenas: Sequence[int]) -> None:
        """MXNet writes to these arenas."""
        self.steps.forget(arenas)

    # --- gluonjit.rows.Memory -----------------------------------------------------------------------------------

    def arena(self, number: int) -> int:
        """The address of an arena's rows."""
        array = self._arrays[number]
        if array is None:
            arena = self.plan.arenas[number]
            array = self._arrays[number] = room_for(arena.spec, arena.rows)
        return address_of(array)

    def gradient(self, number: int) -> int:
        """The address of the gradients of an arena's rows."""
        return self._history().gradient_address(number)

    def constant(self, array: Any) -> int:
        """The address of a weight."""
        address = self._constants.get(id(array))
        if address is None:
            address = self._constants[id(array)] = address_of(array)
        return address

    def learned(self, array: Any) -> int:
        """The address of a weight's gradient."""
        return self._history().learned_address(array)

    def _history(self) -> StepHistory:
        tape = None if self._tape is None else self._tape()
        assert tape is not None
        return tape


def _program(kind: Kind) -> RowProgram:
    if program_of(kind).may_fail:
        raise NotFusable("it may fail")
    return lowered(kind, call_of)
