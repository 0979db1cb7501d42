"""The values that fused programs compute with: rows, columns of integers, constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from gluonjit.rows.program import Builder, NotFusable, View, Weight

Shape = tuple[int, ...]


class RowMatrix(NamedTuple):
    """A tensor of each node or child, as one row; with `lead` its first dimension is rows, of any number."""

    view: View
    shape: Shape
    lead: bool = False

    @property
    def inner(self) -> Shape:
        """The dimensions within a row."""
        return self.shape[1:] if self.lead else self.shape


class IntegerColumn(NamedTuple):
    """An integer of each node, which instructions take as a column of floats; operand: where it comes from."""

    view: View
    shape: Shape
    operand: int


class Const(NamedTuple):
    """A constant tensor of one or two dimensions; with `turned` it is the transpose of what lies in memory."""

    weight: Weight
    shape: Shape
    turned: bool = False


Anything = Any  # one of these
Args = Mapping[str, Any]
Shapes = Sequence[Shape]
Rule = Callable[[Builder, Args, Shapes], Any]


def rows_in(value: Anything) -> RowMatrix:
    """Returns a value as rows. Raises NotFusable for any other."""
    if not isinstance(value, RowMatrix):
        raise NotFusable(f"{type(value).__name__} where rows are needed")
    return value


def is_row(value: Anything, width: int) -> bool:
    """Tells whether a value is one constant row of so many columns."""
    return isinstance(value, Const) and value.weight.rows == 1 and value.weight.columns == width and not value.turned
