"""Steps of a flush that run in C as a whole (see `gluonjit.fused`), on the memory of MXNet's arrays."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gluonjit.analysis import Plan, Step
from gluonjit.engines.mxnet.arrays import address_of, device_of, dtype_name, room_for
from gluonjit.engines.mxnet.fusing import fused_program
from gluonjit.engines.mxnet.program import Batched
from gluonjit.fused import ROWS, Compiled, Launches, NotFusable, Program, Way, compiled, rows_of
from gluonjit.graph import Kind

if TYPE_CHECKING:
    from gluonjit.engines.mxnet.tape import Tape


class _Fused:
    """What one batched program is in C, for each way in which it has been called; None where it cannot be."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.ways: dict[Way, Compiled | None] = {}


class Ran(NamedTuple):
    """A step that ran in C: how to go back through it."""

    steps: FusedSteps
    number: int
    compiled: Compiled
    saved: Any

    def backward(self) -> None:
        """Add to the gradients of its operands and weights."""
        step = self.steps.plan.steps[self.number]
        self.steps.launches.backward(self.number, self.compiled, step.kind.program.consts, self.saved)


class FusedSteps:
    """The steps of a flush that run in C. MXNet computes in the background: what it may still be writing is waited for
    when a step needs it, once."""

    def __init__(self, plan: Plan, arrays: list[Any], tape: Tape | None, without: Collection[str]) -> None:
        self.plan, self._arrays = plan, arrays
        self._tape = None if tape is None else weakref.ref(tape)  # which holds the steps that have run
        self._programs = {} if ROWS is None or "fused" in without else _programs(plan)
        self._arenas: dict[int, int] = {}
        self._constants: dict[int, int] = {}
        self.launches = Launches(plan, self._programs, self)

    def __contains__(self, number: int) -> bool:
        """Whether a step may run in C."""
        return number in self._programs

    def run(self, number: int, learning: bool) -> Ran | None:
        """Run a step; None where it has no derivative, so that it has to run as a graph."""
        step = self.plan.steps[number]
        way = self._way(step, number, learning)
        fused: _Fused = step.kind.program.fused
        if way not in fused.ways:
            try:
                fused.ways[way] = compiled(fused.program, way, ROWS.OPS)
            except NotFusable:
                fused.ways[way] = None
        found = fused.ways[way]
        if found is None:
            del self._programs[number]
            return None
        return Ran(self, number, found, self.launches.forward(number, found, step.kind.program.consts))

    def _way(self, step: Step, number: int, learning: bool) -> Way:
        direct, operands = [], []
        tape = self._history() if learning else None
        position = 0
        for group, gather in zip(step.kind.groups, step.gathers):
            learns = tape is not None and tape.learns(gather)
            for _ in group:
                if gather.index is None:
                    direct.append(position)
                if learns:
                    operands.append(position)
                position += 1
        if tape is None:
            return Way(frozenset(direct), frozenset(), frozenset(), frozenset())
        consts = [k for k, array in enumerate(step.kind.program.consts) if tape.gradient_of(array) is not None]
        results = [k for k, place in enumerate(step.places) if tape.has_gradients(place.arena)]
        return Way(frozenset(direct), frozenset(operands), frozenset(consts), frozenset(results))

    def written(self, arenas: Sequence[int]) -> None:
        """MXNet writes to these arenas."""
        for number in arenas:
            self._arenas.pop(number, None)

    # --- gluonjit.fused.Memory -----------------------------------------------------------------------------------

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

    def _history(self) -> Tape:
        tape = None if self._tape is None else self._tape()
        assert tape is not None
        return tape


def _programs(plan: Plan) -> dict[int, Program]:
    found = {}
    for number, step in enumerate(plan.steps):
        fused = _fused(step.kind)
        if fused is not None:
            try:
                rows_of(fused.program, step)
            except NotFusable:
                continue
            found[number] = fused.program
    return found


def _fused(kind: Kind) -> _Fused | None:
    program = kind.program
    if not isinstance(program, Batched):
        return None
    if program.fused is None:
        program.fused = False
        if not program.may_fail and all(spec.device.startswith("cpu") for spec in kind.operands) and _plain(program):
            try:
                program.fused = _Fused(fused_program(program.graph, kind, [array.shape for array in program.consts]))
            except NotFusable:
                pass
    return program.fused or None


def _plain(program: Batched) -> bool:
    return all(dtype_name(array) == "float32" and device_of(array).startswith("cpu") for array in program.consts)
