"""Runs the nodes of a step whose operands have any length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from gluonjit.engines.torch.hooked import plain
from gluonjit.engines.torch.lengths.framework import Torch
from gluonjit.engines.torch.operators.table import row_of, work_of
from gluonjit.engines.torch.program import Program, lay_out
from gluonjit.graph import Kind, Output, Spec
from gluonjit.hybrid.capture.lengths.joining import Joiner
from gluonjit.program.axes.values import Shape
from gluonjit.program.lengths.members import SizedMember
from gluonjit.program.lengths.running import StageRun
from gluonjit.program.lengths.stages import Stages
from gluonjit.program.sizes import OtherForm
from gluonjit.program.trace import Trace

Members = Sequence[tuple["Ragged", int]]
"""The nodes of a step: programs of members, each with how many nodes follow one another that it is for."""


class Ragged(SizedMember, Program):
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
        self.consts = stages.form.weights(trace)
        own = dict(trace.constants())
        self.own = [own[position].reshape(-1, *val.rest) for position, val in stages.own]
        self.wide = stages.wide

    def __call__(
        self, operands: Sequence[Any], consts: Sequence[Any], count: int, besides: Sequence[Any] = ()
    ) -> list[Any]:
        """The results of `count` nodes, which `besides` says the members of."""
        members: Members = besides[0] if besides else [(self, count)]
        found: dict[int, Any] = dict(enumerate([*operands, *consts]))
        return StageRun(self.stages, members, found, self.trace.device).results()


class _Joining(Torch):
    """Implements `gluonjit.hybrid.capture.lengths.deriving.JoiningEngine`."""

    row_of = staticmethod(row_of)
    work_of = staticmethod(work_of)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Returns a region for `with` in which nothing is captured or recorded."""
        with plain(), torch.no_grad():
            yield

    def begin(self, array: Any, shape: Shape) -> Any:
        """The beginning of a constant along all axes."""
        return array[tuple(map(slice, shape))].contiguous()

    def fixed(self, call: Any) -> Sequence[Spec | None]:
        """Those of computed operands of operators: one more step for each would take what it saves."""
        fixed = call.cell.operator
        return [value.spec if fixed and value.base.__class__ is not torch.Tensor else None for value in call.values]

    def equal(self, one: Any, other: Any) -> bool:
        """True if constants have the same numbers. Raises OtherForm if they learn."""
        if one.requires_grad or other.requires_grad:
            raise OtherForm("they have other weights")
        if one.device.type != "cpu":
            return False  # numbers of a device are not read for it: each node has its own then
        return bool(one.shape == other.shape and torch.equal(one, other))

    def member(self, like: Kind, stages: Stages, trace: Trace, lengths: Sequence[int]) -> Ragged:
        """The program of nodes of these lengths, and of all others. Raises NotBatchable."""
        return Ragged(stages, stages.form.laid(trace), lengths)

    def lay_out(self, trace: Trace, wide: Sequence[int]) -> tuple[tuple[Output, ...], int]:
        """The outputs of a node, of each so many axes as rows if any differ, and how many rows they take."""
        return lay_out(trace.shaped_results(), trace.device, wide)

    def current(self, kind: Kind) -> bool:
        """True: a module whose weights are others is another one."""
        return True


JOINER = Joiner(_Joining())
