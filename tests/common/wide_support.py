"""How wide the cells of tests are, and whether results are eager's."""

from __future__ import annotations

from typing import Any

import numpy as np

WIDE = [8_193, 12_000, 40_000]
LENGTHS = (1, 2, 3)


def assert_alike(found: list[Any], wanted: list[Any]) -> None:
    for actual, expected in zip(found, wanted):
        assert actual.shape == expected.shape
        assert np.abs(actual - expected).max() <= 1e-5 * max(np.abs(expected).max(), 1e-6)
