"""The values that fused programs compute with: rows, groups and sums of them, constants."""

from __future__ import annotations

from typing import Any, NamedTuple

from gluonjit.rows.program import NotFusable, View, Weight


class RowMatrix(NamedTuple):
    """An array with one row for each node or child, of these dimensions."""

    view: View
    dims: tuple[int, ...]


class Group(NamedTuple):
    """Operands that are gathered together, one after the other; `apart` if an axis separates them."""

    roles: tuple[RowMatrix, ...]
    apart: bool = False


class Folded(NamedTuple):
    """Rows to be summed up, this many for each node, on a separate axis."""

    rows: RowMatrix
    number: int


class Const(NamedTuple):
    """A constant array, or some columns of it."""

    weight: Weight
    vector: bool


class Beside(NamedTuple):
    """The operand that tells children apart."""

    name: str


Anything = Any  # one of these


def rows_in(value: Anything) -> RowMatrix:
    """Returns a value as rows. Raises NotFusable for any other."""
    if not isinstance(value, RowMatrix):
        raise NotFusable(f"{type(value).__name__} where rows are needed")
    return value


def row_in(value: Anything) -> Weight | None:
    """A constant that is one row."""
    return value.weight if isinstance(value, Const) and value.weight.rows == 1 else None
