"""The Tree-LSTM on every engine: its sizes, its optimizer, and its initial weights."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

MEMORY_SIZE, HEAD_SIZE = 150, 50
LEARNING_RATE, L2 = 0.05, 1e-4

# The names of the parameters; beside each, the matrix that gives its fan-in.
FED_BY = {
    "x_weight": "x_weight",
    "x_bias": "x_weight",
    "h_weight": "h_weight",
    "f_weight": "f_weight",
    "product_weight": "product_weight",
    "distance_weight": "distance_weight",
    "hidden_bias": "product_weight",
    "out_weight": "out_weight",
    "out_bias": "out_weight",
}


def draw(shapes: Mapping[str, tuple[int, ...]], seed: int) -> dict[str, np.ndarray]:
    """Draw every weight of these shapes uniformly within 1 / sqrt(fan-in)."""
    rng = np.random.default_rng([seed, 1])
    bounds = {name: 1.0 / np.sqrt(shapes[matrix][1]) for name, matrix in FED_BY.items()}
    return {name: rng.uniform(-bound, bound, shapes[name]) for name, bound in bounds.items()}
