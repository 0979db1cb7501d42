"""Non-negative coefficients fitted to measurements by least relative errors, robust to outliers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
_ROUNDS = 12


def fit(amounts: Array, seconds: Array) -> Array:
    """Coefficients c >= 0 with amounts @ c near seconds, by the sum of absolute relative errors.

    Least squares are reweighted by the errors of the round before, so that outliers lose their weight.
    """
    scale = 1.0 / np.maximum(seconds, 1e-12)
    weights = np.ones(len(seconds))
    found = np.zeros(amounts.shape[1])
    for _ in range(_ROUNDS):
        row = scale * weights
        found = nonnegative(amounts * row[:, None], seconds * row)
        errors = np.abs(amounts @ found - seconds) * scale
        weights = 1.0 / np.sqrt(np.maximum(errors, 0.02))
    return found


def nonnegative(matrix: Array, target: Array) -> Array:
    """The x >= 0 that makes |matrix @ x - target| least (Lawson and Hanson 1974, chapter 23)."""
    norms = np.linalg.norm(matrix, axis=0)
    scaled = matrix / np.where(norms > 0, norms, 1.0)
    count = matrix.shape[1]
    active = np.zeros(count, dtype=bool)
    found = np.zeros(count)
    for _ in range(3 * count):
        gradient = scaled.T @ (target - scaled @ found)
        gradient[active | (norms == 0)] = 0.0
        if gradient.max(initial=0.0) <= 1e-10 * max(float(np.abs(target).max(initial=0.0)), 1e-300):
            break
        active[int(gradient.argmax())] = True
        found = _within(scaled, target, active, found)
    return np.asarray(found / np.where(norms > 0, norms, 1.0))


def _within(matrix: Array, target: Array, active: npt.NDArray[np.bool_], found: Array) -> Array:
    """The least squares of the active columns; those that would become negative are given up one by one."""
    while active.any():
        wanted = np.zeros(len(found))
        wanted[active] = np.linalg.lstsq(matrix[:, active], target, rcond=None)[0]
        low = active & (wanted <= 0)
        if not low.any():
            return wanted
        step = float((found[low] / np.maximum(found[low] - wanted[low], 1e-300)).min())
        found = found + step * (wanted - found)
        active &= found > 1e-14 * max(float(found.max(initial=0.0)), 1e-300)
    return np.zeros(len(found))


def fit_named(rows: Sequence[Mapping[str, float]], seconds: Sequence[float]) -> dict[str, float]:
    """Fits named amounts; names that have no amount in any measurement are left out."""
    names = list(rows[0]) if rows else []
    matrix = np.array([[row[name] for name in names] for row in rows], dtype=np.float64).reshape(len(rows), len(names))
    found = fit(matrix, np.array(seconds, dtype=np.float64)) if rows else np.zeros(0)
    measured = (matrix != 0).any(axis=0)
    return {name: float(cost) for name, cost, there in zip(names, found, measured) if there}
