"""What tests share: the per-sample program as oracle, and small models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon

import gluonjit

TOLERANCE = 1e-5


def assert_close(actual: Any, expected: Any, what: str, tolerance: float = TOLERANCE) -> None:
    """Rule 1: equal to rounding, relative to the largest element."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape}, expected {expected.shape}"
    scale = max(float(np.abs(expected).max(initial=0.0)), 1e-6)
    difference = float(np.abs(actual - expected).max(initial=0.0))
    assert difference <= tolerance * scale, f"{what}: off by {difference} at scale {scale}"


def flat(result: Any) -> list[Any]:
    """Every array in nested lists and tuples."""
    return [array for part in result for array in flat(part)] if isinstance(result, (list, tuple)) else [result]


def gradients(net: gluon.Block) -> dict[str, np.ndarray]:
    """A copy of every gradient."""
    return {
        name: parameter.grad().asnumpy().copy()
        for name, parameter in net.collect_params().items()
        if parameter.grad_req != "null"
    }


def outcome(
    net: gluon.Block, samples: list[Any], loss: Callable[[Any, Any], Any]
) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """Each sample's loss, and the gradients of their sum."""
    for parameter in net.collect_params().values():
        if parameter.grad_req != "null" and parameter._data is not None:
            parameter.zero_grad()
    with autograd.record():
        losses = [loss(net, sample) for sample in samples]
        total = gluonjit.add_n([value.sum() for value in losses])
    total.backward()
    return [value.asnumpy().copy() for value in losses], gradients(net)


def assert_same(
    net: gluon.Block,
    samples: list[Any],
    loss: Callable[[Any, Any], Any],
    tolerance: float = TOLERANCE,
    **options: Any,
) -> gluonjit.Report:
    """Batched equals per sample, in values and gradients; returns the report of the batch."""
    net.hybridize(dynamic_batch=False)
    outcome(net, samples[:1], loss)  # deferred initialisation
    expected, expected_gradients = outcome(net, samples, loss)
    net.hybridize(dynamic_batch=True, **options)
    actual, actual_gradients = outcome(net, samples, loss)
    report = gluonjit.explain()
    net.hybridize(dynamic_batch=False)
    for number, (value, wanted) in enumerate(zip(actual, expected)):
        assert_close(value, wanted, f"loss of sample {number}", tolerance)
    for name, wanted in expected_gradients.items():
        assert_close(actual_gradients[name], wanted, f"gradient of {name}", tolerance)
    return report


def rows(*shape: int, seed: int = 0) -> mx.nd.NDArray:
    """Random numbers."""
    return mx.nd.array(np.random.RandomState(seed).uniform(-1, 1, shape))


class Recurrent(gluon.Block):
    """A cell along the rows of a sample, and operators between its calls."""

    def __init__(self, size: int) -> None:
        super().__init__()
        with self.name_scope():
            self.cell = gluon.nn.Dense(size, in_units=size, activation="tanh")

    def forward(self, x: Any) -> Any:
        h = x[0:1]
        for k in range(x.shape[0]):
            h = self.cell(h + x[k : k + 1])
        return h


def recurrent(size: int) -> Iterator[Recurrent]:
    """One with parameters, for a fixture; afterwards it is eager again."""
    made = Recurrent(size)
    made.initialize(mx.init.Uniform(0.7))
    yield made
    made.hybridize(dynamic_batch=False)
