"""The arrays of one flush, the places of its values in them, and how its steps run.

Each step runs as a program of the framework's operators, or several at once in C.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from ctypes import memmove
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np

from gluonjit.analysis.plan import Gather, LeafChunk, LookupChunk, Place, Plan, Step, row_bytes
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
from gluonjit.hybrid.run.failures import failed
from gluonjit.hybrid.run.indices import Indices
from gluonjit.rows.fused_steps import FusedSteps
from gluonjit.rows.host_memory import view_at
from gluonjit.rows.steps import Steps
from gluonjit.rows.stretches import StepStretch, ends_of

_NOW: AbstractContextManager[None] = nullcontext()
_MOST = 1 << 20  # bytes of a look-up that are copied by address
_SMALL = 1 << 14  # bytes of an arena that may stay as long as some of its rows


class Session:
    """The arrays of one flush: an arena for each shape of rows, which inputs and steps write to.

    The core calls `fill`, which puts all inputs of the plan, `run_from` until all steps have run, `results` for
    values that can be read, `wait` and `finish`. A later read of a reference, such as a slice, asks for its `rows`, so
    a session lives as long as its values.

    Steps run in C where they can. An engine says what its arrays are (`runner`), and how other steps run (`launch`). Of
    inputs it says how they are joined (`joined`) or looked up (`look_up`); small ones are copied by address, which
    takes a framework longer. A value that can be read gets a `chunk`, the rows of its step's result.

    tape: the tape that differentiates its results, as long as somebody holds it, or None; finite: what looks at
    numbers, where the option `check_finite` asks for that; check: what compares steps with their traces; fused: runs
    steps in C, `rows_in_c`, or None; indices: those of others; borrows: whether an input that fills an arena alone is
    used as it is; left: finds rows of an arena in what has stayed of them, for a later batch, if an engine does so.
    """

    left: Any
    tape: Any = None
    finite: Any = None
    check: StepCheck
    fused: Any = None
    rows_in_c: Steps | None = None
    fused_steps: type[FusedSteps]
    make_indices: type[Indices] = Indices
    runner: NodeRunner
    borrows = True
    _unread: Sequence[LookupChunk] = ()

    def __init__(self, plan: Plan, report: Counts, options: Options, samples: int, provenance: Provenance) -> None:
        self.plan = plan
        self.report = report
        self.provenance = provenance
        self.profile = options.profile
        if options.check_finite:
            self.finite = FiniteCheck(provenance, self.runner.numbers_of)
        self.arrays: list[Any] = [  # single inputs are arrays already
            None if arena.sole else self.runner.room_for(arena.spec, arena.rows) for arena in plan.arenas
        ]
        self.chunks: dict[Place, Any] = {}
        self.indices = self.make_indices(self.runner)
        self.set_up(options, samples)

    def set_up(self, options: Options, samples: int) -> None:
        """Finds out how each step runs; a stretch in C ends where a step is to be compared."""
        self.tape = self.tape_of(samples)
        self.check = StepCheck(self, options.check, self.runner)
        fused = self.fused = self.fused_steps(self, options.without)
        self.rows_in_c = fused.steps
        fused.steps.stops = self.check.stops(fused.steps.begun)
        if self.tape is not None:
            self.tape.fused, self.tape.check = fused, self.check
        self.prepare(fused.steps.others)

    def tape_of(self, samples: int) -> Any:
        """Returns a new tape, if anything is recorded, or None."""

    def place_of(self, arena: int, position: int) -> Place:
        """Returns the place of the input, or of the step's result, that a row of an arena belongs to."""
        plan = self.plan
        known = plan.common.places
        found = known.get(arena)
        if found is None:
            places = [chunk.place for chunk in plan.inputs if chunk.place.arena == arena]
            places += [place for step in plan.steps for place in step.places if place.arena == arena]
            found = known[arena] = [place.begin for place in places], places
        begins, places = found
        return places[bisect_right(begins, position) - 1]

    def lap(self, number: int, part: str, begin: float) -> float:
        """Records that a part of a step, "gather" or "compute", took from `begin` to now, and returns now."""
        self.wait()
        now = perf_counter()
        self.report.took(self.plan.steps[number].kind.name, part, begin, now, number)
        return now

    def laps(self, stretch: StepStretch, begin: float) -> None:
        """Records steps that ran in one call since `begin`."""
        self.wait()
        report, steps, took = self.report, self.plan.steps, stretch.took
        report.fused += len(took)
        report.row_ms += sum(took) / 1e6
        ends = ends_of(begin, perf_counter(), took)
        report.took_each([steps[number].kind.name for number in stretch.steps], "compute", begin, ends, stretch.steps)

    def fill(self) -> None:
        """Puts inputs into their places: steps run from here on."""
        for chunk in self.plan.inputs:
            if isinstance(chunk, LookupChunk):
                self.put_lookup(chunk)
            else:
                self.put_leaves(chunk)
        self.wait()

    def wait(self) -> None:
        """Waits for all work that was handed over, if `options.profile` has it timed."""
        if self.profile:
            self.runner.wait()

    # --- memory -------------------------------------------------------------------------------------------------

    def array(self, number: int) -> Any:
        """Returns all rows of an arena."""
        array = self.arrays[number]
        if array is None:
            arena = self.plan.arenas[number]
            array = self.arrays[number] = self.runner.room_for(arena.spec, arena.rows)
        return array

    def at(self, place: Place) -> Any:
        """Returns these rows, in the memory of their arena."""
        return self.runner.slice_rows(self.array(place.arena), place.begin, place.end)

    def written(self, arenas: Sequence[int]) -> None:
        """Notes that others than steps in C write to these arenas."""

    def put(self, place: Place, rows: Any, own: bool = True, there: bool = False) -> None:
        """Puts rows of an input into their place, if they have not been computed there; own: nobody else writes to
        them."""
        self.written([place.arena])
        if self.finite is not None:
            self.finite.inputs(place.arena, place.begin, rows)
        if self.plan.arenas[place.arena].sole:
            self.arrays[place.arena] = self.runner.detached(rows, not own)
        elif not there:
            self.runner.copy(rows, self.at(place))

    def write_result(self, place: Place, rows: Any) -> None:
        """Copies a result of a step into its place, after a check of its shape."""
        there = self.at(place)
        if rows.shape != there.shape:
            raise RuntimeError(f"a result has shape {tuple(rows.shape)}, expected {tuple(there.shape)}")
        self.runner.copy(rows, there)

    def rows(self, arena: int, positions: Sequence[int]) -> Any:
        """Rows of an arena, for values that are references to them."""
        self.put_unread()
        array, first, last = self.array(arena), positions[0], positions[-1] + 1
        if list(positions) == list(range(first, last)):
            return self.runner.slice_rows(array, first, last)
        return self.runner.take(array, self.runner.index(positions, self.plan.arenas[arena].spec.device))

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
            self.put(chunk.place, self.runner.sent(numbers, spec.device))

    def put_unread(self) -> None:
        """Puts numbers into their place that no step has read."""
        unread, self._unread = self._unread, ()
        for chunk in unread:
            self.put_known(chunk)

    def note_leaf(self, place: Place, leaf: Leaf) -> None:
        """Notes an array that was there before, whose rows lie there, for the tape."""

    def memory_of(self, leaves: Sequence[Leaf]) -> Sequence[tuple[Any, int]]:
        """Lists the bytes of arrays, or the addresses, with their sizes; nothing where they have to be joined."""
        raise NotImplementedError

    def joined(self, chunk: LeafChunk) -> None:
        """Puts arrays together, by the framework."""
        raise NotImplementedError

    def note_lookup(self, chunk: LookupChunk) -> bool:
        """Notes that gradients go on to a table; returns True if entries are to be looked up with their history."""
        return False

    def look_up(self, chunk: LookupChunk) -> None:
        """Puts entries of a table into their place, by the framework."""
        raise NotImplementedError

    def _copies(self, chunk: LookupChunk) -> bool:
        """Copies entries of a table in the host's memory; False elsewhere."""
        table, size = chunk.table, chunk.spec.bytes
        to, begin = self._address(chunk.place), self.runner.address(table.weight)
        indices = chunk.indices
        if not size or to is None or begin is None or size * len(indices) > _MOST:
            return False
        if min(indices) < 0 or max(indices) >= table.size:
            return False
        numbers = np.array(indices)
        rows = view_at(begin, size * table.size, f"V{size}")
        rows.take(numbers, out=view_at(to, size * len(numbers), rows.dtype), mode="clip")  # else it is copied once more
        self.written([chunk.place.arena])
        return True

    def put_leaves(self, chunk: LeafChunk) -> None:
        """Puts arrays together that were there before the batch; gradients go on to those that learn."""
        memory = self.memory_of(chunk.leaves)
        if self.tape is not None or not memory:
            begin = chunk.place.begin
            for leaf in chunk.leaves:
                self.note_leaf(Place(chunk.place.arena, begin, begin + leaf.spec.rows), leaf)
                begin += leaf.spec.rows
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
        if index is None:
            return self.at(gather.place)
        return self.runner.take(self.arrays[gather.place.arena], index)

    def compute(self, number: int, operands: list[Any], tape: Any) -> Sequence[Any]:
        """Runs the program of a step, recorded if there is a tape, and puts its results into their places."""
        besides = self.indices.besides.get(number, ())
        if tape is not None:
            results = tape.run(number, operands, self.indices.gathers[number], besides)
        else:
            results = self.launch(self.plan.steps[number], operands, besides)
        for place, result in zip(self.plan.steps[number].places, results):
            self.write_result(place, result)
        return results  # type: ignore[no-any-return]

    def launch(self, step: Step, operands: Sequence[Any], besides: Sequence[Any]) -> Sequence[Any]:
        """Returns the results of a step, given the gathered operands of each group."""
        raise NotImplementedError

    def prepare(self, steps: Sequence[int]) -> None:
        """Prepares for steps that do not run in C."""
        if steps:
            self.indices.upload(self.plan, steps)

    def stays(self, arena: int) -> bool:
        """True if an arena may stay for as long as some of its rows: a small one, without history."""
        return self.tape is None and row_bytes(self.plan.arenas[arena].spec) * self.plan.arenas[arena].rows <= _SMALL

    def kept_at(self, arena: int, position: int) -> Place:
        """Returns the place of the rows that stay if this one can be read."""
        whole = Place(arena, 0, self.plan.arenas[arena].rows)
        return whole if self.stays(arena) else self.place_of(arena, position)

    def chunk_at(self, arena: int, position: int) -> tuple[Place, Any]:
        """Finds what stays if a row can be read: an arena that may, or a copy of its step's rows, so that it can go."""
        place = self.kept_at(arena, position)
        chunk = self.chunks.get(place)
        if chunk is None:
            chunk = self.chunks[place] = self.chunk(place)
        return place, chunk

    def chunk(self, place: Place) -> Any:
        """Makes what values of these rows have in common."""
        raise NotImplementedError

    def results(self, chunk: Any, place: Place, rows: list[int]) -> Iterable[Any]:
        """Returns the `result` of each value whose rows begin there, in the place."""
        raise NotImplementedError

    def finish(self) -> None:
        """Forgets what only the run needed."""
        del self.indices
        if self.tape is None:
            if self.fused is not None:
                self.fused.steps.done()
        elif not self.check.owes(self.tape.entries):
            self.tape.check = None

    def error_of(self, number: int, error: Exception, again: Callable[[], None] | None = None) -> Exception | None:
        """Returns the error of a step that failed, which is not recorded; None if its nodes are to run one by one.

        again: runs it once more.
        """
        if self.tape is not None:
            self.tape.drop(number)
        return failed(self.check, number, error, again)

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
        if steps is not None and self.finite is None and number in steps:
            try:
                with self.region():
                    ran = self._run_rows(number, steps.end(number))
            except GluonJITError:
                raise
            except Exception as error:
                self._fail(steps.under_way, error)
        if not ran:
            self.run(number)
        return number + (ran or 1)

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
