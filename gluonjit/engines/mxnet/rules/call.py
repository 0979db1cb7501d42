"""One operator call as a rule sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mxnet as mx

from .attributes import Attributes
from .symbols import apply
from .values import ROWS, STACK, Shape, Val

Spec = tuple[Shape, str]


@dataclass(frozen=True)
class OperatorCall:
    """An operator on values; `outputs` are the shapes and dtypes that one sample sees."""

    name: str
    attrs: Attributes
    inputs: tuple[Val, ...]
    outputs: tuple[Spec, ...]
    training: bool = False

    @property
    def data(self) -> Val:
        return self.inputs[0]

    @property
    def shape(self) -> Shape:
        """Per-sample shape of the first output."""
        return self.outputs[0][0]

    @property
    def batched(self) -> list[Val]:
        return [value for value in self.inputs if not value.shared]

    def same(self, symbols: Sequence[mx.sym.Symbol], **changes: Any) -> mx.sym.Symbol:
        """This operator on other symbols, with some attributes changed."""
        return apply(self.name, symbols, {**self.attrs, **changes})

    def deliver(self, result: mx.sym.Symbol | Sequence[mx.sym.Symbol], layout: str, poly: bool = False) -> list[Val]:
        """Name the results: each symbol with its output's per-sample shape and dtype."""
        if isinstance(result, mx.sym.Symbol):
            count = len(self.outputs)
            result = [result] if count == 1 and len(result) == 1 else [result[i] for i in range(count)]
        return [Val(symbol, shape, dtype, layout, poly) for symbol, (shape, dtype) in zip(result, self.outputs)]

    def deliver_each(self, result: mx.sym.Symbol, natural: Shape) -> list[Val]:
        """Deliver (N, *natural). Classic operators say (1,) where nothing is left: (N,) is its rows."""
        if self.shape == natural:
            return self.deliver(result, STACK)
        if natural == () and self.shape == (1,):
            return self.deliver(result, ROWS)
        raise ValueError(f"{self.name}: expected {self.shape} for each sample, the rule gives {natural}")
