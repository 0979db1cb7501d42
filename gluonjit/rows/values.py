"""The values that a cell is lowered with: rows, integers among them, and constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from gluonjit.program.axes.row import rows_before
from gluonjit.program.axes.values import Size
from gluonjit.rows.program import CHILD, NODE, Builder, NotFusable, View, Weight

Shape = tuple[Any, ...]
_COMMUTATIVE = ("ADD", "MUL")
_BY_ROW = {"ADD": "ADDV", "MUL": "MULV", "SUB": "SUBV"}
_BY_COLUMN = {"ADD": "ADDW", "MUL": "MULW", "SUB": "SUBW", "DIV": "DIVW"}
BY_NUMBER = {"SUB": "ADDS", "DIV": "MULS", **{op: f"{op}S" for op in "ADD MUL MAX MIN RSUB RDIV".split()}}
"""Instructions of rows and a number, by that of two operands; and in RSUB and RDIV the number comes first."""


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

    def part(self, axis: int, begin: int, count: int) -> Const:
        """Some of the entries along an axis."""
        top, _, left = self.weight[1:4]
        last = axis == self.rank - 1
        if not last and prod(self.shape[:axis]) != 1:
            raise NotFusable(f"a part of a constant of {self.shape}")
        if last == self.turned:
            each = 1 if last else prod(self.shape[axis + 1 : -1])
            weight = self.weight._replace(top=top + begin * each, rows=count * each)
        else:
            weight = self.weight._replace(left=left + begin, columns=count)
        return replace(self, shape=_cut(self.shape, axis, count), weight=weight)


def _paired(op: str) -> Callable[[Any, Any], Rows]:
    """A method that pairs a value with another operand."""
    return lambda one, other: pair(op, one, other)


@dataclass(frozen=True, eq=False)
class Rows(CellValue):
    """A value of each node or child as one row; with `lead` one axis is that of rows.

    operand: where an integer comes from, as a column of floats that only picks entries.
    """

    view: View
    lead: bool = False
    operand: int = -1

    @property
    def axis(self) -> int:
        """The axis of rows: that of any size, or the first."""
        return max(rows_before(self.shape) - 1, 0)

    @property
    def inner(self) -> Shape:
        """The axes within a row."""
        return (*self.shape[: self.axis], *self.shape[self.axis + 1 :]) if self.lead else self.shape

    @property
    def width(self) -> int:
        """The number of entries of a row."""
        return self.view.width

    @property
    def space(self) -> int:
        """Whom its rows belong to."""
        return self.builder.space(self.view)

    def shaped(self, shape: Shape) -> Rows:
        """The same rows, in another shape."""
        found = replace(self, shape=shape)
        before, now = [prod(value.shape[: value.axis + 1]) for value in (self, found)]
        if prod(found.inner) != self.width or (self.lead and before != now):
            raise NotFusable(f"rows of {self.inner} become {shape}")
        return found

    def part(self, axis: int, begin: int, count: int) -> Rows:
        """Some of the entries along an axis, where they lie together."""
        each = prod(self.inner[self.within(axis) + 1 :])
        view = self.view.part(begin * each, (begin + count) * each)
        return replace(self, view=view, shape=_cut(self.shape, axis, count))

    def within(self, axis: int) -> int:
        """The place of an axis within a row, if those before it have one entry. Raises NotFusable."""
        place = axis - (self.lead and axis > self.axis)
        if (self.lead and axis == self.axis) or prod(self.inner[:place]) != 1:
            raise NotFusable("a part of rows that is not contiguous")
        return place

    def do(self, op: str, other: Rows | None = None, **fields: Any) -> Rows:
        """The result of an instruction."""
        return self.by(self.builder.emit(op, self.view, None if other is None else other.view, **fields))

    def by(self, view: View) -> Rows:
        """Its rows with other columns, along the last axis where they are not as many."""
        if view.width == self.width:
            return replace(self, view=view)
        inner, at = (*(1,) * (self.rank - self.lead - 1), view.width), self.axis
        return replace(self, view=view, shape=(*inner[:at], *self.shape[at : at + self.lead], *inner[at:]))

    def stopped(self) -> Rows:
        """The same numbers without a gradient."""
        self.builder.stops.add(len(self.builder.code))
        return self.do("COPY")

    def filled(self, number: float) -> Rows:
        """Its shape with one number everywhere."""
        return self.by(self.builder.emit("FILL", width=self.width, space=self.space, number=number))

    def total(self, mean: bool = False) -> Rows:
        """The sum, or the mean, of all entries of a row."""
        found = self if self.width == 1 else self.do("SUMW", width=1)
        return found / self.width if mean and self.width > 1 else found

    def gathered(self) -> Rows:
        """The sum of the children's rows for each node."""
        if self.space != CHILD:
            raise NotFusable("a sum over rows, or over children of a value of the node")
        return replace(self.do("SEGSUM", space=NODE), shape=self.inner, lead=False)

    def listed(self) -> Rows:
        """Its rows without axes of one entry, whichever axis is that of rows."""
        return replace(self, shape=(*self.shape[self.axis : self.axis + self.lead], self.width))

    def under(self, shape: Shape) -> Rows:
        """A value of a node as one of each row, where another one of this shape is. Raises NotFusable."""
        whole = [*(1,) * (len(shape) - self.rank), *self.shape]
        at = replace(self, shape=shape).axis
        if len(whole) != len(shape) or whole[at] != 1:
            raise NotFusable(f"rows of {self.shape} and of {shape}")
        whole[at] = shape[at]
        return replace(self, shape=tuple(whole), lead=True)

    def pick(self, number: Any) -> Rows:
        """The entry that an integer says, or a float, as which the last one is taken beyond the end."""
        if self.inner[-1:] != (self.width,):
            raise NotFusable("entries of several rows")
        if not isinstance(number, Rows) or number.width != 1 or number.lead != self.lead:
            raise NotFusable("several entries of a row")
        if number.operand >= 0:
            self.builder.limits.append((number.operand, self.width))
        return self.do("PICK", number, width=1)

    def linear(self, matrix: Any, bias: Any = None, down: bool = False) -> Rows:
        """Times the transpose of a constant (out, in), or `down` one as it is, (in, out); plus a constant row."""
        if not isinstance(matrix, Const) or matrix.rank != 2:
            raise NotFusable("a product of rows with rows")
        outer, inner = matrix.shape[::-1] if down else matrix.shape
        if inner != self.width:
            raise NotFusable("a product of several rows with a constant")
        row = bias.weight if isinstance(bias, Const) and bias.is_row and bias.weight.columns == outer else None
        found = self.do("GEMM", width=outer, weight=matrix.weight, bias=row, turned=down != matrix.turned)
        return found if bias is None or row is not None else found + bias

    def limited(self, low: float | None, high: float | None) -> Rows:
        """No entry below the one number, or above the other."""
        above = self if low is None else pair("MAX", self, low)
        return above if high is None else pair("MIN", above, high)

    def leaky(self, slope: float) -> Rows:
        """Entries below 0 times a slope, which is that at 0, too."""
        return self.do("RELU") + self.do("MINS") * slope

    def normalized(self, eps: float, scale: Any = None, shift: Any = None) -> Rows:
        """A row less its mean, over its deviation."""
        if self.inner[-1:] != (self.width,):
            raise NotFusable("a norm of several rows")
        centred = self - self.total(True)
        found = centred / (centred.do("SQUARE").total(True) + eps).do("SQRT")
        found = found if scale is None else found * scale
        return found if shift is None else found + shift

    __add__, __sub__, __rsub__, __mul__, __truediv__ = map(_paired, "ADD SUB RSUB MUL DIV".split())

    def __neg__(self) -> Rows:
        return self.do("NEG")


def rows_in(value: Any) -> Rows:
    """Returns a value as rows: a constant row is one of each node. Raises NotFusable for any other."""
    if isinstance(value, Const) and value.is_row:
        zeros = value.builder.emit("FILL", width=value.weight.columns, space=NODE)
        return Rows(value.builder, value.shape, zeros).do("ADDV", weight=value.weight)
    if not isinstance(value, Rows) or value.operand >= 0:
        raise NotFusable("an integer, or a constant of several rows, where rows are needed")
    return value


def alike(values: list[Rows]) -> list[Rows]:
    """Values of children, if one is; those of a node are the same for each of its children then."""
    highest = max(value.space for value in values)
    return [value if value.space == highest else value.do("SPREAD", space=CHILD) for value in values]


def pair(op: str, a: Any, b: Any) -> Rows:
    """Two operands elementwise; the second may be a number, a constant row, or a column."""
    if isinstance(a, Const) and isinstance(b, Rows) and op in _COMMUTATIVE:
        a, b = b, a
    one = rows_in(a)
    if b.__class__ is Size and op in _BY_COLUMN:
        ones = one.builder.emit("FILL", width=1, space=CHILD, number=float(b.times))
        b = Rows(one.builder, (b,), ones, True).gathered()
    if isinstance(b, (int, float)):
        return one.do(BY_NUMBER[op], number=float(-b if op == "SUB" else 1.0 / b if op == "DIV" else b))
    if isinstance(b, Const) and b.is_row and op in _BY_ROW and b.weight.columns == one.width == prod(one.inner[-1:]):
        return one.do(_BY_ROW[op], weight=b.weight)
    one, other = alike([one, rows_in(b)])
    if one.lead != other.lead:
        one, other = (one, other.under(one.shape)) if one.lead else (one.under(other.shape), other)
    if one.lead and (one.shape[one.axis], one.rank - one.axis) != (other.shape[other.axis], other.rank - other.axis):
        raise NotFusable(f"{op} of rows of {one.shape} and of {other.shape}")
    if one.width < other.width and op in _COMMUTATIVE:
        one, other = other, one
    if other.width == 1 < one.width and op in _BY_COLUMN:
        return one.do(_BY_COLUMN[op], other)
    wide = max(one.width, other.width)
    if 1 not in (one.width, other.width) and _plain(one.inner) != _plain(other.inner):
        raise NotFusable(f"{op} of rows of {one.inner} and of {other.inner}")
    one, other = [each.do("BCASTW", width=wide) if each.width < wide else each for each in (one, other)]
    return one.do(op, other)


def _plain(shape: Shape) -> Shape:
    """A shape without axes of one entry."""
    return tuple(size for size in shape if size != 1)


def _cut(shape: Shape, axis: int, count: int) -> Shape:
    return (*shape[:axis], count, *shape[axis + 1 :])
