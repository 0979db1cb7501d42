"""Steps of a flush that run in C as a whole (see `gluonjit.rows`), on the memory of PyTorch's tensors."""

from __future__ import annotations

from itertools import compress
from typing import Any

import torch

from gluonjit.engines.torch.framework.input_version import modified, version_of
from gluonjit.engines.torch.operators.table import call_of
from gluonjit.engines.torch.run.program import program_of
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

    make, threads = staticmethod(row_program), staticmethod(torch.get_num_threads)
    address = staticmethod(torch.Tensor.data_ptr)

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

    def through(self, stretch: StepStretch, number: int, way: int, given: bytes) -> Any:
        """Raises RuntimeError, as PyTorch does, where a weight that is read again has been written to."""
        for tensor, version in stretch.noted[way]:
            if version_of(tensor) != version:
                raise modified("a weight", tensor)
        kind = self.plan.steps[number].kind
        results = (*compress(range(len(given)), given),)
        operands, weights = sources(kind, results)
        self._pass.sources = {id(program_of(kind).consts[k]) for k in weights}
        form = self.steps.backward_form(number, way, self, results)
        return ((results, tuple(self.steps.ways[way].reached & operands)),), form

    def array(self, number: int) -> Any:
        array = super().array(number)
        if not array.is_contiguous():
            array = self._arrays[number] = array.contiguous()
        return array
