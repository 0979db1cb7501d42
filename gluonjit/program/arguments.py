"""Arguments of operators: which of them are operands, and why a call of these cannot run for many nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class NotBatchable(Exception):
    """A call that must run for each sample alone; the text says why."""


class Operand(int):
    """An argument in attributes that is the input of this number."""

    def __repr__(self) -> str:
        return f"input {int(self)}"


def placed(value: Any, inputs: Sequence[Any], listed: Callable[[list[Any]], Any] = tuple) -> Any:
    """Returns an argument with values in place of inputs, its tuples as `listed` makes them."""
    if value.__class__ is Operand:
        return inputs[value]
    return listed([placed(item, inputs, listed) for item in value]) if isinstance(value, tuple) else value


def counted(rank: int, dim: int) -> int:
    """A dimension counted from the front."""
    if not rank:
        raise NotBatchable("along a dimension of a tensor that has none")
    return dim % rank
