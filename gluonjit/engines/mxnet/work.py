"""Arithmetic of MXNet's operators, for the work of one node of a program (`program.work`)."""

from __future__ import annotations

from collections.abc import Callable
from math import prod, sqrt

from gluonjit.engines.mxnet.operators.symbols import canonical
from gluonjit.graph import Work
from gluonjit.program.trace import Trace
from gluonjit.program.work import Shapes, traced_work


def _dense(inputs: Shapes, outputs: Shapes) -> float:
    """(rows, in) with weights (out, in): 2 * rows * out * in."""
    return 2.0 * prod(outputs[0]) * prod(inputs[1][1:])


def _product(inputs: Shapes, outputs: Shapes) -> float:
    """(m, k) with (k, n), either way round: the k that the sizes of the three share."""
    elements = prod(outputs[0])
    return 2.0 * elements * sqrt(prod(inputs[0]) * prod(inputs[1]) / elements) if elements else 0.0


def _products(inputs: Shapes, outputs: Shapes) -> float:
    """One product for each entry of the leading axis."""
    count = max(outputs[0][0], 1)
    return count * _product([shape[1:] for shape in inputs[:2]], [outputs[0][1:]])


def _convolution(inputs: Shapes, outputs: Shapes) -> float:
    """Each result is a sum over one filter, (channels, height, width)."""
    return 2.0 * prod(outputs[0]) * prod(inputs[1][1:])


def _recurrent(inputs: Shapes, outputs: Shapes) -> float:
    """(time, samples, in) with all weights in one array: each is used once a time and sample."""
    return 2.0 * prod(inputs[0][:2]) * prod(inputs[1])


_FLOPS: dict[str, Callable[[Shapes, Shapes], float]] = {
    "FullyConnected": _dense,
    "dot": _product,
    "_npi_dot": _product,
    "_npi_matmul": _product,
    "batch_dot": _products,
    "_linalg_gemm2": _products,
    "Convolution": _convolution,
    "Deconvolution": _convolution,
    "RNN": _recurrent,
}
"""Floating-point operations by operator; of any other, one for each element of its results."""


def _flops(name: str, inputs: Shapes, outputs: Shapes) -> float:
    count = _FLOPS.get(canonical(name))
    return float(sum(map(prod, outputs))) if count is None else count(inputs, outputs)


def work_of(trace: Trace, operators: int) -> Work:
    """Returns the work of one node of a traced program, which runs as this many operators."""
    return traced_work(trace, operators, _flops)
