"""Running compiled programs for the steps of a flush, by `gluonjit._rows`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from gluonjit.analysis import Plan, Step
from gluonjit.analysis.plan import Gather
from gluonjit.compiled import ROWS
from gluonjit.fused.assembly import FIRST_SLOT, Assembly, Compiled, Slot
from gluonjit.fused.program import CHILD, NODE, NotFusable, Program, Weight

_BLOCK = 64  # nodes at a time: what lies between two instructions stays in the cache
_FLOAT = 4
_MOST_SPARE = 8  # of one size
_SPARE: dict[int, list[npt.NDArray[np.float32]]] = {}


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


class _Role(NamedTuple):
    """Where the rows of an operand are: a gather of the step, and how many rows of it come before."""

    gather: int
    begin: int


class Launches:
    """The fused steps of one flush. Index arrays and packed weights are made once for all of them."""

    def __init__(self, plan: Plan, programs: Mapping[int, Program]) -> None:
        self._plan, self._programs = plan, programs
        self._packed: dict[tuple[int, Weight, bool], npt.NDArray[np.float32]] = {}
        self._keep: list[Any] = []  # what addresses point into
        self._index: dict[tuple[int, int], int] = {}
        self._first: dict[int, int] = {}
        self._roles: dict[int, list[_Role]] = {}
        self._pack_indices(programs)
        self._rows = {number: rows_of(program, plan.steps[number]) for number, program in programs.items()}
        for number in programs:
            self._arrange(number, plan.steps[number])

    def _pack_indices(self, programs: Collection[int]) -> None:
        wanted = [
            (number, position, gather.index)
            for number in programs
            for position, gather in enumerate(self._plan.steps[number].gathers)
            if gather.index is not None
        ]
        if wanted:
            packed = np.concatenate([index for _, _, index in wanted]).astype(np.int32)
            self._keep.append(packed)
            address = packed.ctypes.data
            for number, position, index in wanted:
                self._index[number, position] = address
                address += len(index) * packed.itemsize

    def _arrange(self, number: int, step: Step) -> None:
        roles = []
        for position, (group, gather) in enumerate(zip(step.kind.groups, step.gathers)):
            rows = gather.rows // len(group)
            roles += [_Role(position, k * rows) for k in range(len(group))]
        self._roles[number] = roles
        if CHILD in self._programs[number].spaces:
            nodes = self._rows[number][NODE]
            if step.arities is None:
                first = np.arange(nodes + 1, dtype=np.int32) * (self._rows[number][CHILD] // nodes)
            else:
                first = np.zeros(nodes + 1, dtype=np.int32)
                np.cumsum(step.arities, out=first[1:])
            self._keep.append(first)
            self._first[number] = first.ctypes.data

    def forward(
        self, number: int, compiled: Compiled, consts: Sequence[Any], memory: Memory
    ) -> npt.NDArray[np.float32] | None:
        """Run a step; returns what its backward pass needs of it."""
        rows, saved = self._rows[number], None
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
        step = self._plan.steps[number]
        rows = self._rows[number]
        args = [self._first.get(number, 0), 0 if saved is None else saved.ctypes.data]
        offsets = _offsets(rows, kept)
        for slot in assembly.slots:
            args.append(
                offsets[slot.number] if slot.what == "saved" else self._address(number, step, slot, consts, memory)
            )
        assert len(args) == FIRST_SLOT + len(assembly.slots)
        ROWS.run(assembly.code, assembly.regs, np.array(args, dtype=np.int64), rows[NODE], _BLOCK)

    def _address(self, number: int, step: Step, slot: Slot, consts: Sequence[Any], memory: Memory) -> int:
        what = slot.what
        if what in ("operand", "base", "index", "gradient"):
            role = self._roles[number][slot.number]
            gather = step.gathers[role.gather]
            place = gather.place
            indexed = gather.index is not None
            if what == "index":
                return self._index[number, role.gather] + role.begin * _FLOAT if indexed else 0
            base = memory.gradient(place.arena) if what == "gradient" else memory.arena(place.arena)
            return base if indexed else base + (place.begin + role.begin) * self._stride(place.arena)
        if what in ("result", "seed"):
            place = step.places[slot.number]
            base = memory.arena(place.arena) if what == "result" else memory.gradient(place.arena)
            return base + place.begin * self._stride(place.arena)
        weight = slot.weight
        assert weight is not None
        array = consts[weight.const]
        stride = int(array.shape[-1])
        if what == "stride":
            return stride
        if what in ("packed", "turned"):
            return self._pack(array, weight, stride, what == "turned", memory)
        base = memory.learned(array) if what == "learned" else memory.constant(array)
        return base + (weight.top * stride + weight.left) * _FLOAT

    def _stride(self, arena: int) -> int:
        return int(np.prod(self._plan.arenas[arena].spec.row_shape, dtype=np.int64)) * _FLOAT

    def __del__(self) -> None:
        """Leave the memory of packed weights to the next flush: the system's own takes longer than packing."""
        for packed in self._packed.values():
            spare = _SPARE.setdefault(packed.size, [])
            if len(spare) < _MOST_SPARE:
                spare.append(packed)

    def _pack(self, array: Any, weight: Weight, stride: int, turned: bool, memory: Memory) -> int:
        key = (id(array), weight, turned)
        packed = self._packed.get(key)
        if packed is None:
            inner, outer = (weight.rows, weight.columns) if turned else (weight.columns, weight.rows)
            steps = (stride, 1) if turned else (1, stride)
            size = ROWS.packed_size(inner, outer)
            spare = _SPARE.get(size)
            packed = self._packed[key] = spare.pop() if spare else np.empty(size, dtype=np.float32)
            source = memory.constant(array) + (weight.top * stride + weight.left) * _FLOAT
            ROWS.pack(source, inner, outer, *steps, packed.ctypes.data)
        return int(packed.ctypes.data)


def rows_of(program: Program, step: Step) -> tuple[int, int]:
    """How many rows of each space a step has. Raises NotFusable where they are not as the program takes them."""
    found: list[set[float]] = [set(), set()]
    spaces = iter(program.spaces)
    for group, gather in zip(step.kind.groups, step.gathers):
        for _ in group:
            found[next(spaces)].add(gather.rows / len(group))
    places = {place.end - place.begin for place in step.places}
    nodes = places.pop()
    if step.arities is not None:
        children = int(step.arities.sum())
    else:  # then each node has as many
        children = int(max(found[CHILD], default=0)) // nodes * nodes
    if places or not found[NODE] <= {nodes} or not found[CHILD] <= {children}:
        raise NotFusable("rows of one step that are not one a node")
    if step.arities is not None and len(step.arities) != nodes:
        raise NotFusable("nodes of several rows with children")
    return nodes, children


def roles_of(step: Step) -> list[Gather]:
    """What is gathered for each operand of a step, group by group."""
    found = []
    for group, gather in zip(step.kind.groups, step.gathers):
        rows = gather.rows // len(group)
        for k in range(len(group)):
            if gather.index is None:
                begin = gather.place.begin + k * rows
                found.append(Gather(gather.place._replace(begin=begin, end=begin + rows), None))
            else:
                found.append(Gather(gather.place, gather.index[k * rows : (k + 1) * rows]))
    return found


def _offsets(rows: Sequence[int], kept: Sequence[tuple[int, int]]) -> list[int]:
    """Where in the buffer each register that is kept begins, in floats."""
    offsets, begin = [], 0
    for space, width in kept:
        offsets.append(begin)
        begin += width * rows[space]
    return offsets
