"""Arithmetic of PyTorch's operators, for the work of one node of a program (`program.work`)."""

from __future__ import annotations

from math import prod

from gluonjit.engines.torch.operators.recurrent import RECURRENT
from gluonjit.graph import Work
from gluonjit.program.trace import Trace
from gluonjit.program.work import Shapes, traced_work

_PRODUCTS = {
    "mm.default": 1,
    "addmm.default": 2,
    "mv.default": 1,
    "bmm.default": 1,
    "baddbmm.default": 2,
    "dot.default": 1,
}
"""Products of matrices, and which of their inputs is the right one."""


def _flops(name: str, inputs: Shapes, outputs: Shapes) -> float:
    results = sum(map(prod, outputs))
    if name == "convolution.default":
        return 2.0 * results * prod(inputs[1][1:])
    if name in RECURRENT:  # each step goes through all matrices
        weights = sum(prod(shape) for shape in inputs if len(shape) == 2)
        return 2.0 * prod(inputs[0][:2]) * weights
    if name not in _PRODUCTS:
        return float(results)
    right = inputs[_PRODUCTS[name]]
    return 2.0 * results * (right[-2] if len(right) > 1 else right[-1])


def work_of(trace: Trace, operators: int) -> Work:
    """Returns the work of one node of a traced program, which runs as this many operators."""
    return traced_work(trace, operators, _flops)
