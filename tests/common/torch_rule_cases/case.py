"""How a case of one of PyTorch's rules is written down: an operator of ATen with its arguments for one sample."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch


@dataclass(frozen=True)
class Arg:
    """One tensor of a case: its shape in a sample, where its random values lie, and whether it is the same for all."""

    shape: tuple[int, ...]
    shared: bool = False
    dtype: str = "float32"
    low: float = -1.0
    high: float = 1.0
    whole: bool = False  # whole numbers from low to high
    learnt: bool = True  # whether PyTorch has a gradient of it

    def draw(self, rows: int | None = None) -> Any:
        shape = self.shape if rows is None or self.shared else (rows, *self.shape[1:])
        if self.whole or self.dtype == "bool":
            drawn = torch.randint(int(self.low), int(self.high), shape)
        else:
            drawn = torch.rand(shape) * (self.high - self.low) + self.low
        return drawn.to(getattr(torch, self.dtype))


def x(*shape: int, low: float = -1.0, high: float = 1.0, dtype: str = "float32") -> Arg:
    """One tensor of floats a sample."""
    return Arg(shape, low=low, high=high, dtype=dtype)


def w(*shape: int, low: float = -1.0, high: float = 1.0, dtype: str = "float32") -> Arg:
    """One tensor of floats that is the same for all samples."""
    return Arg(shape, shared=True, low=low, high=high, dtype=dtype)


def i(high: int, *shape: int, low: int = 0, dtype: str = "int64", shared: bool = False) -> Arg:
    """Whole numbers from low to high, one tensor a sample or the same for all."""
    return Arg(shape, shared, dtype, low, high, whole=True)


def b(*shape: int, shared: bool = False) -> Arg:
    """Truth values."""
    return Arg(shape, shared, "bool", 0, 2)


def fixed(arg: Arg) -> Arg:
    """A tensor of which PyTorch has no gradient."""
    return replace(arg, learnt=False)


@dataclass(frozen=True)
class Case:
    """One call: `args` in the order of the operator's schema, `kwargs` by name; tensors among them are `Arg`."""

    op: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    poly: bool = False  # must be exact on rows of any number
    alone: bool = False  # must be refused
    drawn: bool = False  # draws at random: only shapes agree
    fixed: bool = False  # says how many rows there are, so that it means nothing with another number
    compared: int | None = None  # how many of the results mean something; None for all
    grad: bool = True
    shown: str = ""

    def __str__(self) -> str:
        return self.shown


CASES: list[Case] = []
_OF_CASES = ("poly", "alone", "drawn", "fixed", "compared", "grad")


def case(op: str, *args: Any, **kwargs: Any) -> None:
    given = {name: kwargs.pop(name) for name in _OF_CASES if name in kwargs}
    shown = ",".join([*map(_shown, args), *(f"{name}={_shown(value)}" for name, value in kwargs.items())])
    CASES.append(Case(op, args, kwargs, shown=f"{op}({shown})".replace(" ", ""), **given))


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"[{','.join(map(_shown, value))}]"
    if isinstance(value, Arg):
        kind = "" if value.dtype == "float32" else f":{value.dtype}"
        return f"{'w' if value.shared else 'x'}{value.shape}{kind}"
    return str(value)
