"""Random row programs, over nodes and children and in all homes, and what numpy makes of each of their instructions."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
from rows_cases import BINARY, COLUMNS, UNARY, Case, by_node
from rows_support import (
    ACC,
    CHILD,
    DIRECT,
    NODE,
    NONE,
    SAVED,
    SCRATCH,
    Machine,
    assert_close,
    bits,
    column,
    columns_of,
    register,
    view,
)

State = list[Any]
"""What is in each register."""

IN_PLACE = {case.op for case in UNARY + BINARY if case.a == case.out == 0 and case.b in (NONE, 0)}
BOUND = 3.0


class RandomProgram(Machine):
    """Instructions and, for each, what numpy makes of it. Results are copied to arrays of their own as they come; then
    they are cut to [-3, 3], so that no chain of them grows."""

    def __init__(self, seed: int, nodes: int | None = None) -> None:
        super().__init__(nodes or int(np.random.default_rng(seed).integers(1, 21)), seed)
        self.checks: list[Callable[[State], None]] = []
        self.initial: State = []
        self.arrays: dict[int, np.ndarray] = {}  # of registers that are at an address, or saved
        self.live: set[int] = set()  # registers that hold something
        self.saved, self.kept = np.zeros(3 + 9 * 40 * max(self.counts), np.float32), 3
        self.args[1] = (self.saved.ctypes.data, self.saved.nbytes)
        for _ in range(8):
            self._register(int(self.random.integers(2)), int(self.random.integers(1, 41)))
        for _ in range(3):
            self._register(CHILD, 1)
        self.registers = len(self.regs)
        for _ in range(12):
            (
                *(self._case, self._product, self._along_children, self._column),
                *(self._number, self._vector, self._sum, self._gather),
            )[int(self.random.choice(8, p=[0.37, *[0.09] * 7]))]()

    def verify(self) -> None:
        state = [array.copy() for array in self.initial]
        for check in self.checks:
            check(state)
        for reg, array in self.arrays.items():
            assert (array == state[reg]).all()

    def _register(self, space: int, width: int) -> None:
        home, number = int(self.random.choice([SCRATCH, SAVED, DIRECT])), len(self.regs)
        array = self.normal(space, width).clip(-BOUND, BOUND)
        self.initial.append(array.copy())
        if home == SCRATCH:
            self.scratch(width, int(self.random.integers(4)), space)
            return
        if home == SAVED:
            begin, self.kept = self.kept, self.kept + array.size
            self.saved[begin : self.kept] = array.ravel()
            array = self.saved[begin : self.kept].reshape(array.shape)
            self.regs.append((space, width, SAVED, self.slot(begin)))
        else:
            self.reg(array, space)
        self.arrays[number] = array
        self.live.add(number)

    def _sharing(self, reg: int) -> set[int]:
        """Registers that lie where this one does."""
        home, where = self.regs[reg][2:]
        return {k for k in range(self.registers) if home == SCRATCH and self.regs[k][2:] == (home, where)} | {reg}

    def _pick(self, space: int, w: int, apart: tuple[int, int] | None = None, near: bool = False) -> int | None:
        """A view of w columns to read: apart from another one of so many columns, or that very one if it is `near`."""
        views = []
        for reg in sorted(self.live):
            for first in range(self.regs[reg][1] - w + 1) if self.regs[reg][0] == space else ():
                if apart is None or reg != register(apart[0]):
                    views.append(view(reg, first))
                elif near and view(reg, first) == apart[0]:
                    views += [apart[0]] * 20
                elif first >= column(apart[0]) + apart[1] or first + w <= column(apart[0]):
                    views.append(view(reg, first))
        return int(self.random.choice(views)) if views else None

    def _out(self, space: int, w: int | None = None) -> tuple[int, int] | None:
        """A view to write and its columns, in a register that holds something: else it is gathered first."""
        regs = [k for k in range(self.registers) if self.regs[k][0] == space and self.regs[k][1] >= (w or 1)]
        if not regs:
            return None
        reg = int(self.random.choice(regs))
        width = self.regs[reg][1]
        if reg not in self.live:
            self.live -= self._sharing(reg)
            self.live.add(reg)
            slot = self.slot(self.initial[reg]), self.slot(0)
            self.emit("GATHER", reg, NONE, NONE, width, slot[0])
            initial = self.initial[reg]
            self.checks.append(lambda state: state.__setitem__(reg, initial.copy()))
        columns = w or int(self.random.integers(1, width + 1))
        return view(reg, int(self.random.integers(width - columns + 1))), columns

    def _write(
        self, op: str, out: tuple[int, int], a: int, b: int, w: int, wanted: Callable[[State], Any], *rest: int
    ) -> None:
        """An instruction that writes, its check, and what keeps the result small."""
        flags, (target, columns) = int(self.random.integers(2)) * ACC, out
        self.emit(op, target, a, b, w, *[*rest, 0, 0][:2], flags)
        reg, begin = register(target), column(target)
        space = self.regs[reg][0]
        found = np.full((self.counts[space], columns), np.nan, np.float32)
        self.emit("COPY", self.reg(found, space), target, NONE, columns)
        self.emit("MAXS", target, target, NONE, columns, bits(-BOUND))
        self.emit("MINS", target, target, NONE, columns, bits(BOUND))
        self.live -= self._sharing(reg) - {reg}

        def check(state: State) -> None:
            place = state[reg][:, begin : begin + columns]
            assert_close(found, wanted(state) + flags * place.astype(np.float64))
            place[:] = found.clip(-BOUND, BOUND)

        self.checks.append(check)

    @staticmethod
    def _read(state: State, place: int, w: int) -> Any:
        return state[register(place)][:, column(place) : column(place) + w].astype(np.float64)

    def _positive(self, place: int, w: int) -> None:
        self.emit("ABS", place, place, NONE, w)
        self.emit("ADDS", place, place, NONE, w, bits(0.5))
        self.live -= self._sharing(register(place)) - {register(place)}

        def check(state: State) -> None:
            array = state[register(place)][:, column(place) : column(place) + w]
            array[:] = np.abs(array) + np.float32(0.5)

        self.checks.append(check)

    def _case(self) -> None:
        case: Case = (UNARY + BINARY)[int(self.random.integers(len(UNARY + BINARY)))]
        space = int(self.random.integers(2))
        out = self._out(space, case.out or None)
        if out is None:
            return
        w = int(self.random.integers(1, 20)) if case.out else out[1]
        near = case.op in IN_PLACE
        a, b = self._pick(space, w, out, near), NONE
        if case.b != NONE:
            number = self._pick(space, case.b or w, out, near)
            if number is None:
                return
            b = number
        if a is None:
            return
        if case.positive:
            for place, columns in ((a, w), (b, case.b or w)):
                if place != NONE:
                    self._positive(place, columns)

        def wanted(state: State) -> Any:
            given = [self._read(state, a, w)] + ([] if b == NONE else [self._read(state, b, case.b or w)])
            return np.asarray(case.function(*given), np.float64)

        self._write(case.op, out, a, b, w, wanted, bits(case.x))

    def _product(self) -> None:
        space, k = int(self.random.integers(2)), int(self.random.integers(1, 20))
        out = self._out(space)
        a = None if out is None else self._pick(space, k, out)
        if out is None or a is None:
            return
        weight = self.random.standard_normal((out[1], k)).astype(np.float32)
        bias = self.random.standard_normal(out[1]).astype(np.float32)
        slots = self.packed(weight.T), self.slot(bias)
        self._write("GEMM", out, a, k, out[1], lambda state: self._read(state, a, k) @ weight.T + bias, *slots)

    def _column(self) -> None:
        op = str(self.random.choice([*COLUMNS]))
        live = [k for k in sorted(self.live) if self.regs[k][:2] == (CHILD, 1)]
        if not live:
            return
        out, *given = [int(self.random.choice(live)) for _ in range(3 if op.startswith("D") else 2)]

        def wanted(state: State) -> Any:
            return by_node(COLUMNS[op], self.first, *[self._read(state, a, 1) for a in given])

        self._write(op, (out, 1), given[0], (*given, NONE)[1], 1, wanted)

    def _along_children(self) -> None:
        op, space = (("SPREAD", CHILD), ("SEGSUM", NODE))[int(self.random.integers(2))]
        out = self._out(space)
        a = None if out is None else self._pick(1 - space, out[1])
        if out is None or a is None:
            return

        def wanted(state: State) -> Any:
            given = self._read(state, a, out[1])
            if op == "SPREAD":
                return given[self.owner]
            total = np.zeros((self.nodes, out[1]))
            np.add.at(total, self.owner, given)
            return total

        self._write(op, out, a, NONE, out[1], wanted)

    def _number(self) -> None:
        space, op = int(self.random.integers(2)), ("FILL", "BCASTW", "DPICK")[int(self.random.integers(3))]
        out = self._out(space)
        a = None if out is None else self._pick(space, 1, out)
        b = None if out is None else self._pick(space, 1, out)
        if out is None or a is None or b is None:
            return

        def wanted(state: State) -> Any:
            number, result = self._read(state, a, 1), np.zeros((self.counts[space], out[1]))
            if op == "DPICK":
                result[np.arange(len(result)), columns_of(self._read(state, b, 1), out[1])] = number[:, 0]
                return result
            return result + (1.5 if op == "FILL" else number)

        operands = {"FILL": (NONE, NONE), "BCASTW": (a, NONE), "DPICK": (a, b)}[op]
        self._write(op, out, *operands, out[1], wanted, bits(1.5))

    def _vector(self) -> None:
        function, space = (np.add, np.multiply, np.subtract)[int(self.random.integers(3))], int(self.random.integers(2))
        op = {np.add: "ADDV", np.multiply: "MULV", np.subtract: "SUBV"}[function]
        out = self._out(space)
        a = None if out is None else self._pick(space, out[1], out, near=True)
        if out is None or a is None:
            return
        vector = self.random.standard_normal(out[1]).astype(np.float32)
        self._write(
            op, out, a, NONE, out[1], lambda state: function(self._read(state, a, out[1]), vector), self.slot(vector)
        )

    def _gather(self) -> None:
        space = int(self.random.integers(2))
        out = self._out(space)
        if out is None:
            return
        base = self.random.standard_normal((5, out[1])).astype(np.float32)
        index = self.random.integers(0, 5, self.counts[space]).astype(np.int32)
        slot = self.slot(base), self.slot(index)
        self._write("GATHER", out, NONE, NONE, out[1], lambda state: base.astype(np.float64)[index], slot[0])

    def _sum(self) -> None:
        """Of a weight's or bias's gradient, or of rows by index."""
        space, op = int(self.random.integers(2)), ("GEMM_DW", "COLSUM", "SCATTER")[int(self.random.integers(3))]
        n, k = (int(x) for x in self.random.integers(1, 40, 2))
        a, b = self._pick(space, n), self._pick(space, k)
        if a is None or b is None:
            return
        shape = {"GEMM_DW": (n, k), "COLSUM": (1, n), "SCATTER": (5, n)}[op]
        target = self.random.standard_normal(shape).astype(np.float32)
        before, index = target.astype(np.float64), self.random.integers(0, 5, self.counts[space]).astype(np.int32)
        slot = self.slot(target), self.slot(k if op == "GEMM_DW" else index)
        self.emit(op, NONE, a, b if op == "GEMM_DW" else NONE, n, slot[0], k)

        def check(state: State) -> None:
            given = self._read(state, a, n)
            if op == "SCATTER":
                np.add.at(before, index, given)
            else:
                before[:] += given.T @ self._read(state, b, k) if op == "GEMM_DW" else given.sum(0)
            assert_close(target, before)

        self.checks.append(check)
