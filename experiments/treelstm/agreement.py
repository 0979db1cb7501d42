"""Whether two systems compute the same: losses and gradients, by max|a - b| <= tolerance * max|b|."""

from __future__ import annotations

from collections.abc import Sequence

import mxnet as mx
import numpy as np

from experiments.data.trees import Pair
from experiments.treelstm.systems import System

TOLERANCE = 1e-5


class Disagreement(Exception):
    """Two systems that should compute the same do not."""


def results(system: System, pairs: Sequence[Pair]) -> dict[str, np.ndarray]:
    """Return the losses of a minibatch and the gradient of each parameter."""
    losses = system.differentiate(pairs)
    found = {"losses": mx.nd.concat(*losses, dim=0).asnumpy()}
    found.update((name, parameter.grad().asnumpy()) for name, parameter in system.parameters.items())
    return found


def deviations(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> dict[str, float]:
    """Return max|a - b| / max|b| for the losses and each gradient."""
    return {name: _deviation(found[name], expected[name]) for name in expected}


def _deviation(found: np.ndarray, expected: np.ndarray) -> float:
    if found.shape != expected.shape or not np.isfinite(found).all():
        return float("inf")
    scale = float(np.abs(expected).max())
    return float(np.abs(found - expected).max()) / scale if scale else float(np.abs(found).max())


def check(systems: Sequence[System], pairs: Sequence[Pair]) -> dict[str, float]:
    """Compare all systems with the first; return each one's largest deviation, or raise `Disagreement`."""
    expected = results(systems[0], pairs)
    largest = {}
    for system in systems[1:]:
        found = deviations(results(system, pairs), expected)
        worst = max(found, key=lambda name: found[name])
        if found[worst] > TOLERANCE:
            raise Disagreement(
                f"{system.label} and {systems[0].label} differ in {worst} by {found[worst]:.1e} of the "
                f"largest entry, more than {TOLERANCE:.0e}: nothing was measured"
            )
        largest[system.label] = found[worst]
    return largest
