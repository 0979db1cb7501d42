"""Hostile calls of gluonjit._rows: see hostile_support."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from hostile_support import Case, Harm, run

from gluonjit import _rows as rows

OPS = rows.OPS
NODES, CHILDREN, W = 3, 5, 4
GUARD = np.float32(-7.25)
LARGE = (2**31, 2**32 + 1, 2**40, 2**62, 2**63 - 1)
SMALL = (-1, -2, -(2**31), -(2**63))
INT32 = (-1, -(2**31), 7, 1000, 2**31 - 1)
BAD = (ValueError, MemoryError, OverflowError, TypeError, BufferError)


def launch(code: Any, regs: Any, args: Any, nodes: Any, block: Any) -> None:
    """Run a program."""
    slots = args.shape[0] if isinstance(args, np.ndarray) and args.ndim == 2 else 2
    launches = np.array([[0, 0, slots, nodes, 0]], np.int64)
    if rows.run(((code, regs),), launches, args, block, 0) != 1:
        raise Harm("a launch was neither run nor refused")


class Program:
    """A step with every kind of operand; all memory has a guard behind it that nobody may write to."""

    def __init__(self) -> None:
        self.first = np.array([0, 2, 2, 5], np.int32)
        self.index = np.array([1, 0, 1], np.int32)
        self.memory = np.full(4096, GUARD, np.float32)
        self.used = 0
        self.args = [(self.first.ctypes.data, self.first.nbytes), self.slot(2 + NODES * W)]
        self.args += [self.slot(NODES * W), self.slot(CHILDREN * W), self.slot(2 * W)]  # 2, 3: registers; 4: a table
        self.args += [(self.index.ctypes.data, self.index.nbytes), (2, 0)]  # 5, 6: the saved one begins at 2
        self.args += [self.slot(rows.packed_size(W, W)), self.slot(W), self.slot(W * W), (W, 0)]  # 7 to 10
        self.regs = [(0, W, 2, 2), (1, W, 2, 3), (0, W, 0, 0), (1, W, 0, 1), (0, W, 1, 6), (1, 1, 0, 2)]
        self.code = [
            (OPS["GATHER"], 2, -1, -1, W, 4, 0, 0),
            (OPS["GEMM"], 0, 2, W, W, 7, 8, 0),
            (OPS["SPREAD"], 1, 0, -1, W, 0, 0, 0),
            (OPS["SEGSUM"], 4, 1, -1, W, 0, 0, 1),
            (OPS["MUL"], 0, 0, 4, W, 0, 0, 0),
            (OPS["ADDV"], 3, 1, -1, W, 8, 0, 0),
            (OPS["PICK"], 2, 0, 4, W, 0, 0, 0),
            (OPS["DPICK"], 2, 0, 4, W, 0, 0, 1),
            (OPS["SOFTMAX"], 2, 4, -1, W, 0, 0, 0),
            (OPS["SEGSOFTMAX"], 5, 5, -1, 1, 0, 0, 0),
            (OPS["GEMM_DW"], -1, 0, 2, W, 9, W, 0),
            (OPS["COLSUM"], -1, 0, -1, W, 8, 0, 0),
            (OPS["SCATTER"], -1, 0, -1, W, 4, 0, 0),
        ]
        self.nodes, self.block = NODES, 2

    def slot(self, count: int) -> tuple[int, int]:
        begin, self.used = self.used, self.used + count + 16
        self.memory[begin : begin + count] = 0.5
        return self.memory.ctypes.data + 4 * begin, 4 * count

    def run(self) -> None:
        """Run it, and see that no guard was written to."""
        before = np.flatnonzero(self.memory == GUARD)
        code, regs = np.array(self.code, np.int64).reshape(-1, 8), np.array(self.regs, np.int32).reshape(-1, 4)
        launch(code, regs, np.array(self.args, np.int64).reshape(-1, 2), self.nodes, self.block)
        if not (self.memory[before] == GUARD).all():
            raise Harm("a guard was written to")


def changed(part: str, place: tuple[int, int], value: int) -> None:
    """Run the program with one number changed."""
    program = Program()
    listed = getattr(program, part)
    row = list(listed[place[0]])
    row[place[1]] = value
    listed[place[0]] = tuple(row)
    program.run()


def changed_numbers() -> Iterator[Case]:
    whole = Program()
    for k, instruction in enumerate(whole.code):
        name = next(op for op, number in OPS.items() if number == instruction[0])
        form = {1: "out", 2: "a", 3: "b", 4: "w", 5: "x", 6: "y"}
        uses = {0, 4} | {field for field in (1, 2, 3) if instruction[field] != -1}
        uses |= {5} if name in ("GATHER", "GEMM", "GEMM_DW", "COLSUM", "SCATTER", "ADDV") else set()
        uses |= {6} if name in ("GEMM", "GEMM_DW") else set()
        for field in sorted(uses):
            for value in (*LARGE, *SMALL):
                no_bias = name == "GEMM" and field == 6 and value == -1
                yield Case(
                    f"{name} {form.get(field, 'op')} {value}",
                    lambda place=(k, field), value=value: changed("code", place, value),  # type: ignore[misc]
                    None if no_bias else BAD,
                )
    for k in range(len(whole.regs)):
        for field, name in enumerate(("space", "width", "home", "where")):
            for value in INT32:
                yield Case(
                    f"register {k} {name} {value}",
                    lambda place=(k, field), value=value: changed("regs", place, value),  # type: ignore[misc]
                    None if name == "where" or (name == "width" and value == 7) or k in (2, 3) else BAD,
                )
    for k in range(len(whole.args)):
        for value in (0, 3, -1, -(2**63)):
            yield Case(
                f"bytes of slot {k} {value}",
                lambda k=k, value=value: changed("args", (k, 1), value),
                (None if k in (6, 10) else BAD),
            )  # type: ignore[misc]
    for k in (6, 10):
        for value in (-1, 5, 2**31, 2**61, 2**63 - 1, -(2**63)):
            yield Case(f"number in slot {k} {value}", lambda k=k, value=value: changed("args", (k, 0), value), BAD)  # type: ignore[misc]


def with_first(values: list[int]) -> None:
    program = Program()
    program.first[:] = values
    program.run()


def with_index(values: list[int]) -> None:
    program = Program()
    program.index[:] = values
    program.run()


def with_counts(nodes: Any, block: Any) -> None:
    program = Program()
    program.nodes, program.block = nodes, block
    program.run()


class Raising:
    def __index__(self) -> int:
        raise KeyError("no index")


class Unlike:
    def __index__(self) -> Any:
        return "one"


def counts() -> Iterator[Case]:
    for nodes in (4, 1000, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1, 2**64, None, Raising(), Unlike()):
        kinds: Any = (*BAD, KeyError)
        yield Case(f"{nodes!r:.20} nodes", lambda nodes=nodes: with_counts(nodes, 2), kinds)  # type: ignore[misc]
    for block in (2**64, None, "3", 3.0, Raising()):
        yield Case(f"blocks of {block!r:.20}", lambda block=block: with_counts(NODES, block), (*BAD, KeyError))  # type: ignore[misc]
    for block in (-(2**63), -1, 0, 1, 2**31, 2**63 - 1):
        yield Case(f"blocks of {block}", lambda block=block: with_counts(NODES, block), None)  # type: ignore[misc]
    for nodes in (-(2**63), -1, 0):
        yield Case(f"{nodes} nodes", lambda nodes=nodes: with_counts(nodes, 2), None)  # type: ignore[misc]
    for values in ([0, 2, 1, 5], [-1, 2, 2, 5], [0, 2, 2, 6], [0, 2, 2, 2**31 - 1], [5, 4, 3, 2], [0, -(2**31), 0, 0]):
        yield Case(f"first is {values}", lambda values=values: with_first(values), BAD)  # type: ignore[misc]
    for values in ([0, 1, 2], [0, -1, 0], [2**31 - 1, 0, 0], [0, 0, -(2**31)]):
        yield Case(f"an index of {values}", lambda values=values: with_index(values), BAD)  # type: ignore[misc]


GOOD = np.zeros((0, 8), np.int64), np.zeros((0, 4), np.int32), np.zeros((2, 2), np.int64)
UNALIGNED = np.frombuffer(bytes(129), np.uint8)


def odd(array: np.ndarray) -> Any:
    """The same bytes at an odd address."""
    room = np.zeros(array.nbytes + 1, np.uint8)
    return room[1:].view(array.dtype).reshape(array.shape)


def buffers() -> Iterator[Case]:
    code, regs, args = np.array(Program().code, np.int64), np.array(Program().regs, np.int32), GOOD[2]
    wrong: tuple[Any, ...] = (None, 3, "code", [1], b"123", {}, object(), np.zeros(3, object), np.zeros(9, np.int16))
    for place, name in enumerate(("code", "regs", "args")):
        for k, value in enumerate(wrong):
            given = [*GOOD[:place], value, *GOOD[place + 1 :]]
            yield Case(f"{name} is wrong thing {k}", lambda given=given: launch(*given, 1, 1), BAD)  # type: ignore[misc]
        given = [*GOOD[:place], odd(np.zeros((8, 8), GOOD[place].dtype)), *GOOD[place + 1 :]]
        yield Case(f"{name} at an odd address", lambda given=given: launch(*given, 1, 1), BAD)  # type: ignore[misc]
    yield Case("code with gaps", lambda: launch(code[::2], regs, args, 1, 1), BAD)
    yield Case("code of half a row", lambda: launch(code.ravel()[:-3], regs, args, 1, 1), BAD)
    yield Case("no slots", lambda: launch(code, regs, args[:0], 1, 1), BAD)
    yield Case("one slot", lambda: launch(code, regs, args[:1], 1, 1), BAD)


def stretches() -> Iterator[Case]:
    """Several launches in one call."""
    one = np.array([[0, 0, 2, 1, 0]], np.int64)
    code, regs, args = GOOD
    good: Any = (((code, regs),), one, args, 1, 0)
    yield Case("an empty program", lambda: rows.run(*good), None)
    yield Case("no arguments", lambda: rows.run(), BAD)
    yield Case("too many", lambda: rows.run(*good, 1, 1), BAD)
    for threads in (*LARGE, *SMALL, 0):
        yield Case(f"by {threads} threads", lambda threads=threads: rows.run(*good, threads), None)  # type: ignore[misc]
    for wrong_number in (2**64, None, "2", Raising()):
        yield Case(f"by {wrong_number!r:.20}", lambda threads=wrong_number: rows.run(*good, threads), (*BAD, KeyError))  # type: ignore[misc]
    for work in (-1.0, float("nan"), None, "2"):
        yield Case(f"worth {work}", lambda work=work: rows.worth(work), BAD)  # type: ignore[misc]
    yield Case("by name", lambda: rows.run(*good[:3], block=1, begin=0), BAD)
    readonly = one.copy()
    readonly.flags.writeable = False
    wrong: tuple[Any, ...] = (None, 3, "launches", readonly, one.astype(np.int32), one[:, :4].copy(), odd(one))
    for k, value in enumerate(wrong):
        yield Case(f"launches are wrong thing {k}", lambda value=value: rows.run(good[0], value, args, 1, 0), BAD)  # type: ignore[misc]
    programs: tuple[Any, ...] = (
        None,
        [(code, regs)],
        (None,),
        ((code,),),
        ((code, None),),
        ((None, regs),),
        ([code, regs],),
    )
    for k, value in enumerate(programs):
        yield Case(f"programs are wrong thing {k}", lambda value=value: rows.run(value, *good[1:]), BAD)  # type: ignore[misc]
    for field, name in enumerate(("program", "first slot", "slots")):
        for number in (*LARGE, *SMALL, 3):
            launches = one.copy()
            launches[0, field] = number
            yield Case(f"{name} {number}", lambda launches=launches: rows.run(good[0], launches, args, 1, 0), BAD)  # type: ignore[misc]
    for begin in (-1, -(2**63), 2**64, None, "0", Raising()):
        yield Case(f"from launch {begin!r:.20} on", lambda begin=begin: rows.run(*good[:4], begin), (*BAD, KeyError))  # type: ignore[misc]
    for begin in (1, 2, 2**63 - 1):
        yield Case(f"from launch {begin} on", lambda begin=begin: rows.run(*good[:4], begin), None)  # type: ignore[misc]
    yield Case("the second is wrong", second_wrong, ValueError)


def second_wrong() -> None:
    """What is before a wrong launch has run, and only then the error comes."""
    launches = np.array([[0, 0, 2, 1, 0], [7, 0, 2, 1, 0]], np.int64)
    given: Any = ((GOOD[:2],), launches, GOOD[2], 1)
    if rows.run(*given, 0) != 1:
        raise Harm("the first launch has not run")
    rows.run(*given, 1)


def packing() -> Iterator[Case]:
    source, target = np.ones((4, 4), np.float32), np.zeros(rows.packed_size(4, 4), np.float32)
    at, size = source.ctypes.data, source.nbytes
    readonly = target.copy()
    readonly.flags.writeable = False
    for k, given in enumerate([
        (at, size, 2**40, 2**40, 1, 1, target), (at, size, 4, 5, 4, 1, target), (at, size, 5, 4, 4, 1, target),
        (at, size, -4, 4, 4, 1, target), (at, size, 4, -4, 4, 1, target), (at, size, 4, 4, 5, 1, target),
        (at, size, 4, 4, -4, 1, target), (at, size, 4, 4, 2**62, 1, target), (at, size, 4, 4, 4, 2**62, target),
        (at, size, 4, 4, 4, -(2**63), target), (at, -1, 4, 4, 4, 1, target), (at, 0, 4, 4, 4, 1, target),
        (at, size - 1, 4, 4, 4, 1, target), (0, size, 4, 4, 4, 1, target), (at + 1, size, 4, 4, 4, 1, target),
        (at, size, 4, 4, 4, 1, target[:-1]), (at, size, 4, 4, 4, 1, readonly), (at, size, 4, 4, 4, 1, None),
        (at, size, 4, 4, 4, 1, 12345), (at, size, 4, 4, 4, 1, target[::2]), (at, size, 4, 4, 4, 1, odd(target)),
        (at, size, 4, 4, 4, 1, target.astype(np.int8)), (2**70, size, 4, 4, 4, 1, target), (), (at,), ("x",) * 7,
        (at, size, 2**62, 0, 4, 1, None), (at, size, 4.5, 4, 4, 1, target), (at, size, 2**62, 3, 1, 1, target),
    ]):  # fmt: skip
        yield Case(f"packing {k}", lambda given=given: rows.pack(*given), BAD)  # type: ignore[misc]
    for given in (
        (-1, 4),
        (4, -1),
        (2**62, 2**62),
        (2**63 - 1, 1),
        (1, 2**63 - 1),
        (2**64, 1),
        (None, 1),
        (),
        ("4", 4),
    ):
        yield Case(f"packed_size{given}", lambda given=given: rows.packed_size(*given), BAD)  # type: ignore[misc]
    for name in (None, 3, b"generic", "\udc80", ["generic"], object()):
        yield Case(f"use({name!r:.12})", lambda name=name: rows.use(name), (TypeError, UnicodeError))  # type: ignore[misc]
    for name in ("", "none such", "generic\0", "x" * 100_000):
        yield Case(f"use({name!r:.12})", lambda name=name: unused(name), None)  # type: ignore[misc]
    yield Case("features(1)", lambda: rows.features(1), TypeError)


def unused(name: str) -> None:
    before = rows.features()
    found = rows.use(name)
    rows.use(before)
    if found is not False:
        raise Harm(f"there are kernels {name}")


def wide(width: int, count: int) -> None:
    """Scratch memory that no machine has."""
    program = Program()
    program.regs = [(0, width, 0, k) for k in range(count)]
    program.code = [(OPS["FILL"], k, -1, -1, 1, 0, 0, 0) for k in range(count)]
    program.nodes = program.block = 2**31 - 1
    program.args = [(0, 0), (0, 0)]
    program.run()


CASES = [
    Case("the program itself", lambda: Program().run(), None),
    *changed_numbers(),
    *counts(),
    *buffers(),
    *stretches(),
    *packing(),
    Case("scratch of 2**49 bytes", lambda: wide(2**31 - 1, 1), MemoryError),
    Case("scratch of 2**59 bytes", lambda: wide(2**31 - 1, 1000), MemoryError),
    Case("the program once more", lambda: Program().run(), None),
]

if __name__ == "__main__":
    run(CASES)
