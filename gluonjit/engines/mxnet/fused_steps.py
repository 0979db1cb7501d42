"""Steps of a flush that run in C as a whole (see `gluonjit.rows`), on the memory of MXNet's arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gluonjit.engines.mxnet.arrays import address_of, room_for
from gluonjit.engines.mxnet.operators.table import call_of
from gluonjit.engines.mxnet.program import program_of
from gluonjit.engines.mxnet.reach import Reach
from gluonjit.engines.mxnet.threads import threads
from gluonjit.graph import Kind
from gluonjit.rows import fused_steps
from gluonjit.rows.lowering import lowered
from gluonjit.rows.program import NotFusable, RowProgram
from gluonjit.rows.stretches import StepStretch


def row_program(kind: Kind) -> RowProgram:
    """The program of the nodes of a kind. Raises NotFusable."""
    if program_of(kind).may_fail:
        raise NotFusable("it may fail")
    return lowered(kind, call_of)


class FusedSteps(fused_steps.FusedSteps):
    """The `steps` of a flush that run in C.

    MXNet computes in the background: a step waits, once, for what MXNet may still be writing.
    """

    room_for = staticmethod(room_for)

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._constants: dict[int, int] = {}

    def make(self, kind: Kind) -> RowProgram:
        return row_program(kind)

    def threads(self) -> int:
        return threads()

    def begin_backward(self) -> None:
        """Reads weights anew, as MXNet's own backward does, after pending writes to them."""
        self._constants.clear()
        self.steps.forget_weights()

    def reach(self, stretch: StepStretch, reach: Reach) -> list[tuple[int, int]]:
        """Goes back through steps from what has been reached; those that gradients go through, each with its way."""
        ways, plan = self.steps.ways, self.plan.steps
        pairs = [(n, way) for n, way in zip(stretch.steps, stretch.ways) if ways[way].learning.marks]
        steps, by = [n for n, _ in pairs[::-1]], [way for _, way in pairs[::-1]]

        def through(number: int, way: int, given: bytes) -> Any:
            step = plan[number]
            return tuple([((k,), reach.operands(step, k)) for k, found in enumerate(given) if found]), way

        going = self.steps.reach(steps, by, reach.flags, None, through, lambda number: reach.through(plan[number]))
        return [(number, way) for number, way in going if ways[way].learning.learns]

    def backward(self, going: Sequence[tuple[int, int]]) -> float:
        """Adds to the gradients of the operands and weights of these steps, one after the other; the milliseconds."""
        forms = {way: self.steps.backward_form(number, way, self) for way, number in {w: n for n, w in going}.items()}
        return self.steps.backward([(number, forms[way]) for number, way in going], self)

    # --- gluonjit.rows.Memory -----------------------------------------------------------------------------------

    def arena(self, number: int) -> int:
        """The address of an arena's rows."""
        return address_of(self.array(number))

    def gradient(self, number: int) -> int:
        """The address of the gradients of an arena's rows."""
        return self.tape.gradient_address(number)  # type: ignore[no-any-return]

    def constant(self, array: Any) -> int:
        """The address of a weight."""
        address = self._constants.get(id(array))
        if address is None:
            address = self._constants[id(array)] = address_of(array)
        return address

    def learned(self, array: Any) -> int:
        """The address of a weight's gradient."""
        return self.tape.learned_address(array)  # type: ignore[no-any-return]
