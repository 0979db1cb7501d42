"""Values inside a batched graph, and the moves between the ways to store them.

rows    a sample's (r, *rest) is r consecutive rows of one (N*r, *rest) array
stack   a sample's S is one entry of an (N, *S) array
shared  one array, the same for every sample

Rows and stacks hold the same numbers in the same order, so a Reshape leads from one to the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import mxnet as mx

from gluonjit.program.trace import NotBatchable as NotBatchable

from .symbols import apply

Shape = tuple[int, ...]

ROWS = "rows"
STACK = "stack"
SHARED = "shared"


class Val(NamedTuple):
    """A symbol for all samples, with the shape and dtype that one sample sees.

    With `poly` the number of rows differs from sample to sample. The shape then shows one sample's
    number, which may not reach the graph, and all poly inputs of one call have equal numbers of rows,
    sample by sample.
    """

    sym: mx.sym.Symbol
    shape: Shape
    dtype: str
    layout: str
    poly: bool = False

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def shared(self) -> bool:
        return self.layout == SHARED

    @property
    def rows(self) -> bool:
        return self.layout == ROWS

    @property
    def stacked(self) -> bool:
        return self.layout == STACK


def normal_axis(axis: int, ndim: int) -> int:
    """The axis counted from the front; ValueError if there is none."""
    if not -ndim <= axis < ndim:
        raise ValueError(f"axis {axis} of a value with {ndim} axes")
    return axis % ndim


def convert(value: Val, layout: str) -> Val:
    """The same value stored as `layout`. Shared values cannot be converted: N is not known (`spread`)."""
    if layout not in (ROWS, STACK, SHARED):
        raise ValueError(f"there is no layout {layout!r}: rows, stack or shared")
    if value.layout == layout:
        return value
    if value.shared or layout == SHARED:
        raise NotBatchable(f"a {value.layout} value of shape {value.shape} cannot become {layout}")
    if value.poly:
        raise NotBatchable("rows of varying length cannot be stacked")
    if layout == ROWS and not value.ndim:
        raise NotBatchable("a value without axes has no rows")
    batched = value.shape[1:] if layout == ROWS else value.shape
    return value._replace(sym=reshape(value.sym, batched), layout=layout)


def reshape(symbol: mx.sym.Symbol, rest: Sequence[int]) -> mx.sym.Symbol:
    """Reshapes to (-1, *rest). The caller has checked that `rest` divides a sample's elements."""
    if any(size <= 0 for size in rest):
        raise NotBatchable(f"zero-size arrays: {tuple(rest)}")
    return apply("Reshape", [symbol], {"shape": (-1, *rest)})


def reshaped(value: Val, shape: Shape, layout: str | None = None) -> Val:
    """A sample's elements in another shape, stored as `layout` (by default rows if it has two axes)."""
    if math.prod(shape) != math.prod(value.shape):
        raise ValueError(f"reshape of {value.shape} to {shape} changes the number of elements")
    if value.poly or value.shared:
        raise NotBatchable(f"cannot reshape {'rows of varying length' if value.poly else 'a shared value'}")
    if layout is None:
        layout = ROWS if len(shape) >= 2 or shape == (1,) else STACK
    if value.layout == layout and value.shape == shape:
        return value
    rest = shape[1:] if layout == ROWS else shape
    return Val(reshape(value.sym, rest), shape, value.dtype, layout)


def with_shape(value: Val, shape: Shape, layout: str | None = None) -> Val:
    """The same elements in another shape, shared ones included."""
    if value.shape == shape:
        return value
    if value.shared and shape:
        return value._replace(sym=apply("Reshape", [value.sym], {"shape": shape}), shape=shape)
    return reshaped(value, shape, layout)


def spread(value: Val, reference: Val) -> Val:
    """A shared value repeated for each sample, as a stack; N is taken from `reference`."""
    if not value.shared:
        return convert(value, STACK)
    if reference.poly:
        raise NotBatchable("a shared value cannot be repeated for rows of varying length")
    like = convert(reference, STACK)
    single = apply("expand_dims", [value.sym], {"axis": 0})
    repeated = apply("broadcast_like", [single, like.sym], {"lhs_axes": (0,), "rhs_axes": (0,)})
    return value._replace(sym=repeated, layout=STACK)


class Together(NamedTuple):
    """Inputs of one call, brought to one layout."""

    symbols: list[mx.sym.Symbol]
    layout: str
    poly: bool


def together(values: Sequence[Val], rows_exact: bool) -> Together:
    """Brings values to one layout, shared ones repeated for each sample.

    Rows if the operator is exact on them and any value is stored so; else a stack.
    """
    batched = [value for value in values if not value.shared]
    poly = any(value.poly for value in batched)
    leading = {value.shape[:1] for value in values}
    as_rows = rows_exact and len(leading) == 1 and leading != {()} and any(value.rows for value in batched)
    if poly and not (as_rows and all(value.poly for value in values)):
        raise NotBatchable("rows of varying length together with values that are not, or along axis 0")
    reference = batched[0]
    if not as_rows:
        return Together([spread(value, reference).sym for value in values], STACK, False)
    spread_values = [spread(value, reference) if value.shared else value for value in values]
    return Together([convert(value, ROWS).sym for value in spread_values], ROWS, poly)


def all_rows(values: Sequence[Val]) -> tuple[list[mx.sym.Symbol], bool]:
    """Brings values with equal leading axes to rows, shared ones repeated; and says whether they are poly."""
    if any(not value.ndim or value.shape[0] != values[0].shape[0] for value in values):
        raise NotBatchable(f"values with different leading axes: {[value.shape for value in values]}")
    reference = next(value for value in values if not value.shared)
    poly = any(value.poly for value in values)
    if poly and not all(value.poly for value in values):
        raise NotBatchable("rows of varying length together with values that are not")
    spread_values = [spread(value, reference) if value.shared else value for value in values]
    return [convert(value, ROWS).sym for value in spread_values], poly
