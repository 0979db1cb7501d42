"""What tests of MXNet's numpy interface share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import mxnet as mx
import numpy as onp
from mxnet import gluon, np
from support import TOLERANCE, assert_close


@contextmanager
def numpy_program() -> Iterator[None]:
    """The semantics of mx.np. MXNet's switches are the thread's: other tests must not see them."""
    mx.npx.set_np()
    mx.random.seed(3)
    try:
        yield
    finally:
        mx.npx.reset_np()


def uniform(*shape: int, seed: int = 0, low: float = -1.0, high: float = 1.0, dtype: str = "float32") -> Any:
    """Random numbers."""
    return np.array(onp.random.RandomState(seed).uniform(low, high, shape).astype(dtype), dtype=dtype)


def whole(high: int, *shape: int, seed: int = 0, dtype: str = "int32") -> Any:
    """Random whole numbers below `high`."""
    return np.array(onp.random.RandomState(seed).randint(0, high, shape).astype(dtype), dtype=dtype)


class Plain(gluon.Block):
    """Runs a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


Outcome = dict[str, onp.ndarray]


def agree(actual: Outcome, expected: Outcome, tolerance: float = TOLERANCE) -> None:
    """Rule 1."""
    assert actual.keys() == expected.keys()
    for name, wanted in expected.items():
        assert actual[name].dtype == wanted.dtype, f"{name}: {actual[name].dtype} instead of {wanted.dtype}"
        assert_close(actual[name].astype("float64"), wanted.astype("float64"), name, tolerance)
