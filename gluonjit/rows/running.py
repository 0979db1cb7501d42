"""Running compiled programs for the steps of a flush, by `gluonjit._rows`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from gluonjit.analysis.plan import Gather, Place, Plan, Step
from gluonjit.compiled import ROWS
from gluonjit.rows.assembly import FIRST_SLOT, Assembly, Compiled, Slot
from gluonjit.rows.program import CHILD, NODE, NotFusable, RowProgram, Weight

_BLOCK = 64  # nodes at a time: what lies between two instructions stays in the cache
_FLOAT = 4
_MOST_SPARE = 16_000_000  # floats

Room = tuple[int, int]
"""An address, and how many bytes lie there; or a number, and 0."""

_NOTHING: Room = (0, 0)


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


class RowCounts(NamedTuple):
    """The number of rows of each space that a step has, and what is gathered for each operand."""

    counts: tuple[int, int]
    gathers: list[Gather]


class Launches:
    """The fused steps of one flush. Index arrays and packed weights are made once for all of them."""

    def __init__(self, plan: Plan, rows: Mapping[int, RowCounts]) -> None:
        self._plan, self._rows = plan, rows
        self._packed: dict[tuple[int, Weight, bool], npt.NDArray[np.float32]] = {}
        self._keep: list[Any] = []  # what addresses point into
        self._index: dict[tuple[int, int], Room] = {}
        self._first: dict[int, Room] = {}
        self._strides = [prod(arena.spec.row_shape) * _FLOAT for arena in plan.arenas]
        self._pack_indices()
        for number, (counts, _) in rows.items():
            if counts[CHILD]:
                self._count_children(number, counts)

    def _pack_indices(self) -> None:
        wanted = [
            (number, operand, gather.index)
            for number, (_, gathers) in self._rows.items()
            for operand, gather in enumerate(gathers)
            if gather.index is not None
        ]
        if wanted:
            packed = np.concatenate([index for _, _, index in wanted]).astype(np.int32)
            self._keep.append(packed)
            address = packed.ctypes.data
            for number, operand, index in wanted:
                size = len(index) * packed.itemsize
                self._index[number, operand] = address, size
                address += size

    def _count_children(self, number: int, counts: tuple[int, int]) -> None:
        """Finds where the children of each node begin."""
        nodes, arities = counts[NODE], self._plan.steps[number].arities
        if arities is None:
            first = np.arange(nodes + 1, dtype=np.int32) * (counts[CHILD] // nodes)
        else:
            first = np.zeros(nodes + 1, dtype=np.int32)
            np.cumsum(arities, out=first[1:])
        self._keep.append(first)
        self._first[number] = first.ctypes.data, first.nbytes

    def forward(
        self, number: int, compiled: Compiled, consts: Sequence[Any], memory: Memory
    ) -> npt.NDArray[np.float32] | None:
        """Run a step; returns what its backward pass needs of it."""
        rows, saved = self._rows[number].counts, None
        if compiled.saved:
            saved = np.empty(sum([width * rows[space] for space, width in compiled.saved]), dtype=np.float32)
        self._run(number, compiled.forward, compiled.saved, consts, saved, memory)
        return saved

    def backward(
        self,
        number: int,
        compiled: Compiled,
        consts: Sequence[Any],
        saved: npt.NDArray[np.float32] | None,
        memory: Memory,
    ) -> None:
        """Add to gradients what a step's results' gradients make of them."""
        if compiled.backward is not None:
            self._run(number, compiled.backward, compiled.saved, consts, saved, memory)

    def _run(
        self,
        number: int,
        assembly: Assembly,
        kept: Sequence[tuple[int, int]],
        consts: Sequence[Any],
        saved: npt.NDArray[np.float32] | None,
        memory: Memory,
    ) -> None:
        rows = self._rows[number].counts
        args = [*self._first.get(number, _NOTHING), *(_NOTHING if saved is None else (saved.ctypes.data, saved.nbytes))]
        offsets = _offsets(rows, kept)
        for slot in assembly.slots:
            saves = slot.what == "saved"
            args += (offsets[slot.number], 0) if saves else self._room(number, slot, consts, memory)
        assert len(args) == 2 * (FIRST_SLOT + len(assembly.slots))
        ROWS.run(assembly.code, assembly.regs, np.array(args, dtype=np.int64), rows[NODE], _BLOCK)

    def _room(self, number: int, slot: Slot, consts: Sequence[Any], memory: Memory) -> Room:
        what = slot.what
        if what == "index":
            return self._index.get((number, slot.number), _NOTHING)
        if what in ("operand", "base", "gradient"):
            gather = self._rows[number].gathers[slot.number]
            place = gather.place
            base = memory.gradient(place.arena) if what == "gradient" else memory.arena(place.arena)
            return self._from(base, place.arena, 0 if gather.index is not None else place.begin)
        if what in ("result", "seed"):
            place = self._plan.steps[number].places[slot.number]
            base = memory.arena(place.arena) if what == "result" else memory.gradient(place.arena)
            return self._from(base, place.arena, place.begin)
        weight = slot.weight
        assert weight is not None
        array = consts[weight.const]
        stride = int(array.shape[-1])
        if what == "stride":
            return stride, 0
        if what in ("packed", "turned"):
            return self._pack(array, weight, stride, what == "turned", memory)
        base = memory.learned(array) if what == "learned" else memory.constant(array)
        return _part(base, array, weight, stride)

    def _from(self, base: int, arena: int, begin: int) -> Room:
        """The rows of an arena, or of its gradients, from one on."""
        stride = self._strides[arena]
        return base + begin * stride, (self._plan.arenas[arena].rows - begin) * stride

    def __del__(self) -> None:
        """Leave the memory of packed weights to the next flush: the system's own takes longer than packing."""
        self.forget_weights()

    def forget_weights(self) -> None:
        """Pack weights anew from here on: they may have been written to."""
        for packed in self._packed.values():
            _given_back(packed)
        self._packed.clear()

    def _pack(self, array: Any, weight: Weight, stride: int, turned: bool, memory: Memory) -> Room:
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


def _part(base: int, array: Any, weight: Weight, stride: int) -> Room:
    """A constant, or its gradient, from the first number of a part of it on."""
    begin = weight.top * stride + weight.left
    return base + begin * _FLOAT, (prod(array.shape) - begin) * _FLOAT


def rows_of(program: RowProgram, step: Step) -> RowCounts:
    """The rows of a step. Raises NotFusable where they are not as the program takes them."""
    found: list[set[int]] = [set(), set()]
    gathers = _gathers(step)
    for space, gather in zip(program.spaces, gathers):
        found[space].add(gather.rows)
    places = {place.end - place.begin for place in step.places}
    nodes = places.pop()
    if step.arities is not None:
        children = int(step.arities.sum())
    else:  # then each node has as many
        children = max(found[CHILD], default=0) // nodes * nodes
    if places or not found[NODE] <= {nodes} or not found[CHILD] <= {children}:
        raise NotFusable("rows of one step that are not one a node")
    if step.arities is not None and len(step.arities) != nodes:
        raise NotFusable("nodes of several rows with children")
    return RowCounts((nodes, children), gathers)


def _gathers(step: Step) -> list[Gather]:
    """Collects what is gathered for each operand of a step, group by group."""
    found = []
    for group, gather in zip(step.kind.groups, step.gathers):
        rows, rest = divmod(gather.rows, len(group))
        if rest:
            raise NotFusable("operands of one group that have unlike numbers of rows")
        for k in range(len(group)):
            if not gather.copied:
                begin = gather.place.begin + k * rows
                found.append(Gather(Place(gather.place.arena, begin, begin + rows), None))
            else:
                found.append(Gather(gather.place, gather.index[k * rows : (k + 1) * rows]))
    return found


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


def _offsets(rows: Sequence[int], kept: Sequence[tuple[int, int]]) -> list[int]:
    """The offsets in the buffer, in floats, of each register that is kept."""
    offsets, begin = [], 0
    for space, width in kept:
        offsets.append(begin)
        begin += width * rows[space]
    return offsets
