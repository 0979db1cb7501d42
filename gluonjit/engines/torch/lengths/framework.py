"""PyTorch as programs for nodes of any length need it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch

from gluonjit.engines.torch.arrays import device_named, dtype_named, sent
from gluonjit.engines.torch.hooked import plain
from gluonjit.engines.torch.operators import moving
from gluonjit.engines.torch.operators.binding import Writer
from gluonjit.engines.torch.operators.table import batch_op
from gluonjit.engines.torch.program import build, interpret, joined, run_operator, stored
from gluonjit.graph import intern_spec, operand_groups
from gluonjit.program.axes.values import Instruction, Shape, Shaped, Values
from gluonjit.program.axes.writer import compiled
from gluonjit.program.trace import Trace, TraceOp, placed


@cache
def _sender(device: str) -> Callable[[Any, str], Any]:
    place = device_named(device)

    def send(array: Any, dtype: str) -> Any:
        found = sent(np.ascontiguousarray(array), place)
        return found.to(dtype_named(dtype)) if dtype else found

    return send


class LengthPart:
    """A part of a trace for nodes of one length: `run` takes values of (nodes, *shape), and gives such.

    weights: the constants that all members share.
    """

    def __init__(self, trace: Trace, sources: Sequence[int], results: Sequence[int], weights: Sequence[Any]) -> None:
        self._specs = [intern_spec(*trace.shapes[position], trace.device, "stack") for position in sources]
        self._shapes = [trace.shapes[position][0] for position in results]
        self._trace = trace.part(sources, results, self._specs)
        numbers = {id(tensor): number for number, tensor in enumerate(weights)}
        self._consts = [numbers.get(id(tensor), tensor) for tensor in self._trace.consts]
        self._order = [place for group in operand_groups(self._specs, False) for (place,) in group]
        self._batched: Any = None

    def run(self, count: int, given: Sequence[Any], weights: Sequence[Any]) -> list[Any]:
        """The results of `count` nodes; weights are the constants that all members share."""
        consts = [weights[item] if item.__class__ is int else item for item in self._consts]
        if count == 1:  # which is not worth a program
            whole = [tensor[0].contiguous() for tensor in given]  # as a view may need it
            return [result.unsqueeze(0) for result in interpret(self._trace, whole, consts)]
        if self._batched is None:
            with plain():
                self._batched = build(self._trace).program.function
        found = self._batched(count, *[given[place] for place in self._order], *consts)
        return [result.reshape(count, *shape) for result, shape in zip(found, self._shapes)]


class Torch:
    """Implements `gluonjit.program.lengths.stages.LengthEngine`."""

    put = staticmethod(moving.put)
    take = staticmethod(moving.take)
    send = staticmethod(_sender)
    joined = staticmethod(joined)
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

    def for_each(self, array: Any, count: int) -> Any:
        """The same for each node, (nodes, *shape)."""
        return array.expand(count, *array.shape)

    def anew(self, array: Any) -> Any:
        """The same tensor."""
        return array

    def reshape(self, array: Any, shape: Shape) -> Any:
        """The same elements in another shape."""
        return array.reshape(shape)

    def shapes(self, op: TraceOp, inputs: Sequence[Any]) -> list[Shape]:
        """The shapes of the results of an operator. Raises RuntimeError, IndexError or ValueError."""
        return [tuple(result.shape) for result in run_operator(op, inputs)]
