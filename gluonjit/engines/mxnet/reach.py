"""Contents of a graph of MXNet's autograd: rows and weights that results depend on, and what lets operands enter it."""

from __future__ import annotations

from typing import Any

from gluonjit.analysis.plan import Plan, Step
from gluonjit.hybrid.run import reach
from gluonjit.hybrid.run.reach import owners_of_result, roles_of, rows_at
from gluonjit.program.trace import Trace
from gluonjit.rows.running import row_flags


class Reach(reach.Reach):
    """Goes backward through the steps of a plan. `constants` are the addresses of the weights met on the way.

    flags: those of all rows (`rows.running.row_flags`).
    """

    def __init__(self, plan: Plan) -> None:
        self.flags, rows = row_flags(plan)
        super().__init__(plan, rows)
        self.constants: set[int] = set()

    def through(self, step: Step) -> bool:
        """Goes on from a step's results to its operands; False if none of the results has been reached."""
        program = step.kind.program  # a `program.Program`
        if all([place.end > place.begin and self.reaches_all(place) for place in step.places]):
            self._through_all(step, program)
            return True
        results = self.results(step)
        for number in results:
            self.go(step, [number], self.operands(step, number))
        if results:
            self._complete(step, results)
        return bool(results)

    def operands(self, step: Step, result: int) -> tuple[int, ...]:
        """The operands that gradients of a result go on to. Its weights are met."""
        program = step.kind.program
        found = program.sources.get(result)
        if found is None:
            depends, count = program.depends[result], len(step.gathers)
            operands = tuple([k for k, (gather, _) in enumerate(roles_of(step.kind)) if gather in depends])
            consts = [k for k in range(len(program.consts)) if count + k in depends]
            found = program.sources[result] = operands, consts
        self.constants.update([id(program.consts[k]) for k in found[1]])
        return found[0]  # type: ignore[no-any-return]

    def _complete(self, step: Step, results: list[int]) -> None:
        """A node is one: what is reached of it is so with all its results."""
        nodes = self.nodes(step, results)
        for number, place in enumerate(step.places):
            self.at(place)[:] |= True if nodes is None else nodes[owners_of_result(step, number)]

    def _through_all(self, step: Step, program: Any) -> None:
        """Goes on from all results of a step, as is usual, with fewer arrays."""
        used = set().union(*program.depends)
        for position, gather in enumerate(step.gathers):
            if position in used:
                self.rows[gather.place.arena][rows_at(gather.place, gather.index)] = True
        first = len(step.gathers)
        self.constants.update([id(array) for k, array in enumerate(program.consts, first) if k in used])


def let_in(trace: Trace) -> list[int]:
    """Finds, as bits, which operands and constants in a computational graph let each operand into it.

    MXNet records an operator that reads something that is in, which lets in what else it reads, and its results.
    """
    by = {position: 1 << position for position in range(len(trace.operands) + len(trace.consts))}
    for op in trace.ops:
        reads = 0
        for position in op.inputs:
            reads |= by.get(position, 0)
        for position in (*op.inputs, *op.outputs):
            by[position] = reads
    return [by[position] for position in range(len(trace.operands))]
