"""Row programs, in C (gluonjit/native/rows): what one cell does, as instructions on rows, for all nodes of a step.

Instructions, registers and homes are described in gluonjit/native/rows/rows.h."""

from typing import Any

OPS: dict[str, int]
"""The number of each operation."""

def run(code: Any, regs: Any, args: Any, nodes: int, block: int) -> None:
    """Run a program over so many nodes, a block of them at a time: int64 code of (n, 8), int32 regs of (n, 4), int64
    args of (n, 2), each an address and the bytes that lie there. The GIL is released.

    Raises ValueError where code names a register, column, slot or operation that is not there, or needs more memory
    than there is; MemoryError. What lies at an address is taken on trust, as nothing else is."""

def pack(source: int, size: int, k: int, n: int, row_stride: int, column_stride: int, target: Any) -> None:
    """Write the float32 (k, n) matrix at an address where so many bytes lie, with strides in elements, as panels to an
    array of float32. Raises ValueError where one of both is too small."""

def packed_size(k: int, n: int) -> int:
    """The number of float32 numbers that the panels of a (k, n) matrix take."""

def features() -> str:
    """The kernels in use: "avx512", "avx2" or "generic"."""

def use(name: str) -> bool:
    """Use other kernels, for tests; False where the processor can't. What was packed has to be packed anew."""
