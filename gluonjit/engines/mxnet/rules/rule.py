"""A row of the table, and one operator call as a rule sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Callable

import mxnet as mx

from .attributes import Attributes
from .symbols import apply
from .values import ROWS, STACK, NotBatchable, Shape, Together, Val, convert, normal_axis

Spec = tuple[Shape, str]


@dataclass(frozen=True)
class OperatorCall:
    """An operator on values; `outputs` are the shapes and dtypes that one sample sees.

    learning: whether it runs in training, or a backward pass may go through it, which does so as in training.
    """

    name: str
    attrs: Attributes
    inputs: tuple[Val, ...]
    outputs: tuple[Spec, ...]
    learning: bool = False

    @property
    def data(self) -> Val:
        return self.inputs[0]

    @property
    def shape(self) -> Shape:
        """Per-sample shape of the first output."""
        return self.outputs[0][0]

    @property
    def dtype(self) -> str:
        """Dtype of the first output."""
        return self.outputs[0][1]

    @property
    def poly(self) -> bool:
        """True if an input has rows of varying length."""
        return any(value.poly for value in self.inputs)

    @property
    def batched(self) -> list[Val]:
        return [value for value in self.inputs if not value.shared]

    def axis(self, key: str, default: int, more: int = 0) -> int:
        """An axis of the data, or of one with this many axes more, counted from the front; see `normal_axis`."""
        return normal_axis(self.attrs.integer(key, default), self.data.ndim + more)

    def axes(self, key: str) -> list[int]:
        """Axes of the data, counted from the front; none if they are not given."""
        return [normal_axis(axis, self.data.ndim) for axis in self.attrs.axes(key) or ()]

    def same(self, symbols: Sequence[mx.sym.Symbol], **changes: Any) -> mx.sym.Symbol:
        """This operator on other symbols, with some attributes changed."""
        return apply(self.name, symbols, {**self.attrs, **changes})

    def deliver(self, result: mx.sym.Symbol | Sequence[mx.sym.Symbol], layout: str, poly: bool = False) -> list[Val]:
        """Names the results: each symbol with its output's per-sample shape and dtype."""
        if isinstance(result, mx.sym.Symbol):
            count = len(self.outputs)
            result = [result] if count == 1 and len(result) == 1 else [result[i] for i in range(count)]
        return [Val(symbol, shape, dtype, layout, poly) for symbol, (shape, dtype) in zip(result, self.outputs)]

    def deliver_of(self, operands: Together, **changes: Any) -> list[Val]:
        """Delivers this operator on operands in one layout, with some attributes changed."""
        return self.deliver(self.same(operands.symbols, **changes), operands.layout, operands.poly)

    def deliver_along(self, keeps_rows: bool, make: Callable[[mx.sym.Symbol, int], mx.sym.Symbol]) -> list[Val]:
        """Delivers on rows if axis 0 takes no part, else on stacks; `make` is told by how much axes are shifted."""
        data = self.data
        if data.rows and keeps_rows:
            return self.deliver(make(data.sym, 0), ROWS, data.poly)
        if data.poly:
            raise NotBatchable(f"{self.name} along axis 0 of rows of varying length")
        return self.deliver(make(convert(data, STACK).sym, 1), STACK)

    def deliver_each(self, result: mx.sym.Symbol, natural: Shape) -> list[Val]:
        """Delivers (N, *natural). Classic operators say (1,) where nothing is left: (N,) is its rows."""
        if self.shape == natural:
            return self.deliver(result, STACK)
        if natural == () and self.shape == (1,):
            return self.deliver(result, ROWS)
        raise ValueError(f"{self.name}: expected {self.shape} for each sample, the rule gives {natural}")


Emit = Callable[[OperatorCall], "list[Val]"]


@dataclass(frozen=True)
class Rule:
    """The rule of one operator: how it runs for many samples.

    kind      "elementwise", "row-wise", "axis", "shape", "rewritten", "constant" or "alone"
    emit      makes the batched symbols of a call
    reason    why an "alone" operator does not batch
    random    draws random numbers, so equal calls are not equal values
    stateful  changes something beyond its outputs, or runs the user's code
    writes    writes into its operands, so it runs at once, on the arrays themselves
    unsized   the shape of its result depends on numbers, or its storage is sparse, so it runs at once
    may_fail  may raise when it runs, depending on numbers; set by the table in `failing`
    notes     a remark for the printed table
    trained   draws in training only, unless its mode is "always"
    random_if decides by the attributes, where not every call draws; `draws` asks
    fails_if  decides by the attributes, where not every call may fail; `fails` asks
    """

    kind: str
    emit: Emit
    reason: str = ""
    random: bool = False
    stateful: bool = False
    notes: str = ""
    writes: bool = False
    unsized: bool = False
    may_fail: bool = False
    random_if: Callable[[Attributes], bool] | None = None
    fails_if: Callable[[Attributes], bool] | None = None
    trained: bool = False

    @property
    def at_once(self) -> bool:
        """Tells whether a call runs when it is made, and with it everything it depends on."""
        return self.writes or self.unsized

    def draws(self, attrs: Attributes, training: bool = True) -> bool:
        """Tells whether a call with these attributes may draw random numbers."""
        if self.trained and not training and attrs.text("mode", "training") != "always":
            return False
        return self.random_if(attrs) if self.random_if else self.random

    def fails(self, attrs: Attributes) -> bool:
        """Tells whether a call with these attributes may raise when it runs."""
        return self.fails_if(attrs) if self.fails_if else self.may_fail


def alone(
    reason: str, random: bool = False, stateful: bool = False, writes: bool = False, unsized: bool = False
) -> Rule:
    """Makes a rule for an operator that runs for each sample alone."""

    def refuse(call: OperatorCall) -> list[Val]:
        raise NotBatchable(f"{call.name}: {reason}")

    return Rule("alone", refuse, reason, random, stateful, writes=writes, unsized=unsized)


def rules_of(names: str, emit: Emit, kind: str = "row-wise", notes: str = "") -> dict[str, Rule]:
    """Makes a row for each of these operators."""
    return {name: Rule(kind, emit, notes=notes) for name in names.split()}


def alone_of(names: str, reason: str, **flags: bool) -> dict[str, Rule]:
    """Makes a row for each of these operators, which run for each sample alone."""
    return {name: alone(reason, **flags) for name in names.split()}
