"""From a program and its derivative to the arrays of integers that `gluonjit._rows` runs.

It assigns the place of each register: in scratch memory that is used again as soon as it is free, in a buffer that is
kept for the backward pass, or directly in operands, results and gradients.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gluonjit.rows.derivative import derive
from gluonjit.rows.program import CHILD, Instr, NotFusable, RowProgram, View, Weight

SCRATCH, SAVED, DIRECT = 0, 1, 2
FIRST_SLOT = 2  # before it the beginnings of children and the buffer of saved registers

MOST_COLUMNS = 2**31 - 1  # of a register, and most registers

Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]


class Slot(NamedTuple):
    """An argument; number: of an operand, a result, a constant, or a saved register."""

    what: str
    number: int
    weight: Weight | None = None


@dataclass(frozen=True)
class Assembly:
    """Code, registers and the arguments to call it with, in order from `FIRST_SLOT` on."""

    code: Longs
    regs: Ints
    slots: tuple[Slot, ...]
    children: bool


@dataclass(frozen=True)
class Compiled:
    """A program for one way of being called.

    saved: (space, width) of the registers that are kept for the backward pass, in order; that is None if nothing is
    learned.
    """

    forward: Assembly
    backward: Assembly | None
    saved: tuple[tuple[int, int], ...]  # (space, width)
    reached: frozenset[int]  # the operands that the backward pass adds gradients to

    @cached_property
    def read_again(self) -> tuple[int, ...]:
        """The constants whose numbers the backward pass reads."""
        slots = () if self.backward is None else self.backward.slots
        return tuple(sorted({slot.number for slot in slots if slot.what in ("packed", "turned", "const")}))


class CallingConvention(NamedTuple):
    """A way to call a program: operands whose rows follow each other, operands and constants that learn, results that
    have a gradient."""

    direct: frozenset[int]
    operands: frozenset[int]
    consts: frozenset[int]
    results: frozenset[int]


def compiled(program: RowProgram, way: CallingConvention, ops: dict[str, int]) -> Compiled:
    """Assembles a program, and its derivative where something learns. Raises NotFusable."""
    derivative = None
    if (way.operands or way.consts) and way.results:
        derivative = derive(program, way.operands, way.consts, way.results)
    stored = {view.reg: number for number, view in enumerate(program.results)}
    kept = (
        []
        if derivative is None
        else sorted(reg for reg in derivative.reads if reg >= program.operands and reg not in stored)
    )
    forward = _Assembling(program.spaces, program.widths, ops)
    loads = forward.operands(range(program.operands), way.direct)
    forward.results(stored)
    forward.saved(kept)
    backward = None
    if derivative is not None and derivative.code:
        taking = _Assembling(derivative.spaces, derivative.widths, ops)
        wanted = [reg for reg in range(program.operands) if reg in derivative.reads]
        again = taking.operands(wanted, way.direct)
        taking.results({reg: number for reg, number in stored.items() if reg in derivative.reads})
        taking.saved(kept)
        for number, seed in enumerate(derivative.seeds):
            if seed is not None:
                taking.place(seed, Slot("seed", number))
        backward = taking.done([*again, *derivative.code])
    return Compiled(
        forward.done([*loads, *program.code]),
        backward,
        tuple((program.spaces[reg], program.widths[reg]) for reg in kept),
        frozenset() if derivative is None else derivative.reached,
    )


class _Assembling:
    def __init__(self, spaces: Sequence[int], widths: Sequence[int], ops: dict[str, int]) -> None:
        if max(widths, default=0) > MOST_COLUMNS:
            raise NotFusable(f"rows of more than {MOST_COLUMNS} numbers")
        self._spaces, self._widths, self._ops = spaces, widths, ops
        self._slots: list[Slot] = []
        self._numbers: dict[tuple[Slot, ...], int] = {}
        self._homes: dict[int, tuple[int, int]] = {}

    def operands(self, wanted: Collection[int], direct: Collection[int]) -> list[Instr]:
        """Places operands that already lie together; returns instructions that gather the others."""
        for reg in wanted:
            if reg in direct:
                self.place(reg, Slot("operand", reg))
        return [Instr("GATHER", View(reg, 0, self._widths[reg]), operand=reg) for reg in wanted if reg not in direct]

    def results(self, stored: dict[int, int]) -> None:
        """Places registers that are results."""
        for reg, number in stored.items():
            self.place(reg, Slot("result", number))

    def saved(self, kept: Sequence[int]) -> None:
        """Places registers that are kept."""
        for number, reg in enumerate(kept):
            self._homes[reg] = (SAVED, self._slot(Slot("saved", number)))

    def place(self, reg: int, slot: Slot) -> None:
        """Finds where a register's memory is given by an argument."""
        self._homes[reg] = (DIRECT, self._slot(slot))

    def _slot(self, *slots: Slot) -> int:
        """The number of the first of these arguments, which follow each other."""
        found = self._numbers.get(slots)
        if found is None:
            found = self._numbers[slots] = FIRST_SLOT + len(self._slots)
            self._slots += slots
        return found

    def done(self, code: Sequence[Instr]) -> Assembly:
        """The assembled program. Sums over rows come last, so that threads can share all before them, then them: what
        they read is written by then, and by nothing after them."""
        code = sorted(code, key=lambda instr: instr.op in _SUMS)
        self._allot(code)
        rows = [self._row(instr) for instr in code]
        used = {reg for instr in code for reg in _registers(instr)}
        # Registers that this code does not mention have no place; they are as good as scratch.
        regs = [
            (space, width, *self._homes.get(reg, (SCRATCH, 0))) if reg in used else (space, 0, SCRATCH, 0)
            for reg, (space, width) in enumerate(zip(self._spaces, self._widths))
        ]
        return Assembly(
            np.array(rows, dtype=np.int64).reshape(-1, 8),
            np.array(regs, dtype=np.int32).reshape(-1, 4),
            tuple(self._slots),
            any(self._spaces[reg] == CHILD for reg in used),
        )

    def _allot(self, code: Sequence[Instr]) -> None:
        """Gives registers scratch memory from their first mention to their last."""
        last: dict[int, int] = {}
        for position, instr in enumerate(code):
            for reg in _registers(instr):
                last[reg] = position
        free: dict[tuple[int, int], list[int]] = {}
        count = 0
        for position, instr in enumerate(code):
            mentioned = _registers(instr)
            for reg in mentioned:
                if reg not in self._homes:
                    # Alike in space and width, so that no buffer is larger than it has to be.
                    pool = free.setdefault((self._spaces[reg], self._widths[reg]), [])
                    if not pool:
                        pool.append(count)
                        count += 1
                    self._homes[reg] = (SCRATCH, pool.pop())
            for reg in mentioned:
                if last[reg] == position and self._homes[reg][0] == SCRATCH:
                    free.setdefault((self._spaces[reg], self._widths[reg]), []).append(self._homes[reg][1])

    def _row(self, instr: Instr) -> tuple[int, ...]:
        op, flags = self._ops[instr.op], int(instr.adds)
        out, a, b = _packed(instr.out), _packed(instr.a), _packed(instr.b)
        x, y = _bits(instr.number), -1
        width = (instr.a if instr.op in _AS_WIDE_AS_A else instr.out or instr.a).width  # type: ignore[union-attr]
        weight = instr.weight
        if instr.op == "GATHER":
            x = self._slot(Slot("base", instr.operand), Slot("index", instr.operand))
        elif instr.op == "SCATTER":
            x = self._slot(Slot("gradient", instr.operand), Slot("index", instr.operand))
        elif instr.op == "GEMM":
            assert weight is not None and instr.a is not None
            x = self._slot(Slot("turned" if instr.turned else "packed", weight.const, weight))
            y = -1 if instr.bias is None else self._slot(Slot("const", instr.bias.const, instr.bias))
            b = instr.a.width
        elif instr.op == "GEMM_DW":
            assert weight is not None and instr.b is not None
            x = self._slot(Slot("learned", weight.const, weight), Slot("stride", weight.const, weight))
            y = instr.b.width
        elif instr.op == "COLSUM":
            assert weight is not None
            x = self._slot(Slot("learned", weight.const, weight))
        elif weight is not None:
            x = self._slot(Slot("const", weight.const, weight))
        return op, out, a, b, width, x, y, flags


_AS_WIDE_AS_A = frozenset({"SUMW", "PICK", "WHOLE", "LOGSUMEXP", "ARGMAX"})
_SUMS = frozenset({"SCATTER", "GEMM_DW", "COLSUM"})


def _registers(instr: Instr) -> list[int]:
    return list(dict.fromkeys(view.reg for view in (instr.a, instr.b, instr.out) if view is not None))


def _packed(view: View | None) -> int:
    """A register and a column, 31 bits each."""
    return -1 if view is None else view.reg | view.column << 32


def _bits(number: float) -> int:
    """A float's bits as an integer. Raises NotFusable for one that is too large."""
    try:
        return int(struct.unpack("<i", struct.pack("<f", number))[0])
    except OverflowError:
        raise NotFusable(f"{number} is too large for float32") from None
