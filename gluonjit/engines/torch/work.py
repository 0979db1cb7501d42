"""Work of one node of a program: operators, arithmetic and memory, from the shapes of its trace."""

from __future__ import annotations

from math import prod

from gluonjit.engines.torch.trace import RECURRENT, Shaped, Trace, TraceOp
from gluonjit.graph import Work

_PRODUCTS = {
    "mm.default": 1,
    "addmm.default": 2,
    "mv.default": 1,
    "bmm.default": 1,
    "baddbmm.default": 2,
    "dot.default": 1,
}
"""Products of matrices, and which of their inputs is the right one."""
_SIZES = {"float16": 2, "bfloat16": 2, "float64": 8, "int64": 8, "int16": 2, "int8": 1, "uint8": 1, "bool": 1}


def work_of(trace: Trace, operators: int) -> Work:
    """Returns the work of one node of a traced program, which runs as this many operators."""
    consts = {position for position, _ in trace.consts}
    flops, moved = 0.0, 0
    for op in trace.ops:
        flops += _flops(op, trace)
        own = [position for position in (*op.inputs, *op.outputs) if position not in consts]
        moved += sum(_bytes(trace.shapes[position]) for position in own)
    weights = sum(_bytes(trace.shapes[position]) for position in consts)
    return Work(operators, flops, moved, weights)


def _flops(op: TraceOp, trace: Trace) -> float:
    results = sum(prod(trace.shapes[position][0]) for position in op.outputs)
    if op.name == "convolution.default":
        return 2.0 * results * prod(trace.shapes[op.inputs[1]][0][1:])
    if op.name in RECURRENT:  # each step goes through all matrices
        weights = sum(prod(trace.shapes[k][0]) for k in op.inputs if len(trace.shapes[k][0]) == 2)
        return 2.0 * prod(trace.shapes[op.inputs[0]][0][:2]) * weights
    if op.name not in _PRODUCTS:
        return float(results)
    right = trace.shapes[op.inputs[_PRODUCTS[op.name]]][0]
    return 2.0 * results * (right[-2] if len(right) > 1 else right[-1])


def _bytes(shaped: Shaped) -> int:
    shape, dtype = shaped
    return prod(shape) * _SIZES.get(dtype, 4)
