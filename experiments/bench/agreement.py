"""Checks that two systems compute the same: losses and gradients, by max|a - b| <= tolerance * max|b|."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

TOLERANCE = 1e-5


class Computing(Protocol):
    """One system to compare."""

    @property
    def label(self) -> str:
        """The name in tables."""

    def results(self, samples: Sequence[Any]) -> dict[str, np.ndarray]:
        """Return the losses of a minibatch and the gradient of each parameter."""


class Disagreement(Exception):
    """Two systems that should compute the same do not."""


def deviations(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> dict[str, float]:
    """Return max|a - b| / max|b| for the losses and each gradient."""
    return {name: _deviation(found[name], expected[name]) for name in expected}


def _deviation(found: np.ndarray, expected: np.ndarray) -> float:
    if found.shape != expected.shape or not np.isfinite(found).all():
        return float("inf")
    scale = float(np.abs(expected).max())
    return float(np.abs(found - expected).max()) / scale if scale else float(np.abs(found).max())


def check(systems: Sequence[Computing], samples: Sequence[Any]) -> dict[str, float]:
    """Compare all systems with the first; return each one's largest deviation, or raise `Disagreement`."""
    expected = systems[0].results(samples)
    largest = {}
    for system in systems[1:]:
        found = deviations(system.results(samples), expected)
        worst = max(found, key=lambda name: found[name])
        if found[worst] > TOLERANCE:
            raise Disagreement(
                f"{system.label} and {systems[0].label} differ in {worst} by {found[worst]:.1e} of the largest "
                f"entry, more than {TOLERANCE:.0e}: nothing was measured"
            )
        largest[system.label] = found[worst]
    return largest
