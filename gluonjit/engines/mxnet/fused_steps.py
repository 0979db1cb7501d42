"""Steps of a flush that run in C as a whole (see `gluonjit.rows`), on the memory of MXNet's arrays."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, Protocol

from gluonjit.analysis import Plan
from gluonjit.analysis.plan import Gather
from gluonjit.engines.mxnet.arrays import address_of, device_of, dtype_name, room_for
from gluonjit.engines.mxnet.fusing import fused_program
from gluonjit.graph import Kind
from gluonjit.rows import Done, NotFusable, RowProgram, Steps


class History(Protocol):
    """A history, as far as gradients need it."""

    def learns(self, gather: Gather) -> bool:
        """Tells whether any of these rows was computed from something that learns."""

    def has_gradients(self, arena: int) -> bool:
        """Tells whether gradients go to rows of an arena."""

    def gradient_of(self, given: Any) -> Any:
        """The gradient of a weight, None where it has none."""

    def gradient_address(self, arena: int) -> int:
        """The address of the gradients of an arena's rows."""

    def learned_address(self, given: Any) -> int:
        """The address of a weight's gradient."""


class RowTapeEntry(NamedTuple):
    """A step that ran in C: how to go back through it."""

    steps: FusedSteps
    number: int
    done: Done

    def backward(self) -> None:
        """Add to the gradients of its operands and weights."""
        self.steps.backward(self)


class FusedSteps:
    """The steps of a flush that run in C. MXNet computes in the background: what it may still be writing is waited for
    when a step needs it, once."""

    def __init__(
        self,
        plan: Plan,
        arrays: list[Any],
        tape: History | None,
        without: Collection[str],
        unfused: dict[str, str],
    ) -> None:
        self.plan, self._arrays = plan, arrays
        self._tape = None if tape is None else weakref.ref(tape)  # which holds the steps that have run
        self._arenas: dict[int, int] = {}
        self._constants: dict[int, int] = {}
        self._steps = Steps(plan, without, _program, unfused)

    def __contains__(self, number: int) -> bool:
        """Tells whether a step may run in C."""
        return number in self._steps

    def run(self, number: int, learning: bool) -> RowTapeEntry | None:
        """Run a step; None where it has no derivative, so that it has to run as a graph."""
        step = self.plan.steps[number]
        learned: list[int] = []
        weights: list[int] = []
        results: list[int] = []
        if learning:
            tape = self._history()
            learned = [operand for operand, gather in enumerate(self._steps.gathers(number)) if tape.learns(gather)]
            weights = [k for k, array in enumerate(step.kind.program.consts) if tape.gradient_of(array) is not None]
            results = [k for k, place in enumerate(step.places) if tape.has_gradients(place.arena)]
        done = self._steps.run(number, learned, weights, results, self)
        return None if done is None else RowTapeEntry(self, number, done)

    def begin_backward(self) -> None:
        """Read weights anew, as MXNet's own backward does, when what was written to them since is there."""
        self._constants.clear()
        self._steps.forget_weights()

    def backward(self, ran: RowTapeEntry) -> None:
        """Add to the gradients of a step's operands and weights."""
        self._steps.backward(ran.number, ran.done, self)

    def written(self, arenas: Sequence[int]) -> None:
        """MXNet writes to these arenas."""
        for number in arenas:
            self._arenas.pop(number, None)

    # --- gluonjit.rows.Memory -----------------------------------------------------------------------------------

    def arena(self, number: int) -> int:
        """The address of an arena's rows."""
        address = self._arenas.get(number)
        if address is None:
            array = self._arrays[number]
            if array is None:
                arena = self.plan.arenas[number]
                array = self._arrays[number] = room_for(arena.spec, arena.rows)
            address = self._arenas[number] = address_of(array)
        return address

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

    def _history(self) -> History:
        tape = None if self._tape is None else self._tape()
        assert tape is not None
        return tape


def _program(kind: Kind) -> RowProgram:
    program: Any = kind.program  # a `program.Program`
    if program.may_fail or any(not spec.device.startswith("cpu") for spec in kind.operands):
        raise NotFusable("it may fail, or is not in the host's memory")
    if any(dtype_name(array) != "float32" or not device_of(array).startswith("cpu") for array in program.consts):
        raise NotFusable("constants that are not of float32")
    return fused_program(program.graph, kind, [array.shape for array in program.consts])
