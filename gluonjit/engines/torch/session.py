"""The tensors of one flush: an arena for each shape of rows, and steps that read its rows and write the next."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from ctypes import memmove
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch

from gluonjit.analysis.plan import Arena, Gather, LeafChunk, LookupChunk, Place, row_bytes
from gluonjit.engines.torch.arrays import device_named, dtype_named, host_numbers, of_bytes, room_for, sent
from gluonjit.engines.torch.buffers import as_captured
from gluonjit.engines.torch.chunks import Chunk, ChunkRows
from gluonjit.engines.torch.failures import NEXT
from gluonjit.engines.torch.fused_steps import FusedSteps
from gluonjit.engines.torch.history import joined_history
from gluonjit.engines.torch.indices import Indices
from gluonjit.engines.torch.input_version import InputVersion, version_of
from gluonjit.engines.torch.inputs import AsItWas
from gluonjit.engines.torch.one_by_one import NODES, run_step
from gluonjit.engines.torch.originals import LEARNING
from gluonjit.engines.torch.program import as_rows, join, pieces, program_of
from gluonjit.engines.torch.tape import Tape
from gluonjit.errors import CaptureError
from gluonjit.graph import Leaf, Spec
from gluonjit.hybrid.run import failures
from gluonjit.hybrid.run.stepping import SteppedSession

_FEW = 16  # entries of a table


class VersionedInput(NamedTuple):
    """A tensor that was there before, how often it had been written to, and where its rows lie."""

    place: Place
    tensor: Any
    version: int


class Session(SteppedSession):
    """A flush on PyTorch.

    Operands are taken from an arena by one index tensor, and results are written into it. Under recording each step is
    recorded by itself; `Tape` goes backward through them, as one function of PyTorch's autograd.
    """

    runner, fused_steps = NODES, FusedSteps
    numbers = staticmethod(host_numbers)
    statistics: Any = None  # `statistics.Statistics`, to be written when the steps have run
    snapshots: Sequence[InputVersion] = ()  # buffers that were written to before this
    lost: Sequence[tuple[Place, CaptureError]] = ()  # rows of tensors that were written to before this
    tape: Tape | None
    _chunk: Chunk | None = None  # the last that was asked for
    _read: set[int] | None = None  # arenas that steps read
    _unread: list[LookupChunk] | None = None

    def begin(self) -> None:
        """Makes room for inputs and chunks."""
        self._inputs: dict[Place, list[VersionedInput]] = {}
        self._chunks: dict[Place, Chunk] = {}
        self._arenas: dict[int, Chunk] = {}  # the small ones, as chunks
        self.indices = Indices()

    def tape_of(self, samples: int) -> Tape | None:
        """A new tape, if anything is recorded."""
        return Tape(self, samples) if any(self.plan.recorded) else None

    def put_lookup(self, chunk: LookupChunk) -> None:
        """Looks the entries up; where the table is learned, gradients go on to it."""
        table = chunk.table
        if table.weight is None:
            if self._wanted(chunk):
                self.put(chunk.place, self._lookup_index(chunk).to(dtype_named(chunk.spec.dtype)))
            return
        if not table.taped and len(chunk.indices) <= _FEW and self._copied(chunk):
            return
        index = self._lookup_index(chunk)
        if not table.taped:
            if self._has_room(chunk.place) and table.fits:
                torch.index_select(table.weight, 0, index, out=self.at(chunk.place))
            else:
                self.put(chunk.place, table.entries(index))
            return
        with LEARNING:
            rows = table.entries(index)
        if not self._moved(chunk.place, rows):
            self.put(chunk.place, rows)
        if rows.requires_grad:
            self._note_inputs(chunk.place, [rows])

    def _moved(self, place: Place, rows: Any) -> bool:
        """Copies a few rows of numbers as they are in the host's memory, for which PyTorch makes three calls."""
        spec, count = self.plan.arenas[place.arena].spec, place.end - place.begin
        if spec.dtype != "float32" or spec.device != "cpu" or count > _FEW or not self._has_room(place):
            return False
        if not rows.is_contiguous() or rows.shape[0] != count:
            return False
        size = row_bytes(spec)
        memmove(self.arrays[place.arena].data_ptr() + place.begin * size, rows.data_ptr(), count * size)
        return True

    def _copied(self, chunk: LookupChunk) -> bool:
        """Copies entries of a table in the host's memory, where a call of PyTorch takes longer; False elsewhere.

        Capture has seen to it that there are such entries.
        """
        table, place = chunk.table, chunk.place
        weight = table.weight
        if chunk.spec.device != "cpu" or not self._has_room(place) or not table.fits or weight.is_conj():
            return False
        size, begin = weight.shape[1] * weight.element_size(), weight.data_ptr()
        if not begin or max(chunk.indices) >= weight.shape[0]:
            return False
        to = self.arrays[place.arena].data_ptr() + place.begin * size
        for number in chunk.indices:
            memmove(to, begin + number * size, size)
            to += size
        return True

    def _wanted(self, chunk: LookupChunk) -> bool:
        """True if a step reads numbers of the program; else they are put in place on request.

        Of most programs they are indices, which are known.
        """
        if self._read is None:
            self._read = {gather.place.arena for step in self.plan.steps for gather in step.gathers}
        arena = chunk.place.arena
        if arena in self._read:
            return True
        if self._unread is None:
            self._unread = []
        self._unread.append(chunk)
        return False

    def _lookup_index(self, chunk: LookupChunk) -> Any:
        return sent(np.array(chunk.indices, dtype=np.int64), device_named(chunk.spec.device))

    def put_leaves(self, chunk: LeafChunk) -> None:
        """Puts tensors together that were there before the batch; gradients go on to those that learn."""
        spec = chunk.leaves[0].spec
        raws = [leaf.payload.raw for leaf in chunk.leaves]
        tensors = [leaf.payload.rows for leaf in chunk.leaves] if None in raws else []
        if tensors or self.tape is not None:
            for leaf, place in self.parts(chunk):
                if leaf.payload.stale:
                    self._written_to(place, leaf)
                if self.tape is not None:
                    self.tape.note_read(place, leaf.payload)
        if tensors:
            rows = join(spec, tensors)
            own = len(tensors) > 1 or chunk.leaves[0].payload.tensor is not tensors[0]
            self.put(chunk.place, rows, own or spec.mode == "stack")
        else:
            self.put_numbers(chunk.place, b"".join(raws), spec)
        if any([leaf.taped for leaf in chunk.leaves]):
            with LEARNING:  # one that was captured before it learned has no gradient
                tensors = [
                    leaf.payload.tensor if leaf.taped else rows.detach() for rows, leaf in zip(tensors, chunk.leaves)
                ]
                self._note_inputs(chunk.place, [as_rows(tensor, spec) for tensor in tensors])

    def put_numbers(self, place: Place, raw: bytes, spec: Spec) -> None:
        """Puts rows of an input, as bytes in the host's memory, into their place."""
        if not self._has_room(place):
            self.put(place, of_bytes(raw, spec))
            return
        array = self.arrays[place.arena]  # to a copy by PyTorch there are five calls
        memmove(array.data_ptr() + place.begin * len(raw) // (place.end - place.begin), raw, len(raw))

    def _has_room(self, place: Place) -> bool:
        """True if rows of an input can be computed in their place, which `put` has nothing to add to."""
        return self.finite is None and not self.plan.arenas[place.arena].sole

    def _written_to(self, place: Place, leaf: Leaf) -> None:
        """Refuses reads of rows whose tensor has been written to."""
        text = (
            f"a tensor of shape {tuple(leaf.payload.tensor.shape)} was written to after captured calls had read "
            "it and before they ran. Write to a copy (tensor.clone()), or first read a result of these calls, "
            "which runs them."
        )
        error = failures.both(CaptureError, RuntimeError, text)  # the class of PyTorch's own errors of writes in place
        if self.plan.reads(place.arena, np.arange(place.begin, place.end)):
            raise error
        self.lost = [*self.lost, (place, error)]

    def as_arena(self, rows: Any, own: bool) -> Any:
        """Detaches rows, and copies them unless `own`: later writes of the program to its own tensor must not show."""
        return rows.detach() if own else rows.detach().clone()

    def room(self, arena: Arena) -> Any:
        """Makes a tensor for the rows of an arena."""
        return room_for(arena.spec, arena.rows)

    def copy(self, rows: Any, to: Any) -> None:
        """Copies rows into others, without their history."""
        to.copy_(rows.detach())

    def _note_inputs(self, place: Place, tensors: Sequence[Any]) -> None:
        """Notes the tensors of these rows, each separately: unused ones may be gone later."""
        begin, found = place.begin, self._inputs.setdefault(place, [])
        for tensor in tensors:
            end = begin + tensor.shape[0]
            found.append(VersionedInput(Place(place.arena, begin, end), tensor, version_of(tensor)))
            begin = end
            if self.tape is not None and tensor.requires_grad:
                self.tape.note_input(found[-1].place, tensor)

    def region(self) -> Any:
        """A region in which buffers are what they were when calls were captured."""
        return as_captured(self.snapshots) if self.snapshots else super().region()

    def error_of(self, number: int, error: Exception) -> Exception | None:
        """The error of a step that failed, of which nothing is recorded."""
        if self.tape is not None:
            self.tape.drop(number)
        return failures.failed(self.check, number, error, str, NEXT)

    def compute(self, number: int, operands: list[Any], tape: Tape | None) -> list[Any]:
        """Runs the program of a step, and puts its results into their places."""
        step, besides = self.plan.steps[number], self.indices.besides.get(number, ())
        if tape is not None:
            results = tape.run(number, operands, self.indices.gathers[number], besides)
        else:
            results = run_step(step, pieces(step.kind.groups, operands), program_of(step.kind).consts, besides)
        for place, result in zip(step.places, results):
            self.write_result(place, result)
        return results

    def operand(self, gather: Gather, index: Any, tape: Tape | None = None) -> Any:
        """Gathers rows; the tape records what is computed from them."""
        array = self.arrays[gather.place.arena]
        if index is None:
            return array[gather.place.begin : gather.place.end]
        return array.index_select(0, index)

    def result(self, arena: int, position: int) -> ChunkRows:
        """Finds a live value's rows: in an arena that may stay, or a copy of those of its step, so that it can go."""
        small = self._arenas.get(arena)
        if small is not None:
            return ChunkRows(small, position)
        if self.stays(arena):
            place = Place(arena, 0, self.plan.arenas[arena].rows)
            small = self._arenas[arena] = Chunk(self.arrays[arena], self.plan, place)
            return ChunkRows(small, position)
        chunk = self._chunk
        if chunk is None or chunk.place.arena != arena or not chunk.place.begin <= position < chunk.place.end:
            chunk = self._chunk = self._chunk_at(self.place_of(arena, position))
        chunk.readers.values += 1
        return ChunkRows(chunk, position - chunk.place.begin)

    def _chunk_at(self, place: Place) -> Chunk:
        """The rows of a step's result."""
        chunk = self._chunks.get(place)
        if chunk is None:
            chunk = self._chunks[place] = Chunk(self._rows_at(place), self.plan, place)
            if self.tape is not None:
                self._note_nodes(chunk, place)
        return chunk

    def _rows_at(self, place: Place) -> Any:
        """The rows of a place, but not the arena itself: what can be read gets a history, which would hold that."""
        if self.plan.arenas[place.arena].sole:
            return self.arrays[place.arena].detach()
        rows = self.at(place)
        return rows if self.stays(place.arena) else rows.clone()

    def _note_nodes(self, chunk: Chunk, place: Place) -> None:
        """Tells a chunk that may get a history of the nodes that it is from."""
        common, steps = self.plan.common, self.plan.steps
        if common.makers is None:
            common.makers = {place: number for number, step in enumerate(steps) for place in step.places}
        step = steps[common.makers[place]]
        output = step.places.index(place)
        records = [self.plan.called[number] for number in step.numbers]
        sizes = {record.kind.outputs[output].spec.rows for record in records}
        chunk.size = sizes.pop() if len(sizes) == 1 else 0
        chunk.readers.shared = any([record.calls > len(record) for record in records])

    def rows(self, arena: int, positions: Sequence[int]) -> Any:
        """Rows of an arena with their history, for values that are references to them."""
        for place, error in self.lost:
            if place.arena == arena and any(place.begin <= position < place.end for position in positions):
                raise error
        if self._unread:
            self._put_unread()
        parts, begin = [], 0
        while begin < len(positions):
            place = self.place_of(arena, positions[begin])
            end = begin + 1
            while end < len(positions) and place.begin <= positions[end] < place.end:
                end += 1
            parts.append(self._rows_of(place, positions[begin:end]))
            begin = end
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _put_unread(self) -> None:
        """Puts numbers into their place that no step has read."""
        unread, self._unread = self._unread, None
        for chunk in unread or ():
            self.put(chunk.place, self._lookup_index(chunk).to(dtype_named(chunk.spec.dtype)))

    def _rows_of(self, place: Place, positions: Sequence[int]) -> Any:
        learned = self._inputs.get(place)
        chunk = self._chunks.get(place)
        if learned is None and chunk is not None:
            return chunk.rows([position - place.begin for position in positions])
        if learned is None:
            rows = self.at(place)
            return rows[torch.tensor([position - place.begin for position in positions], device=rows.device)]
        parts = []
        ends = [item.place.end for item in learned]
        for number, group in groupby(positions, lambda position: bisect_right(ends, position)):
            (_, begin, _), tensor, version = learned[number]
            index = torch.tensor([position - begin for position in group], device=tensor.device)
            if version_of(tensor) == version:
                parts.append(tensor[index])
            else:
                parts.append(AsItWas.apply(tensor, index, self.at(place)[index + (begin - place.begin)]))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def wait(self) -> None:
        """Waits for the device where the parts are timed."""
        if self.profile and torch.cuda.is_available():
            torch.cuda.synchronize()

    def finish(self) -> None:
        """Gives readable values their history, and forgets what only the run needed."""
        if self.tape is not None:
            joined_history(self.tape, self._chunks)
        super().finish()
        if self.statistics is not None:
            self.statistics.write()
