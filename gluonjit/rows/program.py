"""A cell as a straight-line list of instructions on matrices of float32, one row per node or per child.

A program is made once per cell and runs for the nodes of any step: `gluonjit._rows` runs it in C, a block of nodes at a
time, so that intermediate results stay in the cache.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

NODE, CHILD = 0, 1
"""Whom the rows of a matrix belong to: a node each, or a child each, node by node."""


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

    @property
    def sources(self) -> list[View]:
        """The operands that gradients go on to: not a number of an entry."""
        return [view for view in (self.a, None if self.op == "PICK" else self.b) if view is not None]

    @property
    def weights(self) -> list[Weight]:
        """The constants that it takes."""
        return [weight for weight in (self.weight, self.bias) if weight is not None]


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
            registers.update([view.reg for view in instr.sources])
            consts.update([weight.const for weight in instr.weights])
        return frozenset(reg for reg in registers if reg < self.operands), frozenset(consts)


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

    def emit(
        self,
        op: str,
        a: View | None = None,
        b: View | None = None,
        width: int | None = None,
        space: int | None = None,
        **fields: Any,
    ) -> View:
        """Emits an instruction whose result is as wide as its first operand, and as often, unless that is given."""
        if a is not None and b is not None and self.space(a) != self.space(b):
            raise NotFusable(f"{op} of a node and a child")
        if space == CHILD not in self.spaces[: self.operands]:
            raise NotFusable(f"{op} for children, of which there are none")
        out = self.register(
            self.space(a) if space is None else space,  # type: ignore[arg-type]
            a.width if width is None else width,  # type: ignore[union-attr]
        )
        self.code.append(Instr(op, out, a, b, **fields))
        return out

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
