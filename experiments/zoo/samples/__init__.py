"""Samples of the models, the same for every engine: arrays are numpy's, and the rest is plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.data.arrays import Make


def given(part: Any, make: Make) -> Any:
    """Return a sample, or a part of one, with arrays that `make` makes in place of numpy's."""
    if isinstance(part, np.ndarray):
        return make(part)
    if isinstance(part, (tuple, list)):
        return type(part)([given(inner, make) for inner in part])
    return part


def integers(numbers: Any) -> np.ndarray:
    """Return integers as an array: indices, or classes; of one number without axes."""
    return np.asarray(numbers, dtype=np.int32)


def floats(numbers: Any) -> np.ndarray:
    """Return numbers as an array."""
    return np.asarray(numbers, dtype=np.float32)
