"""Cases of rules: an operator with its attributes and arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Arg:
    """One argument of a case: its per-sample shape and where its random values lie."""

    shape: tuple[int, ...]
    shared: bool = False
    dtype: str = "float32"
    low: float = -1.0
    high: float = 1.0
    whole: bool = False
    grad: bool = True
    spd: bool = False  # symmetric positive definite, for decompositions

    @property
    def differentiable(self) -> bool:
        return np.dtype(self.dtype).kind == "f" and not self.whole and self.grad

    def draw(self, random: np.random.RandomState, rows: int | None = None) -> np.ndarray:
        shape = self.shape if rows is None or self.shared else (rows, *self.shape[1:])
        values = (
            random.randint(int(self.low), int(self.high), shape)
            if self.whole
            else random.uniform(self.low, self.high, shape)
        )
        if self.spd:
            values = values @ values.swapaxes(-1, -2) / 3 + np.diag(1.0 + np.arange(shape[-1]))
        return np.asarray(values, self.dtype)


def x(*shape: int, low: float = -1.0, high: float = 1.0, dtype: str = "float32") -> Arg:
    """One array of floats a sample."""
    return Arg(shape, low=low, high=high, dtype=dtype)


def w(*shape: int, low: float = -1.0, high: float = 1.0, dtype: str = "float32") -> Arg:
    """One array of floats shared by all samples."""
    return Arg(shape, shared=True, low=low, high=high, dtype=dtype)


def i(high: int, *shape: int, low: int = 0, dtype: str = "float32", shared: bool = False) -> Arg:
    """Whole numbers from low to high, one array a sample or shared."""
    return Arg(shape, shared, dtype, low, high, whole=True)


@dataclass(frozen=True)
class Case:
    op: str
    attrs: dict[str, Any]
    args: tuple[Arg, ...]
    poly: bool = False  # must be exact on rows of varying length
    alone: bool = False  # must be refused
    grad: bool = True  # has a gradient
    drawn: bool = False  # random whatever its parameters: only shapes agree
    fixed: bool = False  # means nothing with another number of rows, and MXNet does not look
    training: bool = True
    outputs: list[Any] | None = None  # where the operator cannot run to say what they are

    def __str__(self) -> str:
        attrs = ",".join(f"{key}={value}" for key, value in self.attrs.items())
        args = " ".join(("w" if arg.shared else "x") + str(arg.shape).replace(" ", "") for arg in self.args)
        return f"{self.op}[{attrs}] {args}".replace(" ", "_")


CASES: list[Case] = []


def case(op: str, attrs: dict[str, Any] | None, *args: Arg, **kwargs: Any) -> None:
    CASES.append(Case(op, {key: str(value) for key, value in (attrs or {}).items()}, args, **kwargs))
