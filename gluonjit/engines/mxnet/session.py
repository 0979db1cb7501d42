"""The arrays of one flush: an arena for each shape of rows, and steps that read its rows and write the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import memmove
from functools import partial
from typing import Any, NamedTuple

import mxnet as mx
import numpy as np
from mxnet.ndarray import NDArray

from gluonjit.analysis.plan import Arena, Gather, LeafChunk, LookupChunk, Place, Plan, row_bytes
from gluonjit.engines.mxnet.arrays import address_of, context_of, host_view, room_for, sent
from gluonjit.engines.mxnet.fused_steps import FusedSteps
from gluonjit.engines.mxnet.inference import reason_of
from gluonjit.engines.mxnet.one_by_one import NODES, compute_alone
from gluonjit.engines.mxnet.originals import slice_rows
from gluonjit.engines.mxnet.program import join, program_of
from gluonjit.engines.mxnet.results import Imported, RecordedInput, is_learned
from gluonjit.engines.mxnet.segments import Segments
from gluonjit.engines.mxnet.semantics import SHAPES, as_captured, classic, learned_rows, shapes
from gluonjit.engines.mxnet.tape import Tape
from gluonjit.errors import FlushError
from gluonjit.graph import Leaf, Spec
from gluonjit.graph.modes import TRAINING, is_recorded
from gluonjit.hybrid.check.entries import GRAPH
from gluonjit.hybrid.run import failures, stepping
from gluonjit.hybrid.run.state import LOCAL
from gluonjit.hybrid.run.stepping import SteppedSession

_FEW = 16  # entries of a table
_SMALL = 1 << 16  # bytes


class FlushedValue(NamedTuple):
    """The place of a flushed value: rows of a chunk from `row` on; for backward its tape, arena and position."""

    chunk: NDArray
    row: int
    tape: Tape | None
    arena: int
    position: int


class Session(SteppedSession):
    """A flush on MXNet.

    Operands are taken from an arena by one index array, and results are written into it: no row is copied
    twice. Under recording each step is recorded by itself; `Tape` goes backward through them.
    """

    runner, fused_steps = NODES, FusedSteps
    slice_rows = staticmethod(slice_rows)

    def begin(self) -> None:
        """Makes room for copies."""
        self._copies: dict[Place, NDArray] = {}
        self.indices = Indices()

    def tape_of(self, samples: int) -> Tape | None:
        """A new tape, where gradients may come here."""
        taped = is_recorded(LOCAL.state.mode) or any(self.plan.recorded) or _has_taped_inputs(self.plan)
        return Tape(self, samples) if taped else None

    def numbers(self, array: NDArray) -> Any:
        return array.asnumpy()

    def put_lookup(self, chunk: LookupChunk) -> None:
        """Looks the entries up; under recording the table is learned."""
        table = chunk.table
        if table.weight is not None:
            table.forget()
        learned = self.tape is not None and table.taped and table.weight.grad is not None
        context = context_of(chunk.spec.device)
        again = partial(_entries, table, chunk.indices, context)
        if learned and self.tape is not None:  # gradients go on to what a pass looks up again
            self.tape.sources.append(RecordedInput(chunk.place, chunk.spec.with_rows(len(chunk.indices)), again=again))
        if self._copied(chunk):
            return
        with as_captured(0):
            if table.weight is None:
                numbers = np.array(chunk.indices).reshape(-1, *chunk.spec.row_shape)
                self._put(chunk.place, mx.nd.array(numbers, ctx=context, dtype=chunk.spec.dtype))
                return
            try:
                rows = again()
            except mx.base.MXNetError as error:
                user = self.provenance.first_use(chunk.place.arena, chunk.place.begin)
                text = f"A look-up in a table of shape {table.weight.shape} failed, for the {user}: {reason_of(error)}."
                raise failures.both(FlushError, mx.base.MXNetError, text) from error
        self._put(chunk.place, rows)

    def _copied(self, chunk: LookupChunk) -> bool:
        """Copies entries of a table in the host's memory, where MXNet's engine takes longer; False elsewhere."""
        table = chunk.table
        if len(chunk.indices) <= _FEW and self._copied_few(chunk):
            return True
        numbers = np.array(chunk.indices)
        room = self.at(chunk.place)
        into = host_view(room)
        if into is None:
            return False
        if table.weight is None:
            into[...] = numbers.reshape(into.shape)
        else:
            weight = host_view(classic(table.weight))
            if weight is None or weight.dtype != into.dtype or numbers.min() < 0 or numbers.max() >= len(weight):
                return False
            weight.take(numbers, axis=0, out=into, mode="clip")  # in another mode it would be copied once more
        self._put(chunk.place, room, room)
        return True

    def _copied_few(self, chunk: LookupChunk) -> bool:
        """The same of few entries, row by row."""
        place, weight, size = chunk.place, chunk.table.weight, chunk.spec.bytes
        array = self.arrays[place.arena]
        if weight is None or array is None or self.finite is not None or not size or not _is_plain(chunk.spec):
            return False
        weight = classic(weight)
        if weight.stype != "default" or min(chunk.indices) < 0 or max(chunk.indices) >= chunk.table.size:
            return False
        to, begin = address_of(array) + place.begin * size, address_of(weight)
        for number in chunk.indices:
            memmove(to, begin + number * size, size)
            to += size
        self.written([place.arena])
        return True

    def put_leaves(self, chunk: LeafChunk) -> None:
        """Concatenates arrays that were there before the batch; gradients go on from them."""
        if self.tape is not None:
            for leaf, place in self.parts(chunk):
                array = leaf.payload
                if isinstance(array, Imported):
                    if array.tape is not None:
                        self.tape.sources.append(RecordedInput(place, leaf.spec, None, array.value))
                        array.tape.later.add(self.tape)
                elif is_learned(array):
                    self.tape.sources.append(RecordedInput(place, leaf.spec, array))
                else:
                    self.tape.read[id(array)] = array, place
        if not self._copied_leaves(chunk):
            room = None if self.plan.arenas[chunk.place.arena].sole else self.at(chunk.place)
            with as_captured(0):
                rows = _joined(chunk.leaves, room)
            self._put(chunk.place, rows, room)

    def _copied_leaves(self, chunk: LeafChunk) -> bool:
        """Copies small arrays of the host's for steps in C, which wait for them; False elsewhere."""
        place, spec = chunk.place, chunk.leaves[0].spec
        if self.finite is not None or not _is_plain(spec) or 0 not in self.fused.steps:
            return False
        if not 0 < (place.end - place.begin) * row_bytes(spec) <= _SMALL:
            return False
        arrays = [leaf.payload.array if isinstance(leaf.payload, Imported) else leaf.payload for leaf in chunk.leaves]
        if any([array.stype != "default" for array in arrays]):
            return False
        to = address_of(self.array(place.arena)) + place.begin * row_bytes(spec)
        for leaf, array in zip(chunk.leaves, arrays):
            if leaf.spec.bytes:
                memmove(to, address_of(array), leaf.spec.bytes)
                to += leaf.spec.bytes
        return True

    def _put(self, place: Place, rows: NDArray, room: NDArray | None = None) -> None:
        """Puts rows of an input into their place, if they have not been computed in its `room`."""
        self.written([place.arena])
        if room is None or rows is not room:
            self.put(place, rows)
        elif self.finite is not None:
            self.finite.inputs(place.arena, place.begin, rows)

    def room(self, arena: Arena) -> NDArray:
        """Makes an array for the rows of an arena."""
        return room_for(arena.spec, arena.rows)

    def copy(self, rows: NDArray, to: NDArray) -> None:
        """Copies rows into others."""
        with as_captured(0):
            rows.copyto(to)

    def error_of(self, number: int, error: Exception) -> Exception | None:
        """The error of a step that failed."""
        with as_captured(self.plan.steps[number].mode & TRAINING):
            advice = "hybridize(dynamic_batch=False) runs the same code eagerly."
            return failures.failed(self.check, number, error, reason_of, advice, partial(self._again, number))

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
        if program.checks is not None and program.checks.distrusted:
            compute_alone(step, operands, consts, results)
        else:
            sizes = tuple([gather.rows for gather in step.gathers])
            program(operands, consts, step.count, results, self.indices.besides.get(number, ()), sizes)
        if program.may_fail or self.check.left(number, GRAPH):  # MXNet tells at the first wait
            for result in results:
                result.wait_to_read()
        if tape is not None:
            tape.note(number, results)
        return results

    def ready(self) -> None:
        """Ends the inputs: the tape decides which arenas get gradients."""
        if self.tape is not None:
            self.tape.track(self.arrays)
        super().ready()

    def operand(self, gather: Gather, index: Any, tape: Tape | None) -> NDArray:
        """Gathers rows, of a variable where they learn."""
        place = gather.place
        learned = tape is not None and tape.gathers(gather)
        source = tape.variable(place.arena) if tape is not None and learned else self.arrays[place.arena]
        if index is not None:
            return mx.nd.take(source, index)
        return (learned_rows if learned else slice_rows)(source, place.begin, place.end)

    def result(self, arena: int, position: int) -> FlushedValue:
        """A live value's rows: in a small arena, or copied with those of their step, so that the arena can go.

        Of what is recorded, such as a loss that is kept, it always can.
        """
        if self.stays(arena) and self.arrays[arena] is not None:
            return FlushedValue(self.arrays[arena], position, None, arena, position)
        place = self.place_of(arena, position)
        chunk = self._copies.get(place)
        if chunk is None:
            chunk = self._copies[place] = self._copy_of(place)
        return FlushedValue(chunk, position - place.begin, self.tape, arena, position)

    def _copy_of(self, place: Place) -> NDArray:
        """A copy of these rows, or the arena itself where a single input is all of it."""
        array, arena = self.arrays[place.arena], self.plan.arenas[place.arena]
        if arena.sole:
            return array
        size, rows = row_bytes(arena.spec), place.end - place.begin
        if 0 < rows * size <= _SMALL and _is_plain(arena.spec) and self.fused.steps.all:
            copy = room_for(arena.spec, rows)  # MXNet's engine takes longer, and has nothing to do
            memmove(address_of(copy), address_of(array) + place.begin * size, rows * size)
            return copy
        with as_captured(0):
            return slice_rows(array, place.begin, place.end).copy()

    def rows(self, arena: int, positions: Sequence[int]) -> NDArray:
        """Rows of an arena, for values that are references to them."""
        array = self.arrays[arena]
        first, last = positions[0], positions[-1] + 1
        if list(positions) == list(range(first, last)):
            return slice_rows(array, first, last)
        return mx.nd.take(array, mx.nd.array(np.array(positions), ctx=array.context, dtype="int32"))

    def wait(self) -> None:
        """Waits for the engine where the parts are timed."""
        if self.profile:
            mx.nd.waitall()

    def finish(self) -> None:
        """Forgets what only the run needed."""
        self._copies = {}
        super().finish()


def _entries(table: Any, indices: Sequence[int], context: Any) -> NDArray:
    """Entries of a table, looked up by MXNet."""
    with as_captured(0):
        index = sent(np.array(indices, dtype=np.int32), context)
    return table.entries(index)


def _is_plain(spec: Spec) -> bool:
    """True if rows that look so are of float32, in the host's memory."""
    return spec.dtype == "float32" and spec.device.startswith("cpu")


def _has_taped_inputs(plan: Plan) -> bool:
    """True if there are look-ups or arrays met under recording, or results of an earlier flush with history."""
    for chunk in plan.inputs:
        if isinstance(chunk, LookupChunk):
            if chunk.table.taped:
                return True
        elif any(leaf.taped for leaf in chunk.leaves):
            return True
    return False


def _joined(leaves: Sequence[Leaf], out: NDArray | None) -> NDArray:
    arrays = [leaf.payload.array if isinstance(leaf.payload, Imported) else leaf.payload for leaf in leaves]
    arrays = [classic(array) for array in arrays]
    if len(leaves) == 1 and leaves[0].spec.mode == "rows":
        # The program may write to its own array later, which what has been captured must not show.
        return arrays[0] if isinstance(leaves[0].payload, Imported) else mx.nd.identity(arrays[0], out=out)
    spec = leaves[0].spec
    with shapes(bool(LOCAL.state.numpy & SHAPES) or not spec.shape):
        return join(spec, arrays, out)


class Indices(stepping.Indices):
    """Index arrays by step, of numbers of 32 bits, and the owners of children with their matrices."""

    def sent(self, device: str, parts: list[Any]) -> Sequence[Any]:
        with as_captured(0):
            array, begin, found = sent(np.concatenate(parts).astype(np.int32), context_of(device)), 0, []
            for part in parts:
                found.append(slice_rows(array, begin, begin + len(part)))
                begin += len(part)
            return found

    def add_children(self, plan: Plan, steps: list[int], listed: dict[str, list[Any]]) -> None:
        by_device: dict[str, list[int]] = {}
        for number in steps:
            by_device.setdefault(plan.steps[number].kind.operands[0].device, []).append(number)
        for device, wanted in by_device.items():
            with as_captured(0):
                segments = Segments([plan.steps[number].arities for number in wanted], context_of(device))
                self.besides.update((number, segments.of(position)) for position, number in enumerate(wanted))
