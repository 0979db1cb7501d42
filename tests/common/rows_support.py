"""Steps of row programs for tests: registers, slots and the arrays they lie in."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

if os.environ.get("GLUONJIT_PURE", "0") not in ("", "0"):
    pytest.skip("GLUONJIT_PURE is set", allow_module_level=True)
rows = pytest.importorskip("gluonjit._rows")

NODE, CHILD = 0, 1
SCRATCH, SAVED, DIRECT = 0, 1, 2
NONE, ACC = -1, 1
OPS = rows.OPS
COUNTS = (0, 1, 13, 100)
BEST = rows.features()
KERNELS = ("avx512", "avx2", "generic")


def bits(x: float) -> int:
    return int(struct.unpack("<i", struct.pack("<f", x))[0])


def view(reg: int, column: int = 0) -> int:
    return reg | column << 32


def column(place: int) -> int:
    return place >> 32


def register(place: int) -> int:
    return place & 0x7FFFFFFF


def extent(matrix: np.ndarray) -> int:
    """Bytes from the first element of a matrix of any strides to its last."""
    return sum((count - 1) * stride for count, stride in zip(matrix.shape, matrix.strides)) + matrix.itemsize


def launch(code: Any, regs: Any, args: Any, nodes: Any, block: Any, threads: int = 1) -> None:
    """Run a program once."""
    slots = args.shape[0] if isinstance(args, np.ndarray) and args.ndim == 2 else 2
    launches = np.array([[0, 0, slots, nodes, 0]], np.int64)
    done = rows.run(((code, regs),), launches, args, block, 0, threads)
    assert done == 1
    assert launches[0, 4] > 0


class Machine:
    """A step: registers and slots, and the arrays they lie in."""

    def __init__(self, nodes: int, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes = nodes
        children = self.random.integers(0, 6, nodes)
        self.first = np.concatenate([[0], np.cumsum(children)]).astype(np.int32)
        self.owner = np.repeat(np.arange(nodes), children)
        self.counts = (nodes, int(self.first[-1]))
        self.args = [(self.first.ctypes.data, self.first.nbytes), (0, 0)]
        self.regs: list[tuple[int, int, int, int]] = []
        self.code: list[tuple[int, ...]] = []
        self.held: list[Any] = [self.first]

    def slot(self, value: Any) -> int:
        if isinstance(value, np.ndarray):
            self.held.append(value)
            self.args.append((value.ctypes.data, value.nbytes))
        else:
            self.args.append((value, 0))
        return len(self.args) - 1

    def normal(self, space: int, width: int) -> np.ndarray:
        return self.random.standard_normal((self.counts[space], width)).astype(np.float32)

    def reg(self, array: np.ndarray, space: int = NODE) -> int:
        """A register whose rows are those of an array."""
        self.regs.append((space, array.shape[1], DIRECT, self.slot(array)))
        return len(self.regs) - 1

    def scratch(self, width: int, number: int, space: int = NODE) -> int:
        self.regs.append((space, width, SCRATCH, number))
        return len(self.regs) - 1

    def emit(self, op: str, out: int, a: int, b: int, w: int, x: int = 0, y: int = 0, flags: int = 0) -> None:
        self.code.append((OPS[op], out, a, b, w, x, y, flags))

    def run(self, block: int = 7, threads: int = 1) -> None:
        code = np.array(self.code, np.int64).reshape(-1, 8)
        regs = np.array(self.regs, np.int32).reshape(-1, 4)
        launch(code, regs, np.array(self.args, np.int64).reshape(-1, 2), self.nodes, block, threads)

    def packed(self, matrix: np.ndarray) -> int:
        """The slot of a packed matrix of any strides."""
        k, n = matrix.shape
        target = np.full(rows.packed_size(k, n), np.nan, np.float32)
        strides = [stride // 4 for stride in matrix.strides]
        self.held.append(matrix)
        rows.pack(matrix.ctypes.data, extent(matrix), k, n, strides[0], strides[1], target)
        return self.slot(target)


def assert_close(found: np.ndarray, wanted: np.ndarray, tolerance: float = 4e-6) -> None:
    assert found.shape == wanted.shape
    if wanted.size:
        assert np.max(np.abs(found - wanted)) <= tolerance * max(1.0, np.max(np.abs(wanted)))


def sigmoid(a: Any) -> Any:
    return 1 / (1 + np.exp(-a))


def softmax(a: Any) -> Any:
    e = np.exp(a - a.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def columns_of(b: Any, w: int) -> Any:
    return np.clip(b[:, 0].astype(int), 0, w - 1)


def values_of(op: str, given: np.ndarray) -> np.ndarray:
    machine = Machine(1)
    out = np.zeros((1, given.size), np.float32)
    machine.emit(op, machine.reg(out), machine.reg(given[None].copy()), NONE, given.size)
    machine.run()
    return out[0]


def each_kernel(request: Any) -> Iterator[str]:
    """The body of a fixture: use the kernels named, and the best ones again after it."""
    if not rows.use(request.param):
        pytest.skip(f"this processor has no {request.param}")
    yield request.param
    rows.use(BEST)
