"""PyTorch as programs for nodes of any length need it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch

from gluonjit.engines.torch.arrays import device_named, dtype_named, sent
from gluonjit.engines.torch.hooked import plain
from gluonjit.engines.torch.operators.binding import Writer
from gluonjit.engines.torch.operators.table import batch_op
from gluonjit.engines.torch.program import build, interpret, run_operator, stored
from gluonjit.program.axes.values import Instruction, Shape, Shaped, Values
from gluonjit.program.axes.writer import compiled
from gluonjit.program.lengths.members import SizedPart
from gluonjit.program.trace import Trace, TraceOp, placed


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

    def run(self, count: int, given: Sequence[Any], weights: Sequence[Any]) -> list[Any]:
        """The results of `count` nodes; weights are the constants that all members share."""
        consts = self.consts(weights, lambda tensor: tensor)
        if count == 1:  # which is not worth a program
            whole = [tensor[0].contiguous() for tensor in given]  # as a view may need it
            return [result.unsqueeze(0) for result in interpret(self.trace, whole, consts)]
        if self.batched is None:
            with plain():
                self.batched = build(self.trace).program.function
        found = self.batched(count, *[given[place] for group in self.groups for (place,) in group], *consts)
        return [result.reshape(count, *shape) for result, (shape, _) in zip(found, self.trace.shaped_results())]


class Torch:
    """Implements `gluonjit.program.lengths.stages.LengthEngine`."""

    send = staticmethod(_sender)
    stored = staticmethod(stored)
    function = staticmethod(compiled)
    part = LengthPart

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

    def shapes(self, op: TraceOp, inputs: Sequence[Any]) -> list[Shape]:
        """The shapes of the results of an operator. Raises RuntimeError, IndexError or ValueError."""
        return [tuple(result.shape) for result in run_operator(op, inputs)]
