"""A cell as a straight-line list of instructions on matrices of float32, one row per node or per child.

A program is made once per cell and runs for the nodes of any step: `gluonjit._rows` runs it in C, a block of nodes at a
time, so that intermediate results stay in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

COMMUTATIVE = ("ADD", "MUL")
WITH_ROW = {"ADD": "ADDV", "MUL": "MULV", "SUB": "SUBV"}
_WITH_COLUMN = {"ADD": "ADDW", "MUL": "MULW", "SUB": "SUBW", "DIV": "DIVW"}
WITH_NUMBER: dict[str, tuple[str, Callable[[float], float]]] = {
    "ADD": ("ADDS", lambda number: number),
    "SUB": ("ADDS", lambda number: -number),
    "MUL": ("MULS", lambda number: number),
    "DIV": ("MULS", lambda number: 1.0 / number),
    "RSUB": ("RSUBS", lambda number: number),
    "RDIV": ("RDIVS", lambda number: number),
}

NODE, CHILD = 0, 1
"""Whom the rows of a matrix belong to: a node each, or a child each, node by node."""

APART, ANY_ROWS = 1, 2
"""Steps whose rows are not equally many for each node: not known to be whose, or those of any number each."""


class NotFusable(Exception):
    """A graph does something that no instruction does; the message says what."""


class View(NamedTuple):
    """Columns [column, column + width) of a register."""

    reg: int
    column: int
    width: int

    def part(self, begin: int, end: int) -> View:
        """Some of its columns."""
        return View(self.reg, self.column + begin, end - begin)


class Weight(NamedTuple):
    """Rows and columns of a constant, which are numbered; a vector is one row."""

    const: int
    top: int
    rows: int
    left: int
    columns: int


class Instr(NamedTuple):
    """One instruction: `op` is a name in `gluonjit._rows.OPS`.

    With `adds` the result is added to the present numbers.
    """

    op: str
    out: View | None = None
    a: View | None = None
    b: View | None = None
    number: float = 0.0
    weight: Weight | None = None
    bias: Weight | None = None
    operand: int = -1
    adds: bool = False
    turned: bool = False  # a product with the weight as it lies, (rows, columns), instead of with its transpose


@dataclass(frozen=True)
class RowProgram:
    """Registers are numbered, those of operands first; each has a space and a width, and is written once.

    results: what is stored, in order; `stops` are instructions (by position) that no gradient goes back through.
    limits: operands that are integers, each with what it has to lie below, or the step runs otherwise.
    """

    spaces: tuple[int, ...]
    widths: tuple[int, ...]
    operands: int
    code: tuple[Instr, ...]
    results: tuple[View, ...]
    stops: frozenset[int] = frozenset()
    limits: tuple[tuple[int, int], ...] = ()

    def sources(self, results: Collection[int]) -> tuple[frozenset[int], frozenset[int]]:
        """The operands and constants that gradients of these results go to."""
        registers = {self.results[number].reg for number in results}
        consts: set[int] = set()
        for position in range(len(self.code) - 1, -1, -1):
            instr = self.code[position]
            if instr.out is None or instr.out.reg not in registers or position in self.stops:
                continue
            registers.update(view.reg for view in (instr.a, instr.b) if view is not None)
            consts.update(weight.const for weight in (instr.weight, instr.bias) if weight is not None)
        return frozenset([reg for reg in registers if reg < self.operands]), frozenset(consts)


@dataclass
class Builder:
    """Makes a program instruction by instruction."""

    spaces: list[int] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)
    code: list[Instr] = field(default_factory=list)
    stops: set[int] = field(default_factory=set)
    limits: list[tuple[int, int]] = field(default_factory=list)
    operands: int = 0

    def register(self, space: int, width: int) -> View:
        """A new register, all its columns."""
        self.spaces.append(space)
        self.widths.append(width)
        return View(len(self.spaces) - 1, 0, width)

    def operand(self, space: int, width: int) -> View:
        """The next operand; all of them come before anything else."""
        assert not self.code
        self.operands += 1
        return self.register(space, width)

    def space(self, view: View) -> int:
        """Whom its rows belong to."""
        return self.spaces[view.reg]

    def emit(self, op: str, a: View, b: View | None = None, width: int | None = None, number: float = 0.0) -> View:
        """Emits an instruction whose result is as wide as its first operand, unless `width` is given."""
        if b is not None and self.space(a) != self.space(b):
            raise NotFusable(f"{op} of a node and a child")
        out = self.register(self.space(a), a.width if width is None else width)
        self.code.append(Instr(op, out, a, b, number))
        return out

    def linear(self, a: View, weight: Weight, bias: Weight | None, turned: bool = False) -> View:
        """a (rows, in) times the transpose of the weight (out, in), plus the bias (out); `turned`: it is (in, out)."""
        out = self.register(self.space(a), weight.columns if turned else weight.rows)
        self.code.append(Instr("GEMM", out, a, weight=weight, bias=bias, turned=turned))
        return out

    def with_row(self, op: str, a: View, row: Weight) -> View:
        """ADD, MUL or SUB with a constant row."""
        if op not in WITH_ROW or row.rows != 1 or row.columns != a.width:
            raise NotFusable(f"{op} of rows and a constant")
        out = self.register(self.space(a), a.width)
        self.code.append(Instr(WITH_ROW[op], out, a, weight=row))
        return out

    def with_number(self, op: str, a: View, number: float) -> View:
        """ADD, SUB, MUL or DIV with a number; RSUB and RDIV, where the number comes first."""
        if op not in WITH_NUMBER:
            raise NotFusable(f"{op} with a number")
        if op == "DIV" and number == 0.0:
            raise NotFusable("a division by zero")
        name, given = WITH_NUMBER[op]
        return self.emit(name, a, number=given(number))

    def combined(self, op: str, a: View, b: View) -> View:
        """Combines two matrices elementwise; one of them may be a column."""
        if a.width == b.width:
            return self.emit(op, a, b)
        if a.width == 1 and op in COMMUTATIVE:
            a, b = b, a
        if b.width == 1 and op in _WITH_COLUMN:
            return self.emit(_WITH_COLUMN[op], a, b)
        if a.width == 1:
            return self.emit(op, self.emit("BCASTW", a, width=b.width), b)
        if b.width == 1:
            return self.emit(op, a, self.emit("BCASTW", b, width=a.width))
        raise NotFusable(f"{op} of rows of {a.width} and of {b.width}")

    def filled(self, space: int, width: int, number: float) -> View:
        """One number in so many columns."""
        out = self.register(space, width)
        self.code.append(Instr("FILL", out, number=number))
        return out

    def pick(self, a: View, number: View, operand: int) -> View:
        """Picks the column of a matrix given by an integer, which is read from this operand."""
        self.limits.append((operand, a.width))
        return self.emit("PICK", a, number, width=1)

    def total(self, a: View, mean: bool) -> View:
        """The sum, or the mean, along each row, as a column."""
        out = self.emit("SUMW", a, width=1)
        return self.with_number("DIV", out, a.width) if mean else out

    def spread(self, a: View) -> View:
        """A node's row for each of its children."""
        out = self.register(CHILD, a.width)
        self.code.append(Instr("SPREAD", out, a))
        return out

    def gather_up(self, a: View) -> View:
        """The sum of the rows of a node's children."""
        out = self.register(NODE, a.width)
        self.code.append(Instr("SEGSUM", out, a))
        return out

    def concat(self, parts: Sequence[View]) -> View:
        """Columns of several, one after the other."""
        if len({self.space(part) for part in parts}) > 1:
            raise NotFusable("a concatenation of nodes and children")
        out = self.register(self.space(parts[0]), sum([part.width for part in parts]))
        begin = 0
        for part in parts:
            self.code.append(Instr("COPY", out.part(begin, begin + part.width), part))
            begin += part.width
        return out

    def stop(self, a: View) -> View:
        """Returns the same numbers without a gradient."""
        self.stops.add(len(self.code))
        return self.emit("COPY", a)

    def finish(self, results: Sequence[View]) -> RowProgram:
        """Returns the program with these results: each is a separate register, and no operand."""
        taken: set[int] = set(range(self.operands))
        stored = []
        for view in results:
            if view.reg in taken or view.width != self.widths[view.reg]:
                view = self.emit("COPY", view)
            taken.add(view.reg)
            stored.append(view)
        return RowProgram(
            tuple(self.spaces),
            tuple(self.widths),
            self.operands,
            tuple(self.code),
            tuple(stored),
            frozenset(self.stops),
            tuple(self.limits),
        )
