"""The arrays of one flush on MXNet, and how its steps run on them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import memmove
from functools import partial
from typing import Any, NamedTuple

import mxnet as mx
import numpy as np
from mxnet.base import _LIB, check_call
from mxnet.context import Context
from mxnet.ndarray import NDArray
from mxnet.ndarray.sparse import CSRNDArray, _new_alloc_handle

from gluonjit.analysis.forms import Index
from gluonjit.analysis.plan import Gather, LeafChunk, LookupChunk, Place, Plan, row_bytes
from gluonjit.engines.mxnet.framework.arrays import address_of, context_of, room_for
from gluonjit.engines.mxnet.framework.originals import slice_rows
from gluonjit.engines.mxnet.framework.semantics import SHAPES, as_captured, classic, shapes
from gluonjit.engines.mxnet.run.fused_steps import FusedSteps
from gluonjit.engines.mxnet.run.gradients import Tape, taken
from gluonjit.engines.mxnet.run.inference import reason_of
from gluonjit.engines.mxnet.run.one_by_one import NODES, compute_alone
from gluonjit.engines.mxnet.run.program import join, program_of
from gluonjit.engines.mxnet.run.results import Imported, RecordedInput, is_learned
from gluonjit.errors import FlushError
from gluonjit.graph import Leaf
from gluonjit.graph.modes import TRAINING, is_recorded
from gluonjit.hybrid.check.entries import GRAPH
from gluonjit.hybrid.run import failures, indices, session
from gluonjit.hybrid.run.state import LOCAL

_SMALL = 1 << 16  # bytes


class Segments:
    """Owners and sparse matrices of several steps, for which `arities` are the numbers of children node by node.

    All numbers travel to the device as three arrays, of which each step's are parts.
    """

    def __init__(self, arities: Sequence[Index], context: Context) -> None:
        self._context = context
        self._children = [int(counts.sum()) for counts in arities]
        self._nodes = [len(counts) for counts in arities]
        most = max(self._children)
        owners = np.concatenate([np.repeat(np.arange(len(counts)), counts) for counts in arities])
        self._owners = mx.nd.array(owners.astype(np.int32), ctx=context, dtype="int32")
        # Where rows begin that have one entry each, and in which columns that is.
        self._numbers = mx.nd.array(np.concatenate([np.arange(most + 1), owners]), ctx=context, dtype="int64")
        self._ones = mx.nd.ones(most, ctx=context)
        self._first = np.cumsum([0, *self._children]).tolist()
        self._columns = most + 1

    def of(self, step: int) -> list[Any]:
        """Returns the owner of each child in a step, and a matrix (children, nodes) of ones there."""
        children, nodes, first = self._children[step], self._nodes[step], self._first[step]
        types = [np.int64, np.int64]
        shapes = [(children + 1,), (children,)]
        matrix = CSRNDArray(
            _new_alloc_handle("csr", (children, nodes), self._context, False, np.float32, types, shapes)
        )
        _copy(matrix, slice_rows(self._ones, 0, children), -1)
        _copy(matrix, slice_rows(self._numbers, 0, children + 1), 0)
        _copy(matrix, slice_rows(self._numbers, self._columns + first, self._columns + first + children), 1)
        return [slice_rows(self._owners, first, first + children), matrix]


def _copy(matrix: CSRNDArray, part: NDArray, number: int) -> None:
    """Fills one of the arrays of a sparse matrix: -1 its entries, 0 where rows begin, 1 their columns."""
    check_call(_LIB.MXNDArraySyncCopyFromNDArray(matrix.handle, part.handle, ctypes.c_int(number)))


class FlushedValue(NamedTuple):
    """The place of a flushed value: rows of a chunk from `row` on; for backward its tape, arena and position."""

    chunk: NDArray
    row: int
    tape: Tape | None
    arena: int
    position: int


class Indices(indices.Indices):
    """Index arrays by step, and the owners of children with their matrices."""

    def add_children(self, plan: Plan, steps: list[int], listed: dict[str, list[Any]]) -> None:
        by_device: dict[str, list[int]] = {}
        for number in steps:
            by_device.setdefault(plan.steps[number].kind.operands[0].device, []).append(number)
        for device, wanted in by_device.items():
            with as_captured(0):
                segments = Segments([plan.steps[number].arities for number in wanted], context_of(device))
                self.besides.update((number, segments.of(position)) for position, number in enumerate(wanted))


class Session(session.Session):
    """A flush on MXNet.

    Operands are taken from an arena by one index array, and results are written into it: no row is copied
    twice. Under recording each step is recorded by itself; `Tape` goes backward through them.
    """

    runner, fused_steps, make_indices = NODES, FusedSteps, Indices
    borrows = False  # the program may write to its array later, which what has been captured must not show

    def tape_of(self, samples: int) -> Tape | None:
        """A new tape, where gradients may come here."""
        taped = is_recorded(LOCAL.state.mode) or any(self.plan.recorded) or _has_taped_inputs(self.plan)
        return Tape(self, samples) if taped else None

    def note_lookup(self, chunk: LookupChunk) -> bool:
        """Notes where gradients of a look-up go on to: what a pass looks up again."""
        table = chunk.table
        table.forget()
        if self.tape is not None and table.taped and table.weight.grad is not None:
            again = partial(_entries, chunk.table, chunk.indices, chunk.spec.device)
            self.tape.sources.append(RecordedInput(chunk.place, chunk.spec.with_rows(len(chunk.indices)), again=again))
        return False

    def look_up(self, chunk: LookupChunk) -> None:
        table = chunk.table
        with as_captured(0):
            try:
                rows = _entries(table, chunk.indices, chunk.spec.device)
            except mx.base.MXNetError as error:
                user = self.provenance.first_use(chunk.place.arena, chunk.place.begin)
                text = f"A look-up in a table of shape {table.weight.shape} failed, for the {user}: {reason_of(error)}."
                raise failures.both(FlushError, mx.base.MXNetError, text) from error
        self.put(chunk.place, rows)

    def note_leaf(self, place: Place, leaf: Leaf) -> None:
        """Notes where gradients of an array go on to: into an earlier flush, or to the array itself."""
        array, tape = leaf.payload, self.tape
        if tape is None:
            return
        if isinstance(array, Imported):
            if array.tape is not None:
                tape.sources.append(RecordedInput(place, leaf.spec, None, array.value))
                array.tape.later.add(tape)
        elif is_learned(array):
            tape.sources.append(RecordedInput(place, leaf.spec, array))

    def memory_of(self, leaves: Sequence[Leaf]) -> Sequence[tuple[Any, int]]:
        """Lists small arrays, where a step in C comes first: it waits for them."""
        if 0 not in self.fused.steps or sum([leaf.spec.bytes for leaf in leaves]) > _SMALL:
            return ()
        found = [(self.runner.address(_array_of(leaf)), leaf.spec.bytes) for leaf in leaves if leaf.spec.bytes]
        return () if any([address is None for address, _ in found]) else found

    def joined(self, chunk: LeafChunk) -> None:
        place, leaves = chunk.place, chunk.leaves
        room = None if self.plan.arenas[place.arena].sole else self.at(place)
        with as_captured(0):
            if len(leaves) == 1 and leaves[0].spec.mode == "rows":
                rows = _array_of(leaves[0])
                rows = rows if isinstance(leaves[0].payload, Imported) else mx.nd.identity(rows, out=room)
            else:
                spec = leaves[0].spec
                with shapes(bool(LOCAL.state.numpy & SHAPES) or not spec.shape):
                    rows = join(spec, [*map(_array_of, leaves)], room)
        self.put(place, rows, there=rows is room)

    def error_of(self, number: int, error: Exception, again: Any = None) -> Exception | None:
        with as_captured(self.plan.steps[number].mode & TRAINING):
            return super().error_of(number, error, partial(self._again, number))

    def written(self, arenas: Sequence[int]) -> None:
        """MXNet writes to these arenas."""
        self.fused.steps.forget(arenas)

    def _again(self, number: int) -> None:
        """Runs a step once more, and waits for it."""
        self.attempt(number)
        for place in self.plan.steps[number].places:
            self.at(place).wait_to_read()

    @contextmanager
    def as_captured(self, number: int) -> Iterator[None]:
        """A region with a step's modes."""
        step = self.plan.steps[number]
        with as_captured(step.mode), shapes(program_of(step.kind).numpy):
            yield

    def compute(self, number: int, operands: list[Any], tape: Tape | None) -> list[Any]:
        """Runs the program of a step, into the places of its results."""
        step = self.plan.steps[number]
        program = program_of(step.kind)
        results, consts = [self.at(place) for place in step.places], program.consts
        if tape is not None:
            consts = [tape.constant(array, adds) for array, adds in zip(consts, program.adds)]
            consts = tape.statistics.apart(number, consts)
        self.written([place.arena for place in step.places])
        if program.checks is None or program.checks.distrusted:
            compute_alone(step, operands, consts, results)
        else:
            program(operands, consts, step.count, results, self.indices.besides.get(number, ()))
        if program.may_fail or self.check.left(number, GRAPH):  # MXNet tells at the first wait
            for result in results:
                result.wait_to_read()
        if tape is not None:
            tape.note(number, results)
        return results

    def fill(self) -> None:
        """Puts inputs into their places: the tape decides which arenas get gradients."""
        super().fill()
        if self.tape is not None:
            self.tape.track(self.arrays)

    def operand(self, gather: Gather, index: Any, tape: Tape | None) -> NDArray:
        """Gathers rows, of a variable where they learn."""
        if tape is not None:
            return tape.gathered(gather, index)
        return taken(self.arrays[gather.place.arena], gather.place, index, False)

    def chunk(self, place: Place) -> NDArray:
        """Copies rows, so that their arena can go, if that does not stay and is not a single input."""
        array, arena = self.array(place.arena), self.plan.arenas[place.arena]
        if arena.sole or self.stays(place.arena):
            return array
        size, rows = row_bytes(arena.spec), place.end - place.begin
        if 0 < rows * size <= _SMALL and self.fused.steps.all and arena.spec.device.startswith("cpu"):
            copy = room_for(arena.spec, rows)  # MXNet's engine takes longer, and has nothing to do
            memmove(address_of(copy), address_of(array) + place.begin * size, rows * size)
            return copy
        with as_captured(0):
            return slice_rows(array, place.begin, place.end).copy()

    def results(self, chunk: NDArray, place: Place, rows: list[int]) -> list[FlushedValue]:
        arena, begin, tape = place.arena, place.begin, self.tape
        return [FlushedValue(chunk, row, tape, arena, begin + row) for row in rows]

    def finish(self) -> None:
        """Forgets what only the run needed."""
        self.chunks = {}
        super().finish()


def _entries(table: Any, indices: Sequence[int], device: str) -> NDArray:
    """Entries of a table, looked up by MXNet."""
    return table.entries(NODES.index(indices, device))


def _array_of(leaf: Leaf) -> NDArray:
    """The array of a leaf, or the numbers of a value of an earlier flush."""
    return classic(leaf.payload.array if isinstance(leaf.payload, Imported) else leaf.payload)


def _has_taped_inputs(plan: Plan) -> bool:
    """True if there are look-ups or arrays met under recording, or results of an earlier flush with history."""
    for chunk in plan.inputs:
        if isinstance(chunk, LookupChunk):
            if chunk.table.taped:
                return True
        elif any(leaf.taped for leaf in chunk.leaves):
            return True
    return False
