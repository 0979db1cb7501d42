"""Sets of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import RandomState

from experiments.zoo.samples import floats, integers

FEATURES = 5  # of an element


def largest(count: int, random: RandomState) -> list[Any]:
    """Sets of 1 to 9 elements, and the largest first feature."""
    samples = []
    for _ in range(count):
        elements = random.uniform(-1, 1, (random.randint(1, 10), FEATURES))
        samples.append((floats(elements), floats(elements[:, 0].max())))
    return samples


def around(count: int, random: RandomState) -> list[Any]:
    """Sets of 2 to 8 points of the plane, and the order of their angles, as a list and as an array."""
    samples = []
    for _ in range(count):
        points = random.uniform(-1, 1, (random.randint(2, 9), 2))
        order = np.argsort(np.arctan2(points[:, 1], points[:, 0]))
        samples.append((floats(points), order.tolist(), integers(order)))
    return samples
