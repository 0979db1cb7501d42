"""Measures of how well predicted scores fit the given ones."""

from __future__ import annotations

import numpy as np
from scipy import stats


def fit(predicted: np.ndarray, given: np.ndarray) -> dict[str, float]:
    """Return Pearson, Spearman and mean squared error; a correlation with a constant counts as 0."""
    constant = np.ptp(predicted) == 0 or np.ptp(given) == 0
    return {
        "pearson": 0.0 if constant else float(np.corrcoef(predicted, given)[0, 1]),
        "spearman": 0.0 if constant else float(stats.spearmanr(predicted, given)[0]),
        "mse": float(np.mean((predicted - given) ** 2)),
    }
