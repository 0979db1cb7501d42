"""Running compiled programs for the steps of a flush, by `gluonjit._rows`: a stretch of them in one call."""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from gluonjit.analysis.plan import Plan
from gluonjit.compiled import ROWS
from gluonjit.hot import hot
from gluonjit.rows.assembly import Assembly, Slot
from gluonjit.rows.program import Weight

if TYPE_CHECKING:
    from gluonjit.rows import blocks as _blocks
    from gluonjit.rows.blocks import Blocks, Form
else:
    _blocks = hot("gluonjit.rows.blocks")
    Blocks, Form = _blocks.Blocks, _blocks.Form

_BLOCK = 64  # nodes at a time: what lies between two instructions stays in the cache
_FLOAT = 4
_MOST_SPARE = 16_000_000  # floats

Flags = npt.NDArray[np.bool_]
NO_FLAGS: Flags = np.zeros(1, dtype=bool)
"""Those of a flush without recording."""


class Memory(Protocol):
    """Addresses of a flush's arrays, of float32, row by row. Who asks for one may read and write it at once."""

    def arena(self, number: int) -> int:
        """An arena of the plan."""

    def gradient(self, number: int) -> int:
        """The gradients of its rows."""

    def constant(self, array: Any) -> int:
        """A weight."""

    def learned(self, array: Any) -> int:
        """Its gradient."""


def row_flags(plan: Plan) -> tuple[Flags, list[Flags]]:
    """A flag for each row of each arena: all of them, one arena after the other, and those of each arena."""
    flags = np.zeros(sum([arena.rows for arena in plan.arenas]), dtype=bool)
    found, begin = [], 0
    for arena in plan.arenas:
        found.append(flags[begin : begin + arena.rows])
        begin += arena.rows
    return flags, found


def read_steps(plan: Plan, programs: list[tuple[int, tuple[int, ...]] | None], unfit: Any) -> Blocks:
    """Steps as `Blocks`, each with the number of its program and the spaces of its operands, or None.

    Those whose rows are not as its program takes them are told to `unfit`, by their number and why.
    """
    tables, wanted, packed, parents = _blocks.read(plan.steps, programs, unfit)
    firsts = tables[5]
    nodes, children = tables[1], tables[2]
    numbers = np.empty(packed + sum([nodes[number] + 1 for number in parents]) + 1, dtype=np.int32)
    if wanted:
        np.concatenate(wanted, out=numbers[:packed], casting="same_kind")
    for number in parents:
        firsts[number] = packed
        own = numbers[packed : packed + nodes[number] + 1]
        packed += len(own)
        arities = plan.steps[number].arities
        if arities is None:  # then each node has as many
            own[:] = np.arange(len(own)) * (children[number] // nodes[number])
        else:
            own[0] = 0
            np.cumsum(arities, out=own[1:])
    rows = [arena.rows for arena in plan.arenas]
    strides = [prod(arena.spec.row_shape) * _FLOAT for arena in plan.arenas]
    return Blocks(tables, rows, strides, numbers, numbers.ctypes.data)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Launches:
    """The launches of one flush, by so many threads at most. Weights are packed once for all of them."""

    def __init__(self, arenas: int, blocks: Blocks, threads: int) -> None:
        self._arenas, self._blocks, self._threads = arenas, blocks, threads
        self._packed: dict[tuple[int, Weight, bool], npt.NDArray[np.float32]] = {}
        self._programs: dict[int, tuple[int, Assembly]] = {}
        self.under_way = -1  # the step that is run, or ran last

    def form(self, assembly: Assembly, kept: Sequence[tuple[int, int]], consts: Sequence[Any], memory: Memory) -> Form:
        """The form of blocks of a program, with addresses of weights, or of their gradients, as they are now.

        kept: space and width of registers that are kept for the backward pass.
        """
        number, _ = self._programs.setdefault(id(assembly), (len(self._programs), assembly))
        before, columns = [], [0, 0]  # of nodes and children
        for space, width in kept:
            before.append(tuple(columns))
            columns[space] += width
        slots: list[int] = []
        for slot in assembly.slots:
            what = _blocks.WHAT.get(slot.what, _blocks.WHAT["constant"])
            if slot.what == "saved":
                slots += (what, *before[slot.number])
            elif slot.weight is None:
                slots += (what, slot.number, 0)
            else:
                slots += (what, *self._weight(slot, consts, memory))
        return Form(number, slots, *columns)

    def launch(
        self, steps: list[int], forms: list[Form], saves: bool, memory: Memory
    ) -> tuple[npt.NDArray[np.float32] | None, list[int]]:
        """Run steps, each by its form; what they save for their backward pass, and the nanoseconds that each took."""
        blocks, saved = self._blocks, None
        slots, floats = blocks.room(steps, forms)
        if saves and floats:
            saved = np.empty(floats, dtype=np.float32)
            blocks.save(steps, forms, saved.ctypes.data)
        launches = np.zeros((len(steps), 5), dtype=np.int64)
        args = np.empty(2 * slots, dtype=np.int64)
        try:
            gradients = np.zeros(self._arenas + 1, dtype=np.int64)
            blocks.fill(steps, forms, launches.ravel(), args, gradients, memory.arena, memory.gradient)
        except BaseException:
            self.under_way = blocks.filled()
            raise
        programs = tuple([(assembly.code, assembly.regs) for _, assembly in self._programs.values()])
        done = 0
        while done < len(steps):  # each few milliseconds Python comes to look at signals
            self.under_way = steps[done]
            done = ROWS.run(programs, launches, args, _BLOCK, done, self._threads)
        return saved, launches[:, 4].tolist()

    def _weight(self, slot: Slot, consts: Sequence[Any], memory: Memory) -> tuple[int, int]:
        """An address and the bytes there, or a number and 0."""
        what, weight = slot.what, slot.weight
        assert weight is not None
        array = consts[weight.const]
        stride = int(array.shape[-1])
        if what == "stride":
            return stride, 0
        if what in ("packed", "turned"):
            return self._pack(array, weight, stride, what == "turned", memory)
        base = memory.learned(array) if what == "learned" else memory.constant(array)
        return _part(base, array, weight, stride)

    def __del__(self) -> None:
        """Leave the memory of packed weights to the next flush: the system's own takes longer than packing."""
        self.forget_weights()

    def forget_weights(self) -> None:
        """Pack weights anew from here on: they may have been written to."""
        for packed in self._packed.values():
            _given_back(packed)
        self._packed.clear()

    def _pack(self, array: Any, weight: Weight, stride: int, turned: bool, memory: Memory) -> tuple[int, int]:
        key = (id(array), weight, turned)
        packed = self._packed.get(key)
        if packed is None:
            inner, outer = (weight.rows, weight.columns) if turned else (weight.columns, weight.rows)
            steps = (stride, 1) if turned else (1, stride)
            size = ROWS.packed_size(inner, outer)
            packed = self._packed[key] = _taken(size)
            source = _part(memory.constant(array), array, weight, stride)
            ROWS.pack(*source, inner, outer, *steps, packed)
        return packed.ctypes.data, packed.nbytes


def _part(base: int, array: Any, weight: Weight, stride: int) -> tuple[int, int]:
    """A constant, or its gradient, from the first number of a part of it on."""
    begin = weight.top * stride + weight.left
    return base + begin * _FLOAT, (prod(array.shape) - begin) * _FLOAT


_SPARE: dict[int, list[npt.NDArray[np.float32]]] = {}  # memory of packed weights that nobody uses, by size


def _taken(size: int) -> npt.NDArray[np.float32]:
    """An array of this size, not filled."""
    try:
        return _SPARE[size].pop()
    except (KeyError, IndexError):
        return np.empty(size, dtype=np.float32)


def _given_back(array: npt.NDArray[np.float32]) -> None:
    """Keep an array for the next flush, if that is not too much."""
    if sum([size * len(spare) for size, spare in list(_SPARE.items())]) + array.size <= _MOST_SPARE:
        _SPARE.setdefault(array.size, []).append(array)


def clear_spare() -> None:
    """Let memory go that is kept for packed weights: 64 MB at most."""
    _SPARE.clear()
