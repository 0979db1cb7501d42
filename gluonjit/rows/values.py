"""The values that a cell is lowered with: rows, constants, and integers of nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

from gluonjit.rows.program import COMMUTATIVE, NODE, WITH_ROW, Builder, NotFusable, View, Weight

Shape = tuple[int, ...]
LIMITS = ("MAXS", "MINS")
"""Instructions that take the larger, or the smaller, of an entry and a number."""


@dataclass(frozen=True, eq=False)
class CellValue:
    """An operand or a result of an operator, of this shape for each node or child."""

    builder: Builder
    shape: Shape

    @property
    def rank(self) -> int:
        """The number of its axes."""
        return len(self.shape)

    def shaped(self, shape: Shape) -> Any:
        """The same numbers in the same order, in another shape. Raises NotFusable."""
        return replace(self, shape=shape)


@dataclass(frozen=True, eq=False)
class Const(CellValue):
    """A constant, or a part of it; with `turned` it is the transpose of what lies in memory."""

    weight: Weight
    turned: bool = False

    @property
    def is_row(self) -> bool:
        """True if it is one row, so that its only axis of several entries is the last."""
        return self.weight.rows == 1 and not self.turned and (1, *self.shape)[-1] == self.weight.columns

    def shaped(self, shape: Shape) -> Any:
        """The same rows, counted by other axes."""
        if shape != self.shape and (self.turned or (1, *shape)[-1] != (1, *self.shape)[-1]):
            raise NotFusable(f"a constant of {self.shape} as {shape}")
        return replace(self, shape=shape)

    def transposed(self) -> Const:
        """The other way round."""
        return replace(self, shape=self.shape[::-1], turned=not self.turned)

    def part(self, axis: int, begin: int, count: int) -> Const:
        """Some of the entries along an axis."""
        shape = _cut(self.shape, axis, count)
        last = axis == self.rank - 1
        if not last and prod(self.shape[:axis]) != 1:
            raise NotFusable(f"a part of a constant of {self.shape}")
        if last == self.turned:
            each = 1 if self.turned else prod(self.shape[axis + 1 : -1])
            weight = self.weight._replace(top=self.weight.top + begin * each, rows=count * each)
        else:
            weight = self.weight._replace(left=self.weight.left + begin, columns=count)
        return replace(self, shape=shape, weight=weight)


@dataclass(frozen=True, eq=False)
class Whole(CellValue):
    """An integer of each node, which instructions take as a column of floats; operand: where it comes from."""

    view: View
    operand: int


@dataclass(frozen=True, eq=False)
class Rows(CellValue):
    """A value of each node or child as one row; with `lead` its first axis is rows, of any number."""

    view: View
    lead: bool = False

    @property
    def inner(self) -> Shape:
        """The axes within a row."""
        return self.shape[1:] if self.lead else self.shape

    @property
    def space(self) -> int:
        """Whom its rows belong to."""
        return self.builder.space(self.view)

    def shaped(self, shape: Shape) -> Rows:
        """The same rows, in another shape."""
        found = replace(self, shape=shape)
        if prod(found.inner) != self.view.width or (self.lead and shape[:1] != self.shape[:1]):
            raise NotFusable(f"rows of {self.inner} become {shape}")
        return found

    def part(self, axis: int, begin: int, count: int) -> Rows:
        """Some of the entries along an axis, where they lie together."""
        if (self.lead and not axis) or prod(self.shape[self.lead : axis]) != 1:
            raise NotFusable("a part of rows that is not contiguous")
        each = prod(self.shape[axis + 1 :])
        view = self.view.part(begin * each, (begin + count) * each)
        return replace(self, view=view, shape=_cut(self.shape, axis, count))

    def do(self, op: str, number: float = 0.0, width: int | None = None) -> Rows:
        """The result of an instruction."""
        return self.by(self.builder.emit(op, self.view, width=width, number=number))

    def by(self, view: View) -> Rows:
        """Its rows with other columns, along the last axis where they are not as many."""
        if view.width == self.view.width:
            return replace(self, view=view)
        before = (1,) * (self.rank - self.lead - 1)
        return replace(self, view=view, shape=(*self.shape[: self.lead], *before, view.width))

    def stopped(self) -> Rows:
        """The same numbers without a gradient."""
        return self.by(self.builder.stop(self.view))

    def filled(self, number: float) -> Rows:
        """Its shape with one number everywhere."""
        return self.by(self.builder.filled(self.space, self.view.width, number))

    def total(self, mean: bool = False) -> Rows:
        """The sum, or the mean, of all entries."""
        return self.by(self.view if self.view.width == 1 else self.builder.total(self.view, mean))

    def pick(self, number: Any) -> Rows:
        """The entry that an integer says, or a float, as which the last one is taken beyond the end."""
        if self.inner[-1:] != (self.view.width,):
            raise NotFusable("entries of several rows")
        if isinstance(number, Whole) and not self.lead:
            return self.by(self.builder.pick(self.view, number.view, number.operand))
        index = rows_in(number)
        if index.view.width != 1 or index.lead != self.lead:
            raise NotFusable("several entries of a row")
        return self.by(self.builder.emit("PICK", self.view, index.stopped().view, width=1))

    def linear(self, matrix: Any, bias: Any = None, down: bool = False) -> Rows:
        """Times the transpose of a constant (out, in), or `down` one as it is, (in, out); plus a constant row."""
        if not isinstance(matrix, Const) or matrix.rank != 2:
            raise NotFusable("a product of rows with rows")
        outer, inner = matrix.shape[::-1] if down else matrix.shape
        if inner != self.view.width:
            raise NotFusable("a product of several rows with a constant")
        row = bias.weight if isinstance(bias, Const) and bias.is_row and bias.weight.columns == outer else None
        found = self.by(self.builder.linear(self.view, matrix.weight, row, down != matrix.turned))
        return found if bias is None or row is not None else found + bias

    def limited(self, low: float | None, high: float | None) -> Rows:
        """No entry below the one number, or above the other."""
        above = self if low is None else self.do("MAXS", float(low))
        return above if high is None else above.do("MINS", float(high))

    def leaky(self, slope: float) -> Rows:
        """Entries below 0 times a slope, which is that at 0, too."""
        return self.do("RELU") + self.do("MINS") * slope

    def normalized(self, eps: float, scale: Any = None, shift: Any = None) -> Rows:
        """A row less its mean, over its deviation."""
        if self.inner[-1:] != (self.view.width,):
            raise NotFusable("a norm of several rows")
        centred = self - self.total(True)
        found = centred / (centred.do("SQUARE").total(True) + eps).do("SQRT")
        found = found if scale is None else found * scale
        return found if shift is None else found + shift

    def __add__(self, other: Any) -> Rows:
        return pair("ADD", self, other)

    def __sub__(self, other: Any) -> Rows:
        return pair("SUB", self, other)

    def __rsub__(self, other: float) -> Rows:
        return pair("RSUB", self, other)

    def __mul__(self, other: Any) -> Rows:
        return pair("MUL", self, other)

    def __truediv__(self, other: Any) -> Rows:
        return pair("DIV", self, other)

    def __neg__(self) -> Rows:
        return self.do("NEG")


def rows_in(value: Any, like: Rows | None = None) -> Rows:
    """Returns a value as rows: a constant row is one of each node, or of each row of `like`. Raises NotFusable."""
    if isinstance(value, Const) and value.is_row:
        width = value.weight.columns
        shape = value.shape if like is None or not like.lead else (like.shape[0], *(1,) * (like.rank - 2), width)
        zeros = value.builder.filled(NODE, width, 0.0)
        found = Rows(value.builder, shape, zeros, like is not None and like.lead)
        return found.by(value.builder.with_row("ADD", zeros, value.weight))
    if not isinstance(value, Rows):
        raise NotFusable(f"{type(value).__name__} where rows are needed")
    return value


def alike(values: list[Rows]) -> list[Rows]:
    """Values of children, if one is; those of a node are the same for each of its children then."""
    highest = max([value.space for value in values])
    return [value if value.space == highest else value.by(value.builder.spread(value.view)) for value in values]


def pair(op: str, a: Any, b: Any) -> Rows:
    """Two operands elementwise; the second may be a number, a constant row, or a column."""
    if isinstance(a, Const) and isinstance(b, Rows) and op in COMMUTATIVE:
        a, b = b, a
    one = rows_in(a, b if isinstance(b, Rows) else None)
    builder, width = one.builder, one.view.width
    if isinstance(b, (int, float)):
        return one.do(op, float(b)) if op in LIMITS else one.by(builder.with_number(op, one.view, float(b)))
    if isinstance(b, Const) and b.is_row and op in WITH_ROW and b.weight.columns == width == prod(one.inner[-1:]):
        return one.by(builder.with_row(op, one.view, b.weight))
    one, other = alike([one, rows_in(b, one)])
    if one.lead != other.lead or (one.lead and (one.shape[0], one.rank) != (other.shape[0], other.rank)):
        raise NotFusable(f"{op} of one row and of several")
    if 1 not in (width, other.view.width) and _plain(one.inner) != _plain(other.inner):
        raise NotFusable(f"{op} of rows of {one.inner} and of {other.inner}")
    return (other if width < other.view.width else one).by(builder.combined(op, one.view, other.view))


def _plain(shape: Shape) -> Shape:
    """A shape without axes of one entry."""
    return tuple([size for size in shape if size != 1])


def _cut(shape: Shape, axis: int, count: int) -> Shape:
    return (*shape[:axis], count, *shape[axis + 1 :])
