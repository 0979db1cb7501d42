"""Steps of a flush that run in C as a whole (see `gluonjit.rows`), on the memory of PyTorch's tensors."""

from __future__ import annotations

from collections.abc import Collection
from itertools import compress
from typing import Any

import torch

from gluonjit.engines.torch.arrays import room_for
from gluonjit.engines.torch.input_version import modified, version_of
from gluonjit.engines.torch.operators.table import call_of
from gluonjit.engines.torch.program import program_of
from gluonjit.graph import Kind
from gluonjit.rows import fused_steps
from gluonjit.rows.lowering import lowered
from gluonjit.rows.program import NotFusable, RowProgram
from gluonjit.rows.stretches import StepStretch
from gluonjit.rows.ways import sources


def row_program(kind: Kind) -> RowProgram:
    """The program of the nodes of a kind. Raises NotFusable."""
    if not all([tensor.is_contiguous() for tensor in kind.program.consts]):
        raise NotFusable("a constant that does not lie row by row")
    return lowered(kind, call_of)


class FusedSteps(fused_steps.FusedSteps):
    """The `steps` of a flush that run in C.

    Of a stretch is noted which weights the backward pass of each way reads, and how often they had been written to.
    """

    _pass: Any = None  # `tape.BackwardPass`
    _sources: Collection[int] = ()  # weights that gradients go to

    room_for = staticmethod(room_for)

    def make(self, kind: Kind) -> RowProgram:
        return row_program(kind)

    def threads(self) -> int:
        return int(torch.get_num_threads())

    def run(self, begin: int, end: int) -> StepStretch | None:
        ran = super().run(begin, end)
        if ran is None or self.tape is None:
            return ran
        versions = {}
        for way, number in dict(zip(ran.ways, ran.steps)).items():
            consts = program_of(self.plan.steps[number].kind).consts
            again = [consts[k] for k in self.steps.ways[way].read_again]
            versions[way] = [(tensor, version_of(tensor)) for tensor in again]
        return ran._replace(noted=versions)

    def backward(self, ran: StepStretch, made: Any) -> tuple[list[int], float]:
        """Adds to the gradients of arenas and weights that a pass has; returns its steps, and the milliseconds in C.

        Raises RuntimeError, as PyTorch does, where a weight that it reads has been written to.
        """
        steps, ways = ran.steps[::-1], ran.ways[::-1]
        learn = [self.steps.ways[way].learning.learns for way in ways]
        steps, ways = [*compress(steps, learn)], [*compress(ways, learn)]

        def through(number: int, way: int, given: bytes) -> Any:
            for tensor, version in ran.noted[way]:
                if version_of(tensor) != version:
                    raise modified("a weight", tensor)
            kind = self.plan.steps[number].kind
            results = (*compress(range(len(given)), given),)
            operands, weights = sources(kind, results)
            self._sources = {id(program_of(kind).consts[k]) for k in weights}
            form = self.steps.backward_form(number, way, self, results)
            return ((results, tuple(self.steps.ways[way].reached & operands)),), form

        passed = None if made.way is None else frozenset(ran.steps) - made.way.steps
        self._pass = made
        try:
            going = self.steps.reach(steps, ways, made.flags, passed, through)
            took = self.steps.backward(going, self)
        finally:
            self._pass, self._sources = None, ()
        return [number for number, _ in going], took

    # --- gluonjit.rows.Memory -----------------------------------------------------------------------------------

    def arena(self, number: int) -> int:
        """The address of an arena's rows."""
        array = self.array(number)
        if not array.is_contiguous():
            array = self._arrays[number] = array.contiguous()
        return int(array.data_ptr())

    def gradient(self, number: int) -> int:
        """The address of the gradients of an arena's rows."""
        return int(self._pass.arena(number).data_ptr())

    def constant(self, array: Any) -> int:
        """The address of a weight."""
        return int(array.data_ptr())

    def learned(self, array: Any) -> int:
        """The address of a weight's gradient."""
        return int(self._pass.learned(array, id(array) in self._sources).data_ptr())
