"""Members of a form: nodes of one length, with what they have for themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gluonjit.graph.kinds import operand_groups
from gluonjit.graph.values import intern_spec
from gluonjit.program.lengths.stages import ALONE, Stage, Stages
from gluonjit.program.trace import Trace


class SizedPart:
    """A part of a trace for nodes of one length, whose `run` takes values of (nodes, *shape), and gives such.

    groups: its operands, as its batched program takes them; weights: the constants that all members share.
    """

    def __init__(self, trace: Trace, sources: Sequence[int], results: Sequence[int], weights: Sequence[Any]) -> None:
        specs = [intern_spec(*trace.shapes[position], trace.device, "stack") for position in sources]
        self.trace = trace.part(sources, results, specs)
        self.groups = operand_groups(specs, False)
        numbers = {id(array): number for number, array in enumerate(weights)}
        self._consts = [numbers.get(id(array), array) for array in self.trace.consts]

    def consts(self, weights: Sequence[Any], anew: Callable[[Any], Any]) -> list[Any]:
        """The constants, those that all members share as they are now."""
        return [weights[item] if item.__class__ is int else anew(item) for item in self._consts]


class SizedMember:
    """Nodes of one length, which run together with those of others.

    trace: of one of them; stages: those of the form that all members have; lengths: this one's sizes, in the form's
    order; own: constants that others do not have, as they are packed.
    """

    trace: Trace
    stages: Stages
    lengths: tuple[int, ...]
    own: Sequence[Any]

    checks: Any

    def begin(self, stages: Stages, trace: Trace, lengths: Sequence[int], reshape: Callable[[Any, Any], Any]) -> None:
        """Sets what all members have."""
        self.stages, self.trace, self.lengths, self.checks = stages, trace, tuple(lengths), stages.checks
        own = dict(trace.constants())
        self.own = [reshape(own[position], (-1, *val.rest)) for position, val in stages.own]

    @property
    def fused(self) -> Any:
        """The row program of all members, or why there is none."""
        return self.stages.fused

    @fused.setter
    def fused(self, found: Any) -> None:
        self.stages.fused = found

    def key(self, stage: Stage) -> Any:
        """A key of the programs of a stage for each length, equal for members that share one."""
        numbers = [repr(self.trace.ops[place].attrs) for place in stage.places if place in self.stages.form.numbered]
        taken = {position for place in stage.places for position in self.trace.ops[place].inputs}
        own = [id(array) for position, array in self.trace.constants() if position in taken & self.stages.form.own]
        return (*[self.lengths[length] for length in stage.lengths], *numbers, *own)

    def part(self, stage: Stage) -> Any:
        """The program of a stage for nodes of this member's lengths."""
        key = (stage.places, self.key(stage))
        known = self.stages.programs
        if key not in known:
            sources = [source.position for source in stage.sources]
            results = [result.slot for result in stage.results]
            weights = self.stages.form.weights(self.trace)
            known[key] = self.stages.framework.part(self.trace, sources, results, weights)
        return known[key]

    def fits(self) -> bool:
        """True if its stages of one length give results of the shapes that its trace says.

        Where nodes of many lengths run at once, all shapes follow from the lengths.
        """
        trace, framework, consts = self.trace, self.stages.framework, dict(self.trace.constants())
        for place in [place for stage in self.stages.stages if stage.way == ALONE for place in stage.places]:
            op = trace.ops[place]
            inputs = [
                consts[position] if position in consts else framework.zeros(*trace.shapes[position], trace.device)
                for position in op.inputs
            ]
            try:
                found = framework.shapes(op, inputs)
            except (RuntimeError, IndexError, ValueError):
                return False
            if found != [trace.shapes[position][0] for position in op.outputs]:
                return False
        return True
