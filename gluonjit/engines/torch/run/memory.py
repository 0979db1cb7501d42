"""The tensors of one flush on PyTorch, and how its steps run on them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from itertools import groupby, repeat
from typing import Any, NamedTuple

import numpy as np
import torch

from gluonjit.analysis.plan import LeafChunk, LookupChunk, Place, Step
from gluonjit.engines.torch.framework.arrays import of_bytes
from gluonjit.engines.torch.framework.buffers import as_captured
from gluonjit.engines.torch.framework.input_version import InputVersion, version_of
from gluonjit.engines.torch.framework.originals import LEARNING
from gluonjit.engines.torch.run.chunks import Chunk, ChunkRows, given_out
from gluonjit.engines.torch.run.fused_steps import FusedSteps
from gluonjit.engines.torch.run.gradients import Tape
from gluonjit.engines.torch.run.history import joined_history
from gluonjit.engines.torch.run.one_by_one import NODES, run_step
from gluonjit.engines.torch.run.program import as_rows, join, pieces
from gluonjit.errors import CaptureError
from gluonjit.graph import Leaf
from gluonjit.hybrid.run import failures, session

_ROWS: Callable[[Any], ChunkRows] = partial(tuple.__new__, ChunkRows)  # without a function of Python


class AsItWas(torch.autograd.Function):  # type: ignore[misc]
    """Rows of a tensor as they were before it was written to, with the history that they had."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, index: Any, rows: Any) -> Any:
        """These rows, that lay at these places."""
        ctx.shape, ctx.index = tensor.shape, index
        return rows

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        """Puts their gradient into one of the tensor."""
        return gradient.new_zeros(ctx.shape).index_add_(0, ctx.index, gradient), None, None


class VersionedInput(NamedTuple):
    """A tensor that was there before, how often it had been written to, and where its rows lie."""

    place: Place
    tensor: Any
    version: int


class Session(session.Session):
    """A flush on PyTorch.

    Operands are taken from an arena by one index tensor, and results are written into it. Under recording each step is
    recorded by itself; `Tape` goes backward through them, as one function of PyTorch's autograd.
    """

    runner, fused_steps = NODES, FusedSteps
    statistics: Any = None  # `statistics.RunningStatistics`, to be written when the steps have run
    snapshots: Sequence[InputVersion] = ()  # buffers that were written to before this
    lost: Sequence[tuple[Place, CaptureError]] = ()  # rows of tensors that were written to before this
    tape: Tape | None

    @cached_property
    def _inputs(self) -> dict[Place, list[VersionedInput]]:
        """Those that learn, by the places of their rows."""
        return {}

    def tape_of(self, samples: int) -> Tape | None:
        """A new tape, if anything is recorded."""
        return Tape(self, samples) if any(self.plan.recorded) else None

    def note_lookup(self, chunk: LookupChunk) -> bool:
        return bool(chunk.table.taped)

    def look_up(self, chunk: LookupChunk) -> None:
        """Looks entries up; where the table is learned, gradients go on to it."""
        table, place = chunk.table, chunk.place
        index = NODES.index(chunk.indices, chunk.spec.device)
        if not table.taped:
            if self.finite is None and not self.plan.arenas[place.arena].sole and table.fits:
                torch.index_select(table.weight, 0, index, out=self.at(place))
            else:
                self.put(place, table.entries(index))
            return
        with LEARNING:
            rows = table.entries(index)
        address = NODES.address(rows)  # to a copy by PyTorch there are three calls
        if address is None or not self.moved(place, [(address, rows.numel() * rows.element_size())]):
            self.put(place, rows)
        if rows.requires_grad:
            self._note_inputs(place, [rows])

    def note_leaf(self, place: Place, leaf: Leaf) -> None:
        if leaf.payload.stale:
            self._written_to(place, leaf)
        if self.tape is not None:
            self.tape.note_read(place, leaf.payload)

    def memory_of(self, leaves: Sequence[Leaf]) -> Sequence[tuple[Any, int]]:
        """Lists the numbers of small tensors, which were read."""
        raws = [leaf.payload.raw for leaf in leaves]
        if None in raws or any([leaf.taped for leaf in leaves]):
            return ()
        raw = b"".join(raws)
        return [(raw, len(raw))]

    def joined(self, chunk: LeafChunk) -> None:
        """Gradients go on to tensors that learn."""
        leaves, spec = chunk.leaves, chunk.leaves[0].spec
        for raw, _ in self.memory_of(leaves):
            return self.put(chunk.place, of_bytes(raw, spec))
        tensors = [leaf.payload.rows for leaf in leaves]
        own = len(tensors) > 1 or leaves[0].payload.tensor is not tensors[0]
        self.put(chunk.place, join(spec, tensors), own or spec.mode == "stack")
        if any([leaf.taped for leaf in leaves]):
            with LEARNING:  # one that was captured before it learned has no gradient
                tensors = [leaf.payload.tensor if leaf.taped else rows.detach() for rows, leaf in zip(tensors, leaves)]
                self._note_inputs(chunk.place, [as_rows(tensor, spec) for tensor in tensors])

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

    def launch(self, step: Step, operands: Sequence[Any], besides: Sequence[Any]) -> list[Any]:
        return run_step(step, pieces(step.kind.groups, operands), step.kind.program.consts, besides)

    def chunk(self, place: Place) -> Chunk:
        found = Chunk(self._rows_at(place), self.plan, place)
        if self.tape is not None:
            self._note_nodes(found, place)
        return found

    def results(self, chunk: Chunk, place: Place, rows: list[int]) -> Iterable[ChunkRows]:
        chunk.readers.values += len(rows)
        return map(_ROWS, zip(repeat(chunk), rows))

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
        self.put_unread()
        parts, begin = [], 0
        while begin < len(positions):
            place = self.place_of(arena, positions[begin])
            end = begin + 1
            while end < len(positions) and place.begin <= positions[end] < place.end:
                end += 1
            parts.append(self._rows_of(place, positions[begin:end]))
            begin = end
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def left(self, arena: int, positions: Sequence[int]) -> tuple[Chunk, list[int]] | None:
        """Finds rows of an arena in what has stayed of them for values that can be read; None if not all have."""
        place = self.kept_at(arena, positions[0])
        chunk = None if self.lost else self.chunks.get(place)
        if chunk is None or not all([place.begin <= position < place.end for position in positions]):
            return None
        if self._inputs and any([self.place_of(arena, position) in self._inputs for position in positions]):
            return None  # which has a history, also where the arena has stayed for others in it
        return chunk, [position - place.begin for position in positions]

    def _rows_of(self, place: Place, positions: Sequence[int]) -> Any:
        learned = self._inputs.get(place)
        chunk = self.chunks.get(place)
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
            tensor = given_out(tensor)
            if version_of(tensor) == version:
                parts.append(tensor[index])
            else:
                parts.append(AsItWas.apply(tensor, index, self.at(place)[index + (begin - place.begin)]))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def finish(self) -> None:
        """Gives readable values their history, and forgets what only the run needed."""
        if self.tape is not None:
            joined_history(self.tape, self.chunks)
        super().finish()
        if self.statistics is not None:
            self.statistics.write()
