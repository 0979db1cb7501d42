"""Work of one node of a traced program: operators, arithmetic and memory, from the shapes of its trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from gluonjit.graph.kinds import Work
from gluonjit.program.trace import Trace

Shapes = Sequence[tuple[int, ...]]
Flops = Callable[[str, Shapes, Shapes], float]
"""Floating-point operations of an operator, by its name, from the shapes of its inputs and results."""

_BYTES = {"float16": 2, "bfloat16": 2, "float64": 8, "int64": 8, "int16": 2, "int8": 1, "uint8": 1, "bool": 1}


def traced_work(trace: Trace, operators: int, flops_of: Flops) -> Work:
    """Returns the work of one node of a traced program, which runs as this many operators."""
    consts = {position for position, _ in trace.constants()}
    flops, moved = 0.0, 0
    for op in trace.ops:
        inputs = [trace.shapes[position][0] for position in op.inputs]
        outputs = [trace.shapes[position][0] for position in op.outputs]
        flops += flops_of(op.name, inputs, outputs)
        own = [position for position in (*op.inputs, *op.outputs) if position not in consts]
        moved += sum(_bytes(*trace.shapes[position]) for position in own)
    return Work(operators, flops, moved, sum(_bytes(*trace.shapes[position]) for position in consts))


def _bytes(shape: tuple[int, ...], dtype: str) -> int:
    return prod(shape) * _BYTES.get(dtype, 4)
