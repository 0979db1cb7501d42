"""Steps of a flush on a framework: each runs as a program of the framework's operators, or several at once in C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from ctypes import memmove
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np

from gluonjit.analysis.plan import Gather, LeafChunk, LookupChunk, Place, Plan, row_bytes
from gluonjit.errors import GluonJITError
from gluonjit.graph import Leaf
from gluonjit.graph.modes import is_recorded
from gluonjit.hybrid.check.entries import GRAPH, ROWS
from gluonjit.hybrid.check.runner import NodeRunner
from gluonjit.hybrid.check.steps import StepCheck
from gluonjit.hybrid.explain.counts import Counts
from gluonjit.hybrid.explain.finite import FiniteCheck
from gluonjit.hybrid.explain.provenance import Provenance
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.session import Session
from gluonjit.rows.fused_steps import FusedSteps
from gluonjit.rows.host_memory import view_at
from gluonjit.rows.steps import Steps

_NOW: AbstractContextManager[None] = nullcontext()
_MOST = 1 << 20  # bytes of a look-up that are copied by address
_SMALL = 1 << 14  # bytes of an arena that may stay as long as some of its rows


class Indices:
    """Arrays of numbers that steps need on their devices, which travel as one.

    gathers: by step the index of each gather, None if rows follow each other; besides: what else its program is given,
    which tells nodes of different lengths apart, or whose each child is.
    """

    dtype: Any = np.int64
    send: Callable[[Any, str], Any]
    """Sends numbers to a device; an engine says how, and how to cut them, in functions of the class."""
    cut: Callable[[Any, int, int], Any]

    def __init__(self) -> None:
        self.gathers: dict[int, list[Any]] = {}
        self.besides: dict[int, Sequence[Any]] = {}

    def upload(self, plan: Plan, steps: Sequence[int]) -> None:
        """Adds those of these steps."""
        listed = plan.indices(steps)
        for number in steps:
            step = plan.steps[number]
            self.gathers[number] = [None] * len(step.gathers)
            if step.kind.program.stages is not None:
                self.besides[number] = ([(part.record.kind.program, len(part.nodes)) for part in step.parts],)
        self.add_children(plan, [number for number in steps if plan.steps[number].arities is not None], listed)
        for device, wanted in listed.items():
            numbers = np.concatenate([index for _, _, index in wanted]).astype(self.dtype, copy=False)
            array, begin = self.send(numbers, device), 0
            for number, position, index in wanted:
                part = self.cut(array, begin, begin + len(index))
                begin += len(index)
                if position < 0:
                    self.besides[number] = (part,)
                else:
                    self.gathers[number][position] = part

    def add_children(self, plan: Plan, steps: list[int], listed: dict[str, list[Any]]) -> None:
        """Adds whose each child is in these steps, to what is to be sent, with -1 for a gather."""
        for number in steps:
            step = plan.steps[number]
            listed.setdefault(step.kind.operands[0].device, []).append((number, -1, step.owners))


class SteppedSession(Session):
    """A session that runs steps in C where it can. An engine says how these run, and how others do.

    Of inputs it says how they are joined (`joined`) or looked up (`look_up`); small ones are copied by address, which
    takes a framework longer. A value that can be read gets a `chunk`, the rows of its step's result.

    check: what compares steps with their traces; fused: the steps that run in C, or None; indices: those of others;
    borrows: whether an input that fills an arena alone is used as it is.
    """

    check: StepCheck
    fused: Any = None
    fused_steps: type[FusedSteps]
    make_indices: type[Indices]
    runner: NodeRunner
    borrows = True
    _unread: Sequence[LookupChunk] = ()

    def __init__(self, plan: Plan, report: Counts, options: Options, samples: int, provenance: Provenance) -> None:
        super().__init__(plan, report, options, provenance)
        if options.check_finite:
            self.finite = FiniteCheck(provenance, self.runner.numbers_of)
        self.make_room()
        self.chunks: dict[Place, Any] = {}
        self._last: dict[int, tuple[Place, Any]] = {}  # of each arena, the rows that were asked for last
        self.indices = self.make_indices()
        self.set_up(options, samples)

    def set_up(self, options: Options, samples: int) -> None:
        """Finds out how each step runs; a stretch in C ends where a step is to be compared."""
        self.tape = self.tape_of(samples)
        self.check = StepCheck(self, options.check, self.runner)
        fused = self.fused = self.fused_steps(self, options.without)
        fused.steps.stops = self.check.stops(fused.steps.begun)
        if self.tape is not None:
            self.tape.fused, self.tape.check = fused, self.check
        self.prepare(fused.steps.others)

    def tape_of(self, samples: int) -> Any:
        """Returns a new tape, if anything is recorded, or None."""
        raise NotImplementedError

    # --- inputs -------------------------------------------------------------------------------------------------

    def put_lookup(self, chunk: LookupChunk) -> None:
        """Looks entries up; gradients go on to a table that learns. Numbers that no step reads are put on request."""
        if chunk.table.weight is None:
            if chunk.place.arena in self._read:
                self.put_known(chunk)
            else:
                self._unread = [*self._unread, chunk]
        elif self.note_lookup(chunk) or not self._copies(chunk):
            self.look_up(chunk)

    @cached_property
    def _read(self) -> set[int]:
        """The arenas that steps read."""
        return {gather.place.arena for step in self.plan.steps for gather in step.gathers}

    def put_known(self, chunk: LookupChunk) -> None:
        """Puts numbers of the host into their place."""
        spec = chunk.spec
        numbers = np.array(chunk.indices).astype(spec.dtype).reshape(-1, *spec.row_shape)
        if not self.moved(chunk.place, [(numbers.ctypes.data, numbers.nbytes)]):
            self.put(chunk.place, self.make_indices.send(numbers, spec.device))

    def put_unread(self) -> None:
        """Puts numbers into their place that no step has read."""
        unread, self._unread = self._unread, ()
        for chunk in unread:
            self.put_known(chunk)

    def note_leaf(self, place: Place, leaf: Leaf) -> None:
        """Notes an array that was there before, whose rows lie there, for the tape."""
        raise NotImplementedError

    def memory_of(self, leaves: Sequence[Leaf]) -> Sequence[tuple[Any, int]]:
        """Lists the bytes of arrays, or the addresses, with their sizes; nothing where they have to be joined."""
        raise NotImplementedError

    def joined(self, chunk: LeafChunk) -> None:
        """Puts arrays together, by the framework."""
        raise NotImplementedError

    def note_lookup(self, chunk: LookupChunk) -> bool:
        """Notes that gradients go on to a table; returns True if entries are to be looked up with their history."""
        raise NotImplementedError

    def look_up(self, chunk: LookupChunk) -> None:
        """Puts entries of a table into their place, by the framework."""
        raise NotImplementedError

    def _copies(self, chunk: LookupChunk) -> bool:
        """Copies entries of a table in the host's memory; False elsewhere."""
        table, size = chunk.table, chunk.spec.bytes
        to, begin = self._address(chunk.place), self.runner.address(table.weight)
        if not size or to is None or begin is None or size * len(chunk.indices) > _MOST:
            return False
        numbers = np.array(chunk.indices)
        if numbers.min() < 0 or numbers.max() >= table.size:
            return False
        rows = view_at(begin, size * table.size, f"V{size}")
        rows.take(numbers, out=view_at(to, size * len(numbers), rows.dtype), mode="clip")  # else it is copied once more
        self.written([chunk.place.arena])
        return True

    def put_leaves(self, chunk: LeafChunk) -> None:
        """Puts arrays together that were there before the batch; gradients go on to those that learn."""
        memory = self.memory_of(chunk.leaves)
        if self.tape is not None or not memory:
            for leaf, place in self.parts(chunk):
                self.note_leaf(place, leaf)
        if not self.moved(chunk.place, memory):
            self.joined(chunk)

    def moved(self, place: Place, parts: Sequence[tuple[Any, int]]) -> bool:
        """Copies bytes, or so many at an address, one after the other into a place; False where they must be `put`."""
        to = self._address(place) if parts else None
        if to is None:
            return False
        for part, size in parts:
            memmove(to, part, size)
            to += size
        self.written([place.arena])
        return True

    def _address(self, place: Place) -> int | None:
        """The address of rows in the host's memory, if nothing is to be done but to copy them there."""
        arena = self.plan.arenas[place.arena]
        if self.finite is not None or (arena.sole and self.borrows):
            return None
        found = self.runner.address(self.array(place.arena))
        return None if found is None else found + place.begin * row_bytes(arena.spec)

    # --- steps --------------------------------------------------------------------------------------------------

    @property
    def rows_in_c(self) -> Steps | None:
        """The steps that run in C."""
        return None if self.fused is None else self.fused.steps

    def run_graph(self, number: int) -> None:
        """Gathers the operands of a step, runs its program, and puts its results into their places."""
        step = self.plan.steps[number]
        tape = self.tape if is_recorded(step.mode) else None
        begin = perf_counter()
        with self.as_captured(number):
            operands = [
                self.operand(gather, index, tape) for gather, index in zip(step.gathers, self.indices.gathers[number])
            ]
            middle = self.lap(number, "gather", begin)
            if self.finite is not None:
                self.finite.weights(number, step.kind.program.consts)
            results = self.compute(number, operands, tape)
            agrees = self.check.agrees(number, GRAPH)
        self.lap(number, "compute", middle)
        if not agrees:
            if tape is not None:
                tape.drop(number)
            self.run_graph(number)
        elif self.finite is not None:
            self.finite.results(number, results)

    def as_captured(self, number: int) -> AbstractContextManager[Any]:
        """Returns a region in which a step's framework is as when its calls were captured."""
        return _NOW

    def operand(self, gather: Gather, index: Any, tape: Any) -> Any:
        """Gathers rows, recorded if there is a tape."""
        raise NotImplementedError

    def compute(self, number: int, operands: list[Any], tape: Any) -> Sequence[Any]:
        """Runs the program of a step, recorded if there is a tape, and puts its results into their places."""
        raise NotImplementedError

    def prepare(self, steps: Sequence[int]) -> None:
        """Prepares for steps that do not run in C."""
        if steps:
            self.indices.upload(self.plan, steps)

    def wait(self) -> None:
        if self.profile:
            self.runner.wait()

    def stays(self, arena: int) -> bool:
        """True if an arena may stay for as long as some of its rows: a small one, without history."""
        return self.tape is None and row_bytes(self.plan.arenas[arena].spec) * self.plan.arenas[arena].rows <= _SMALL

    def kept_at(self, arena: int, position: int) -> Place:
        """Returns the place of the rows that stay if this one can be read."""
        whole = Place(arena, 0, self.plan.arenas[arena].rows)
        return whole if self.stays(arena) else self.place_of(arena, position)

    def result(self, arena: int, position: int) -> Any:
        """Finds a live value's rows: in an arena that may stay, or a copy of those of its step, so that it can go."""
        found = self._last.get(arena)
        if found is None or not found[0].begin <= position < found[0].end:
            place = self.kept_at(arena, position)
            chunk = self.chunks.get(place)
            if chunk is None:
                chunk = self.chunks[place] = self.chunk(place)
            found = self._last[arena] = place, chunk
        return self.value(found[1], found[0], position)

    def chunk(self, place: Place) -> Any:
        """Makes what values of these rows have in common."""
        raise NotImplementedError

    def value(self, chunk: Any, place: Place, position: int) -> Any:
        """Returns the `result` of a value whose rows begin there."""
        raise NotImplementedError

    def finish(self) -> None:
        """Forgets what only the run needed."""
        del self.indices
        self._last = {}
        if self.tape is None:
            if self.fused is not None:
                self.fused.steps.done()
        elif not self.check.owes(self.tape.entries):
            self.tape.check = None

    def error_of(self, number: int, error: Exception) -> Exception | None:
        """Returns the error of a step that failed; None where its nodes are to run one by one."""
        raise NotImplementedError

    def region(self) -> AbstractContextManager[Any]:
        """Returns a region in which steps run."""
        return _NOW

    def run(self, number: int) -> None:
        """Runs a step."""
        try:
            with self.region():
                self.attempt(number)
        except GluonJITError:
            raise
        except Exception as error:
            self._fail(number, error)
            self.run(number)

    def attempt(self, number: int) -> None:
        """Runs a step, in C or not."""
        if not self._run_rows(number, number + 1):
            self.run_graph(number)

    def run_from(self, number: int) -> int:
        """Runs a step, or all from it on that run in C, at once; returns the number of the next one."""
        steps, ran = self.rows_in_c, 0
        if steps is not None and not self.profile and self.finite is None and number in steps:
            try:
                with self.region():
                    ran = self._run_rows(number, steps.end(number))
            except GluonJITError:
                raise
            except Exception as error:
                self._fail(steps.under_way, error)
        return number + ran if ran else super().run_from(number)

    def _fail(self, number: int, error: Exception) -> None:
        """Raises for a step that failed, if its nodes do not run one by one."""
        said = self.error_of(number, error)
        if said is not None:
            raise said from error
        if self.rows_in_c is not None:
            self.prepare(self.rows_in_c.leave(number))

    def _run_rows(self, begin: int, end: int) -> int:
        """Runs steps in C, and returns how many have run so: up to one for which that cannot be."""
        steps = self.rows_in_c
        if steps is None or begin not in steps:
            return 0
        since = perf_counter()
        if self.finite is not None:
            self.finite.weights(begin, self.plan.steps[begin].kind.program.consts)
        ran, others = self.fused.run(begin, end), [begin]
        if ran is not None and not self.check.agrees(begin, ROWS):
            ran, others = None, steps.leave(begin)
        if ran is None:
            self.prepare(others)
            return 0
        if self.tape is not None:
            self.tape.note_fused(ran)
        self.laps(ran, since)
        if self.finite is not None:
            self.finite.results(begin, [self.at(place) for place in self.plan.steps[begin].places])
        return len(ran.steps)
