"""The backward pass of a program as a program: reverse accumulation, instruction by instruction.

Registers of the program keep their numbers; gradients are new registers. The first term of a gradient writes it and the
others add to it; a gradient that is a copy of another is that one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from gluonjit.rows.program import Builder, Instr, NotFusable, RowProgram, View, Weight
from gluonjit.rows.slopes import CONSTANT, RULES, Form


@dataclass(frozen=True)
class Derivative:
    """A program that reads registers of another and gradients of its results, and adds to gradients elsewhere.

    seeds: the register that is the gradient of each result, None if it has none; reads: registers of the program
    that are needed, operands among them.
    """

    spaces: tuple[int, ...]
    widths: tuple[int, ...]
    code: tuple[Instr, ...]
    seeds: tuple[int | None, ...]
    reads: frozenset[int]

    @property
    def reached(self) -> frozenset[int]:
        """The operands that get gradients."""
        return frozenset([instr.operand for instr in self.code if instr.op == "SCATTER"])


def derive(
    program: RowProgram, operands: Collection[int], consts: Collection[int], seeded: Collection[int]
) -> Derivative:
    """Gradients of these operands and constants, given those of the results `seeded`, by number."""
    return _Deriving(program, set(operands), set(consts), seeded).run()


@dataclass
class _Gradient:
    """The gradient of one register so far: a copy of a view, or a separate register; which columns are written."""

    alias: View | None = None
    own: View | None = None
    written: Any = None


class _Deriving(Builder):
    def __init__(self, program: RowProgram, operands: set[int], consts: set[int], seeded: Collection[int]) -> None:
        super().__init__(list(program.spaces), list(program.widths))
        self.program = program
        self.consts = consts
        self.wanted = operands
        self.needs = self._needing()
        self.gradients: dict[int, _Gradient] = {}
        self.seeds: list[int | None] = []
        for number, result in enumerate(program.results):
            seed = None
            if number in seeded and result.reg in self.needs:
                own = self.register(self.spaces[result.reg], result.width)
                self.gradients[result.reg] = _Gradient(own=own, written=np.ones(own.width, bool))
                seed = own.reg
            self.seeds.append(seed)

    def _needing(self) -> set[int]:
        """Finds the registers through which gradients go to the requested ones."""
        needs = set(self.wanted)
        for position, instr in enumerate(self.program.code):
            if position in self.program.stops or instr.out is None or instr.op in CONSTANT:
                continue
            taken = [weight.const in self.consts for weight in instr.weights]
            if any([*taken, *[view.reg in needs for view in instr.sources]]):
                needs.add(instr.out.reg)
        return needs

    def run(self) -> Derivative:
        program = self.program
        for position in range(len(program.code) - 1, -1, -1):
            instr = program.code[position]
            assert instr.out is not None
            if instr.out.reg not in self.needs or instr.out.reg not in self.gradients or position in program.stops:
                continue
            self._pass_on(instr, self.gradient_of(instr.out))
        for operand in sorted(self.wanted):
            if operand in self.gradients:
                view = self.gradient_of(View(operand, 0, self.widths[operand]))
                self.code.append(Instr("SCATTER", a=view, operand=operand))
        first = len(program.spaces)
        reads = {
            view.reg for instr in self.code for view in (instr.a, instr.b) if view is not None and view.reg < first
        }
        return Derivative(tuple(self.spaces), tuple(self.widths), tuple(self.code), tuple(self.seeds), frozenset(reads))

    def _pass_on(self, instr: Instr, dy: View) -> None:
        """Adds to the gradients of what an instruction reads, given that of its result."""
        weight, known = instr.weight, {**instr._asdict(), "y": instr.out, "dy": dy}
        if instr.op == "GEMM":
            assert weight is not None
            self.add(instr.a, Instr("GEMM", a=dy, weight=weight, turned=not instr.turned))
            if self.learns(weight):
                a, b = (instr.a, dy) if instr.turned else (dy, instr.a)
                self.code.append(Instr("GEMM_DW", a=a, b=b, weight=weight))
            if self.learns(instr.bias):
                self.code.append(Instr("COLSUM", a=dy, weight=instr.bias))
            return
        if instr.op not in RULES:
            raise NotFusable(f"{instr.op} has no derivative")
        slope = RULES[instr.op]
        for target, form in ((instr.a, slope.a), (instr.b, slope.b)):
            if self.wants(target) and form is None:
                raise NotFusable(
                    f"{instr.op} has no derivative by its {'second' if target is instr.b else 'first'} operand"
                )
            if self.wants(target) and form:
                self.add(target, self._instruction(form, known))
        if slope.weight is not None and self.learns(weight):
            self.code.append(Instr("COLSUM", a=self._value(slope.weight, known), weight=weight))

    def _instruction(self, form: Form, known: dict[str, Any]) -> Instr:
        """An instruction of a form; those inside of it give temporary values."""
        op, *parts = form or ()
        return Instr(op, None, *[self._value(part, known) for part in parts])

    def _value(self, part: Any, known: dict[str, Any]) -> Any:
        if not isinstance(part, tuple):
            return known[part] if isinstance(part, str) else part
        instr = self._instruction(part, known)
        assert instr.a is not None
        out = self.register(self.spaces[instr.a.reg], 1 if instr.op == "SUMW" else instr.a.width)
        self.code.append(instr._replace(out=out))
        return out

    def wants(self, view: View | None) -> bool:
        """True if the gradient of an operand of an instruction is needed."""
        return view is not None and view.reg in self.needs

    def learns(self, weight: Weight | None) -> bool:
        """True if the gradient of a constant is needed."""
        return weight is not None and weight.const in self.consts

    def add(self, target: View | None, instr: Instr) -> None:
        """Adds the result of an instruction (without `out`) to the gradient of a view, if that is needed."""
        if target is None or not self.wants(target):
            return
        known = self.gradients.setdefault(target.reg, _Gradient())
        whole = target.column == 0 and target.width == self.widths[target.reg]
        if known.own is None and known.alias is None and instr.op == "COPY" and whole and not instr.adds:
            known.alias = instr.a
            return
        own = self._owned(target.reg, known)
        begin, end = target.column, target.column + target.width
        inside = bool(known.written[begin:end].any())
        if inside:
            self._fill(known, begin, end)
        known.written[begin:end] = True
        self.code.append(instr._replace(out=own.part(begin, end), adds=inside))

    def _owned(self, reg: int, known: _Gradient) -> View:
        if known.own is None:
            known.own = self.register(self.spaces[reg], self.widths[reg])
            known.written = np.full(known.own.width, known.alias is not None)
            if known.alias is not None:
                self.code.append(Instr("COPY", known.own, known.alias))
                known.alias = None
        return known.own

    def _fill(self, known: _Gradient, begin: int, end: int) -> None:
        """Writes zeros to the columns in [begin, end) that nothing has been written to."""
        assert known.own is not None
        edges = begin + np.flatnonzero(np.diff(known.written[begin:end], prepend=True, append=True))
        for gap in edges.reshape(-1, 2).tolist():
            self.code.append(Instr("FILL", known.own.part(*gap)))
        known.written[begin:end] = True

    def gradient_of(self, view: View) -> View:
        """The gradient of a view, whose every column is written."""
        known = self.gradients[view.reg]
        if known.alias is not None:
            return known.alias.part(view.column, view.column + view.width)
        assert known.own is not None
        self._fill(known, view.column, view.column + view.width)
        return known.own.part(view.column, view.column + view.width)
