"""Steps of a flush that run in C as a whole (see `gluonjit.rows`), on the memory of PyTorch's tensors."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from gluonjit.analysis import Plan
from gluonjit.analysis.plan import Gather
from gluonjit.engines.torch.arrays import room_for
from gluonjit.engines.torch.fusing import fused_program, fused_variadic
from gluonjit.engines.torch.held import version_of
from gluonjit.engines.torch.program import program_of
from gluonjit.engines.torch.written import modified
from gluonjit.graph import Kind
from gluonjit.rows import Done, NotFusable, RowProgram, Steps


class RanFused(NamedTuple):
    """A step that ran in C, the gathers of its learned operands, by number, and which of its results learn."""

    number: int
    operands: dict[int, Gather]
    results: tuple[int, ...]
    done: Done
    versions: list[tuple[Any, int]]  # the weights that its backward pass reads, and how often they had been written to


class FusedSteps:
    """The steps of a flush that run in C. What a gradient is has to be told for as long as somebody goes backward."""

    def __init__(self, plan: Plan, arrays: list[Any], without: Collection[str], unfused: dict[str, str]) -> None:
        self.plan, self._arrays = plan, arrays
        self._arenas: dict[int, int] = {}  # addresses
        self._steps = Steps(plan, without, _program, unfused)
        self._gradient: Callable[[int], Any] = _nothing
        self._learned: Callable[[Any], Any] = _nothing

    def __contains__(self, number: int) -> bool:
        """Tells whether a step may run in C."""
        return number in self._steps

    def run(self, number: int, learns: Callable[[Gather], bool] | None) -> RanFused | None:
        """Run a step, under recording with what tells which operands learn; None where it has to run otherwise."""
        step = self.plan.steps[number]
        learned: dict[int, Gather] = {}
        weights: list[int] = []
        if learns is not None:
            learned = {operand: gather for operand, gather in enumerate(self._steps.gathers(number)) if learns(gather)}
            weights = [k for k, tensor in enumerate(program_of(step.kind).consts) if tensor.requires_grad]
        results: tuple[int, ...] = ()
        if learned or weights:
            results = tuple([k for k in range(len(step.places)) if self._depends(number, k, learned, weights)])
        done = self._steps.run(number, learned, weights, results, self)
        if done is None:
            return None
        consts = [program_of(step.kind).consts[k] for k in done.compiled.read_again]
        versions = [(tensor, version_of(tensor)) for tensor in consts]
        reached = {operand: gather for operand, gather in learned.items() if operand in done.compiled.reached}
        return RanFused(number, reached, results, done, versions)

    def _depends(self, number: int, result: int, learned: Collection[int], weights: Collection[int]) -> bool:
        operands, consts = self.sources(number, (result,))
        return not (operands.isdisjoint(learned) and consts.isdisjoint(weights))

    def sources(self, number: int, results: tuple[int, ...]) -> tuple[frozenset[int], frozenset[int]]:
        """The operands and weights, by number, of a step that gradients of these results go to."""
        return self._steps.sources(number, results)

    def backward(self, ran: RanFused, gradient: Callable[[int], Any], learned: Callable[[Any], Any]) -> None:
        """Add to the gradients of arenas and weights, which are made when they are asked for.

        Raises RuntimeError, as PyTorch does, where a weight that it reads has been written to.
        """
        for tensor, version in ran.versions:
            if version_of(tensor) != version:
                raise modified("a weight", tensor)
        self._gradient, self._learned = gradient, learned
        try:
            self._steps.backward(ran.number, ran.done, self)
        finally:
            self._gradient = self._learned = _nothing

    # --- gluonjit.rows.Memory -----------------------------------------------------------------------------------

    def arena(self, number: int) -> int:
        """The address of an arena's rows."""
        address = self._arenas.get(number)
        if address is None:
            array = self._arrays[number]
            if array is None:
                arena = self.plan.arenas[number]
                array = self._arrays[number] = room_for(arena.spec, arena.rows)
            elif not array.is_contiguous():
                array = self._arrays[number] = array.contiguous()
            address = self._arenas[number] = int(array.data_ptr())
        return address

    def gradient(self, number: int) -> int:
        """The address of the gradients of an arena's rows."""
        return int(self._gradient(number).data_ptr())

    def constant(self, array: Any) -> int:
        """The address of a weight."""
        return int(array.data_ptr())

    def learned(self, array: Any) -> int:
        """The address of a weight's gradient."""
        return int(self._learned(array).data_ptr())


def _nothing(asked: Any) -> Any:
    raise RuntimeError("a gradient is asked for outside of a backward pass")


def _program(kind: Kind) -> RowProgram:
    program = program_of(kind)
    if any(spec.device != "cpu" for spec in kind.operands) or not all(map(_plain, program.consts)):
        raise NotFusable("tensors that are not of float32, or not in the host's memory")
    if program.variadic is not None:
        variadic, roles = program.variadic
        return fused_variadic(kind, variadic, roles, program.consts)
    return fused_program(kind, program.trace, program.results, program.consts)


def _plain(tensor: Any) -> bool:
    return str(tensor.dtype) == "torch.float32" and tensor.device.type == "cpu" and bool(tensor.is_contiguous())
