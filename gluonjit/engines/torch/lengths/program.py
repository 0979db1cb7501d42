"""Runs the nodes of a step whose operands have any length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gluonjit.engines.torch.hooked import plain
from gluonjit.engines.torch.lengths.framework import TORCH, LengthProgram
from gluonjit.engines.torch.program import Program
from gluonjit.graph import intern_spec, mode_of
from gluonjit.program.axes.row import rows_before
from gluonjit.program.lengths.form import Form
from gluonjit.program.lengths.running import StageRun
from gluonjit.program.lengths.stages import ALONE, Stage, Stages
from gluonjit.program.trace import Trace

Members = Sequence[tuple["Ragged", int]]
"""The nodes of a step: programs of members, each with how many nodes follow one another that it is for."""


class Ragged(Program):
    """The program of a member: of nodes of one length, and of any other member's in the same step.

    stages: those of the form that all members have; lengths: this one's sizes, in the form's order.
    """

    by_length = True
    fused = "operands of any length"

    def __init__(self, stages: Stages, trace: Trace, lengths: Sequence[int]) -> None:
        super().__init__(trace, stages.rows + len(stages.stages))
        self.stages = stages
        self.checks = stages.checks
        self.lengths = tuple(lengths)
        self.consts = weights_of(stages, trace)
        own = dict(trace.constants())
        self.own = [own[position].reshape(-1, *val.rest) for position, val in stages.own]
        self.wide = stages.wide

    def key(self, stage: Stage) -> Any:
        """A key of the programs of a stage for each length, equal for members that share one."""
        numbers = [repr(self.trace.ops[place].attrs) for place in stage.places if place in self.stages.form.numbered]
        taken = {position for place in stage.places for position in self.trace.ops[place].inputs}
        own = [id(tensor) for position, tensor in self.trace.constants() if position in taken & self.stages.form.own]
        return (*[self.lengths[length] for length in stage.lengths], *numbers, *own)

    def part(self, stage: Stage) -> LengthProgram:
        """The program of a stage for nodes of this member's lengths."""
        key = (stage.places, self.key(stage))
        known: dict[Any, LengthProgram] = self.stages.programs
        if key not in known:
            sources = [source.position for source in stage.sources]
            results = [result.slot for result in stage.results]
            known[key] = LengthProgram(self.trace, sources, results, self.consts)
        return known[key]

    def fits(self) -> bool:
        """True if its stages of one length give results of the shapes that its trace says.

        Where nodes of many lengths run at once, all shapes follow from the lengths.
        """
        return all([self.part(stage).fits() for stage in self.stages.stages if stage.way == ALONE])

    def __call__(
        self, operands: Sequence[Any], consts: Sequence[Any], count: int, besides: Sequence[Any] = ()
    ) -> list[Any]:
        """The results of `count` nodes, which `besides` says the members of."""
        members: Members = besides[0] if besides else [(self, count)]
        found: dict[int, Any] = dict(enumerate([*operands, *consts]))
        run = StageRun(self.stages, members, found, self.trace.device)
        for stage in self.stages.stages:
            run.run(stage)
        return [found[val.slot] for val in self.stages.finals]


def stages_of(form: Form, other: Sequence[int]) -> Stages:
    """The stages of a form; `other` are the lengths of another trace of it. Raises NotBatchable."""
    first = form.lengths_of(form.trace)
    with plain():
        return Stages(form, TORCH, [first, tuple(other), first])


def laid_trace(form: Form, trace: Trace) -> Trace:
    """The trace of a member with operands that lie as those of the form: up to the last axis that differs, rows."""
    operands = list(form.trace.operands)
    for position, spec in enumerate(trace.operands):
        axes = rows_before(form.shapes[position][0])
        if axes:
            operands[position] = intern_spec(spec.shape, spec.dtype, spec.device, mode_of(axes))
    return replace(trace, operands=tuple(operands), built={})


def weights_of(stages: Stages, trace: Trace) -> list[Any]:
    """The constants of a trace that all members share."""
    return [tensor for position, tensor in trace.constants() if position not in stages.form.own]
