"""Row programs, in C (gluonjit/native/rows): what one cell does, as instructions on rows, for all nodes of a step.

Instructions, registers and homes are described in gluonjit/native/rows/rows.h."""

from typing import Any

OPS: dict[str, int]
"""The number of each operation."""

def run(programs: Any, launches: Any, args: Any, block: int, begin: int, threads: int = 1) -> int:
    """Run launches from one on for some 20 ms; returns the number of the one that comes next. The GIL is released.

    A program is a tuple of int64 code of (n, 8) and int32 regs of (n, 4). A launch is five numbers of int64 launches:
    the program's number, the first of its slots in args and how many these are, the nodes, and the nanoseconds it took,
    which are written to it. Args are int64 of (n, 2), each an address and the bytes that lie there. A program is run a
    block of so many nodes at a time. Up to so many threads share a launch that takes long enough, if no other call is
    shared; results are the same to the last bit, as long as no node reads what another one of its launch writes.

    Raises ValueError where the code of the first launch names a register, column, slot or operation that is not there,
    or needs more memory than there is; MemoryError. What is wrong with a later one is raised when that is the first.
    What lies at an address is taken on trust, as nothing else is."""

def pack(source: int, size: int, k: int, n: int, row_stride: int, column_stride: int, target: Any) -> None:
    """Write the float32 (k, n) matrix at an address where so many bytes lie, with strides in elements, as panels to an
    array of float32. Raises ValueError where one of both is too small."""

def packed_size(k: int, n: int) -> int:
    """The number of float32 numbers that the panels of a (k, n) matrix take."""

def worth(nanoseconds: float) -> float:
    """Let threads share launches of so many nanoseconds of work and more, for tests; returns what it was."""

def features() -> str:
    """The kernels in use: "avx512", "avx2" or "generic"."""

def use(name: str) -> bool:
    """Use other kernels, for tests; False where the processor can't. What was packed has to be packed anew."""
