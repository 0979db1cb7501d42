"""Runs compiled programs for the steps of a flush with `gluonjit._rows`: a stretch of them in one call."""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gluonjit.analysis.plan import Plan, row_bytes
from gluonjit.compiled import ROWS, hot
from gluonjit.rows.assembly import Assembly
from gluonjit.rows.program import Weight

if TYPE_CHECKING:
    from gluonjit.rows import blocks as _blocks
    from gluonjit.rows import tables as _tables
    from gluonjit.rows.blocks import BlockForm, Blocks
else:
    _blocks, _tables = hot("gluonjit.rows.blocks"), hot("gluonjit.rows.tables")
    Blocks, BlockForm = _blocks.Blocks, _blocks.BlockForm

_BLOCK = 64  # nodes at a time: what lies between two instructions stays in the cache
_FLOAT = 4
_MOST_SPARE = 16_000_000  # floats

Flags = npt.NDArray[np.bool_]
NO_FLAGS: Flags = np.zeros(1, dtype=bool)
"""Those of a flush without recording."""


def row_flags(plan: Plan) -> tuple[Flags, list[Flags]]:
    """A flag for each row of each arena: all of them, one arena after the other, and those of each arena."""
    known = plan.common.flags
    if known is None:
        ends = list(accumulate([arena.rows for arena in plan.arenas], initial=0))
        known = plan.common.flags = list(zip(ends, ends[1:]))
    flags = np.zeros(known[-1][1] if known else 0, dtype=bool)
    return flags, [flags[begin:end] for begin, end in known]


def read_steps(plan: Plan, programs: list[tuple[int, tuple[int, ...], list[int]] | None], unfit: Any) -> Blocks:
    """Steps as `Blocks`, each with the number of its program and the spaces of its operands and results, or None.

    Those whose rows are not as its program takes them are told to `unfit`, by their number and why.
    """
    rows = [arena.rows for arena in plan.arenas]
    strides = [row_bytes(arena.spec) for arena in plan.arenas]
    tables, packed = _tables.read(plan.steps, programs, unfit)
    return Blocks(tables, rows, strides, packed)


class Pack(NamedTuple):
    """A weight, or a part of it, as products read it: from its first byte there on so many, the numbers of its rows and
    columns and the steps between them, and the size that it has packed."""

    begin: int
    bytes: int
    inner: int
    outer: int
    down: int
    across: int
    size: int


class Template:
    """The form of blocks of a program but for addresses of weights, or of their gradients: the same in every flush.

    kept: space and width of registers that are kept for the backward pass; consts: the arrays of the program.
    """

    def __init__(self, assembly: Assembly, kept: Sequence[tuple[int, int]], consts: Sequence[Any]) -> None:
        self.assembly = assembly
        self.slots = array("q")  # three numbers each
        self.weights: list[tuple[int, bool, int, int]] = []  # a slot, whether of a gradient, the constant, a byte of it
        self.packs: list[tuple[int, int, Pack]] = []  # a slot, the constant, and what of it
        before, columns = [], [0, 0]  # of nodes and children
        for space, width in kept:
            before.append(tuple(columns))
            columns[space] += width
        self.columns = tuple(columns)
        for slot in assembly.slots:
            what = _blocks.WHAT.get(slot.what, _blocks.WHAT["constant"])
            if slot.what == "saved":
                self.slots.extend((what, *before[slot.number]))
            elif slot.weight is None:
                self.slots.extend((what, slot.number, 0))
            else:
                self.slots.extend((what, *self._weight(slot.what, slot.weight, consts[slot.weight.const].shape)))

    def _weight(self, what: str, weight: Weight, shape: Sequence[int]) -> tuple[int, int]:
        """Returns an address, as far as it is known, and the bytes there, or a number and 0."""
        stride, at = int((1, *shape)[-1]), len(self.slots) + 1
        if what == "stride":
            return stride, 0
        first = weight.top * stride + weight.left
        begin, size = first * _FLOAT, (prod(shape) - first) * _FLOAT
        if what not in ("packed", "turned"):
            self.weights.append((at, what == "learned", weight.const, begin))
            return 0, size
        turned = what == "turned"
        inner, outer = (weight.rows, weight.columns) if turned else (weight.columns, weight.rows)
        steps = (stride, 1) if turned else (1, stride)
        pack = Pack(begin, size, inner, outer, *steps, ROWS.packed_size(inner, outer))
        self.packs.append((at, weight.const, pack))
        return 0, pack.size * _FLOAT


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Arguments(NamedTuple):
    """Memory of the arguments of some steps, each of a form: these, launches, their slots, and gradients of arenas."""

    steps: list[int]
    forms: list[BlockForm]
    launches: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    args: npt.NDArray[np.int64]
    gradients: npt.NDArray[np.int64]
    floats: int


class Launches:
    """The launches of one flush after the other, by so many threads at most. Weights are packed once for a flush."""

    def __init__(self, arenas: int, blocks: Blocks) -> None:
        self._arenas, self._blocks = arenas, blocks
        self.threads = 1
        self._packed: dict[int, list[tuple[Pack, _Memory]]] = {}  # by the address of the array
        self._numbers: dict[int, tuple[int, Assembly]] = {}  # of programs, by the address of what is kept with it
        self.programs: tuple[tuple[Any, Any], ...] = ()  # that have been launched
        self._last: dict[bool, _Arguments] = {}  # forward and backward
        self.under_way = -1  # the step that is run, or ran last

    def form(self, template: Template, consts: Sequence[Any], memory: Any) -> BlockForm:
        """Returns the form of blocks of a program, with the current addresses of weights, or of their gradients."""
        return BlockForm(self._number(template.assembly), self.slots(template, consts, memory), *template.columns)

    def _number(self, assembly: Assembly) -> int:
        """The number of a program."""
        found = self._numbers.get(id(assembly))
        if found is None:
            found = len(self.programs), assembly
            self.programs += ((assembly.code, assembly.regs),)
            self._numbers[id(assembly)] = found  # last: an interrupt leaves at most a program that nobody runs
        return found[0]

    def slots(self, template: Template, consts: Sequence[Any], memory: Any) -> array[int]:
        """The slots of a form."""
        slots = template.slots[:]
        for at, learned, const, begin in template.weights:
            array = consts[const]
            address = memory.learned(array) if learned else memory.constant(array)
            slots[at] = address + begin
        for at, const, pack in template.packs:
            slots[at] = self._pack(consts[const], pack, memory)
        return slots

    def launch(
        self, steps: list[int], forms: list[BlockForm], saves: bool, memory: Any
    ) -> tuple[npt.NDArray[np.float32] | None, list[int]]:
        """Runs steps, each by its form; returns what they save for backward, and the nanoseconds of each.

        saves: whether this is the forward pass, which asks for no gradients.
        """
        last = self._last.get(saves)
        if last is None or last.steps != steps or last.forms != forms:
            last = self._last[saves] = self._arguments(steps, forms)
        if not saves:
            last.gradients.fill(0)
        saved = self._fill(last, saves, memory)
        done, count = 0, len(steps)
        while done < count:  # each few milliseconds Python comes to look at signals
            self.under_way = steps[done]
            done = ROWS.run(self.programs, last.rows, last.args, _BLOCK, done, self.threads)
        return saved, last.launches[4::5].tolist()

    def _arguments(self, steps: list[int], forms: list[BlockForm]) -> _Arguments:
        """Makes room for what `_rows` takes."""
        slots, floats = self._blocks.room(steps, forms)
        launches = np.zeros(5 * len(steps), dtype=np.int64)
        args, gradients = np.empty(2 * slots, dtype=np.int64), np.zeros(self._arenas + 1, dtype=np.int64)
        return _Arguments(steps, forms, launches, launches.reshape(-1, 5), args, gradients, floats)

    def _fill(self, given: _Arguments, saves: bool, memory: Any) -> npt.NDArray[np.float32] | None:
        """Fills arguments in; the array of what steps save."""
        blocks, saved = self._blocks, None
        if saves and given.floats:
            saved = np.empty(given.floats, dtype=np.float32)
            blocks.save(given.steps, given.forms, saved.ctypes.data)
        try:
            blocks.fill(
                given.steps, given.forms, given.launches, given.args, given.gradients, memory.arena, memory.gradient
            )
        except BaseException:
            self.under_way = blocks.filled()
            raise
        return saved

    def __del__(self) -> None:
        """Leaves the memory of packed weights to the next flush: the system's own takes longer than packing."""
        self.forget_weights()

    def forget_weights(self) -> None:
        """Packs weights anew from here on: they may have been written to."""
        while self._packed:
            _, parts = self._packed.popitem()
            while parts:  # taken out first: what an interrupt leaves here would be given back once more
                _given_back(parts.pop()[1])

    def _pack(self, array: Any, pack: Pack, memory: Any) -> int:
        """The address of a packed weight."""
        parts = self._packed.get(id(array))
        if parts is None:
            parts = self._packed[id(array)] = []
        for known, packed in parts:
            if known == pack:
                return packed[1]
        packed = _taken(pack.size)
        parts.append((pack, packed))
        source = memory.constant(array) + pack.begin
        ROWS.pack(source, pack.bytes, pack.inner, pack.outer, pack.down, pack.across, packed[0])
        return packed[1]


_Memory = tuple[npt.NDArray[np.float32], int]
"""An array and its address."""
SPARE: dict[int, list[_Memory]] = {}  # memory of packed weights that nobody uses, by size


def _taken(size: int) -> _Memory:
    """An array of this size, not filled."""
    try:
        return SPARE[size].pop()
    except (KeyError, IndexError):
        array = np.empty(size, dtype=np.float32)
        return array, array.ctypes.data


def _given_back(memory: _Memory) -> None:
    """Keeps an array for the next flush, if the kept ones are not too large."""
    size = memory[0].size
    if sum([size * len(spare) for size, spare in list(SPARE.items())]) + size <= _MOST_SPARE:
        SPARE.setdefault(size, []).append(memory)


def clear_spare() -> None:
    """Releases memory that is kept for packed weights: 64 MB at most."""
    SPARE.clear()
