"""Steps of a flush that run in C as a whole (see `gluonjit.rows`), on the memory of PyTorch's tensors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import compress
from typing import Any, NamedTuple, Protocol

import torch

from gluonjit.analysis.plan import Plan
from gluonjit.engines.torch.arrays import room_for
from gluonjit.engines.torch.held import version_of
from gluonjit.engines.torch.operators.table import call_of
from gluonjit.engines.torch.program import program_of
from gluonjit.engines.torch.written import modified
from gluonjit.graph import Kind
from gluonjit.rows.lowering import lowered
from gluonjit.rows.program import NotFusable, RowProgram
from gluonjit.rows.running import NO_FLAGS
from gluonjit.rows.steps import Steps
from gluonjit.rows.stretches import StepStretch
from gluonjit.rows.ways import Learning, sources


def row_program(kind: Kind) -> RowProgram:
    """The program of the nodes of a kind. Raises NotFusable."""
    if not all([tensor.is_contiguous() for tensor in kind.program.consts]):
        raise NotFusable("a constant that does not lie row by row")
    return lowered(kind, call_of)


class RanFused(NamedTuple):
    """Steps that ran in C, and for each of their ways the weights that its backward pass reads, with how often they had
    been written to."""

    stretch: StepStretch
    versions: dict[int, list[tuple[Any, int]]]

    @property
    def steps(self) -> list[int]:
        """Their numbers."""
        return self.stretch.steps

    @property
    def took(self) -> Sequence[int]:
        """The times that they took."""
        return self.stretch.took

    def part(self, begin: int, end: int) -> RanFused:
        """Some of the steps."""
        return self._replace(stretch=self.stretch.part(begin, end))


class StepHistory(Protocol):
    """A history, as far as steps that run need it: flags of rows (`rows.row_flags`) that learn, and of those that have
    been read under recording."""

    learned_rows: Any
    read_rows: Any

    def constant(self, tensor: Any) -> Any:
        """A weight as what stands for it in the steps, if it is learned."""


class _Learner(NamedTuple):
    """Tells what learns in steps; weights are told to the history."""

    tape: StepHistory | None

    def weights(self, kind: Kind) -> frozenset[int]:
        """The constants that learn."""
        assert self.tape is not None
        found = {k: tensor for k, tensor in enumerate(program_of(kind).consts) if tensor.requires_grad}
        for tensor in found.values():
            self.tape.constant(tensor)
        return frozenset(found)

    def learning(self, kind: Kind, operands: frozenset[int], weights: frozenset[int]) -> Learning:
        """The results that learn, given operands and weights that do."""
        results = []
        for k in range(len(kind.outputs)):
            read, consts = sources(kind, (k,))
            if read & operands or consts & weights:
                results.append(k)
        return Learning(weights, results, results, bool(results))


_UNTAPED = _Learner(None)


def _nothing(asked: Any) -> Any:
    raise RuntimeError("a gradient is requested outside of a backward pass")


class FusedSteps:
    """The `steps` of a flush that run in C. Gradients must be given as long as a backward pass may come."""

    _gradient: Callable[[int], Any] = staticmethod(_nothing)
    _learned: Callable[[Any], Any] = staticmethod(_nothing)

    def __init__(self, plan: Plan, arrays: list[Any], without: Collection[str], unfused: dict[str, str]) -> None:
        self.plan, self._arrays = plan, arrays
        self.steps = Steps(plan, without, row_program, unfused, torch.get_num_threads, plan.recorded)

    def run(self, begin: int, end: int, tape: StepHistory | None) -> RanFused | None:
        """Runs steps, up to one that has to run otherwise; None if that is the first."""
        if tape is None:
            ways = self.steps.choose(begin, end, NO_FLAGS, NO_FLAGS, _UNTAPED, self)
            return RanFused(self.steps.run(begin, ways, self), {}) if ways else None
        ways = self.steps.choose(begin, end, tape.learned_rows, tape.read_rows, _Learner(tape), self)
        if not ways:
            return None
        versions = {}
        for way, number in {way: begin + place for place, way in enumerate(ways)}.items():
            consts = program_of(self.plan.steps[number].kind).consts
            again = [consts[k] for k in self.steps.ways[way].read_again]
            versions[way] = [(tensor, version_of(tensor)) for tensor in again]
        return RanFused(self.steps.run(begin, ways, self), versions)

    def learns(self, ran: RanFused) -> bool:
        """Tells whether gradients go through any of these steps."""
        return any([self.steps.ways[way].learning.learns for way in ran.versions])

    def backward(
        self,
        ran: RanFused,
        reached: Any,
        passed: Collection[int] | None,
        gradient: Callable[[int], Any],
        learned: Callable[[Any, bool], Any],
    ) -> tuple[list[int], float]:
        """Adds to the gradients of arenas and weights, which are made when they are asked for.

        Returns the steps that were gone through, and the milliseconds in C.

        reached: flags of rows; passed: steps that are not gone through. `learned` is told whether gradients go to a
        weight, or nothing but zeros do. Raises RuntimeError, as PyTorch does, where a weight that it reads has been
        written to.
        """
        steps, ways = ran.stretch.steps[::-1], ran.stretch.ways[::-1]
        learn = [self.steps.ways[way].learning.learns for way in ways]
        steps, ways = [*compress(steps, learn)], [*compress(ways, learn)]

        def form(number: int, way: int, results: tuple[int, ...]) -> Any:
            for tensor, version in ran.versions[way]:
                if version_of(tensor) != version:
                    raise modified("a weight", tensor)
            consts = program_of(self.plan.steps[number].kind).consts
            weights = {id(consts[k]) for k in self.steps.sources(number, results)[1]}
            self._learned = lambda tensor: learned(tensor, id(tensor) in weights)
            return self.steps.backward_form(number, way, self, results)

        self._gradient = gradient
        try:
            going = self.steps.reach(steps, ways, reached, passed, form)
            took = self.steps.backward(going, self)
        finally:
            self._gradient = self._learned = _nothing
        return [number for number, _ in going], took

    # --- gluonjit.rows.Memory -----------------------------------------------------------------------------------

    def arena(self, number: int) -> int:
        """The address of an arena's rows."""
        array = self._arrays[number]
        if array is None:
            arena = self.plan.arenas[number]
            array = self._arrays[number] = room_for(arena.spec, arena.rows)
        elif not array.is_contiguous():
            array = self._arrays[number] = array.contiguous()
        return int(array.data_ptr())

    def gradient(self, number: int) -> int:
        """The address of the gradients of an arena's rows."""
        return int(self._gradient(number).data_ptr())

    def constant(self, array: Any) -> int:
        """The address of a weight."""
        return int(array.data_ptr())

    def learned(self, array: Any) -> int:
        """The address of a weight's gradient."""
        return int(self._learned(array).data_ptr())
