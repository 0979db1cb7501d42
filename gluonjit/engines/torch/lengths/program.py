"""PyTorch as programs for nodes of any length need it, and what runs a step of such nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import torch

from gluonjit.engines.torch.framework.arrays import device_named, dtype_named, sent
from gluonjit.engines.torch.framework.originals import plain
from gluonjit.engines.torch.operators.binding import Writer
from gluonjit.engines.torch.operators.table import batch_op, row_of, work_of
from gluonjit.engines.torch.run.fused_steps import row_program
from gluonjit.engines.torch.run.program import Program, build, interpret, run_operator, stored
from gluonjit.graph import Arrays, Kind, Spec
from gluonjit.hybrid.capture.lengths.deriving import JoiningEngine
from gluonjit.hybrid.capture.lengths.joining import Joiner
from gluonjit.program.axes.values import Instruction, Shape, Shaped, Values, placed
from gluonjit.program.lengths.members import SizedMember, SizedPart
from gluonjit.program.lengths.running import run_members
from gluonjit.program.lengths.stages import Stages
from gluonjit.program.sizes import OtherForm
from gluonjit.program.trace import Trace, TraceOp


@cache
def _sender(device: str) -> Callable[[Any, str], Any]:
    place = device_named(device)

    def send(array: Any, dtype: str) -> Any:
        found = sent(np.ascontiguousarray(array), place)
        return found.to(dtype_named(dtype)) if dtype else found

    return send


class LengthPart(SizedPart):
    """A part of a trace for nodes of one length: `run` takes values of (nodes, *shape), and gives such."""

    batched: Any = None

    def run(self, count: int, given: Arrays, weights: Arrays) -> list[Any]:
        """The results of `count` nodes; weights are the constants that all members share."""
        consts = self.consts(weights, lambda tensor: tensor)
        if count == 1 or not given:  # which is not worth a program, or all have the same
            whole = [tensor[0].contiguous() for tensor in given]  # as a view may need it
            return [result.expand(count, *result.shape) for result in interpret(self.trace, whole, consts)]
        if self.batched is None:
            with plain():
                self.batched = build(self.trace).program.function
        found = self.batched(count, *[given[place] for group in self.groups for (place,) in group], *consts)
        return [result.reshape(count, *shape) for result, (shape, _) in zip(found, self.trace.shaped_results())]


class Ragged(SizedMember, Program):
    """The program of a member: of nodes of one length, and of any other member's in the same step.

    stages: those of the form that all members have; lengths: this one's sizes, in the form's order.
    """

    def __init__(self, stages: Stages, trace: Trace, lengths: Sequence[int]) -> None:
        super().__init__(trace, stages.rows + len(stages.stages))
        self.consts, self.wide = stages.form.weights(trace), stages.wide
        self.begin(stages, trace, lengths, torch.reshape)

    def __call__(self, operands: Arrays, consts: Arrays, count: int, besides: Arrays = ()) -> list[Any]:
        """The results of `count` nodes, which `besides` says the members of."""
        return run_members(self, operands, consts, count, besides)


class _Torch(JoiningEngine):
    """Implements `gluonjit.hybrid.capture.lengths.deriving.JoiningEngine`."""

    send = staticmethod(_sender)
    stored = staticmethod(stored)
    part = LengthPart
    row_of = staticmethod(row_of)
    work_of = staticmethod(work_of)
    row_program = staticmethod(row_program)

    def writer(self, slots: int, each: Callable[[Instruction], None], trace: Trace) -> Writer:
        """A writer of ATen's operators."""
        writer = Writer(slots, each)
        writer.device = trace.device
        return writer

    def write(self, op: TraceOp, vals: Sequence[Values], outs: Sequence[Shaped], writer: Any) -> list[Values]:
        """Writes down an operator. Raises NotBatchable."""
        return batch_op(op.name, {name: placed(value, vals) for name, value in op.attrs}, outs, writer)

    def zeros(self, shape: Shape, dtype: str, device: str) -> Any:
        """A tensor of zeros."""
        return torch.zeros(shape, dtype=dtype_named(dtype), device=device_named(device))

    def lies(self, array: Any) -> tuple[Shape, str]:
        """Shape and dtype of a tensor."""
        return tuple(array.shape), str(array.dtype).removeprefix("torch.")

    def anew(self, array: Any) -> Any:
        """The same tensor."""
        return array

    def shapes(self, op: TraceOp, inputs: Arrays) -> list[Shape]:
        """The shapes of the results of an operator. Raises RuntimeError, IndexError or ValueError."""
        return [tuple(result.shape) for result in run_operator(op, inputs)]

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

    def current(self, kind: Kind) -> bool:
        """True: a module whose weights are others is another one."""
        return True


JOINER = Joiner(_Torch())
