"""The arrays of one flush, and the places of its values in them; the part of sessions common to all engines."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gluonjit.analysis.plan import Arena, LeafChunk, LookupChunk, Place, Plan
from gluonjit.errors import BatchClosedError
from gluonjit.graph.graph import Leaf
from gluonjit.graph.recorder import Value
from gluonjit.hybrid.explain.counts import Counts
from gluonjit.hybrid.explain.provenance import Provenance
from gluonjit.hybrid.options import Options
from gluonjit.rows.stretches import StepStretch


class Session:
    """The arrays of one flush: an arena for each shape of rows, which inputs and steps write to. Defaults are numpy's.

    The core calls `put_lookup` and `put_leaves` for all inputs of the plan, `ready`, `run_from` until all steps have
    run, `result` for each value that can be read, `wait` and `finish`. A later read of a reference, such as a slice,
    asks for its `rows`, so a session lives as long as its values.

    An engine says how to make `room`, to `cut` rows out of an array and `take` them by an index, to `copy` rows, and to
    `launch` a step; one that does more than that runs steps by itself.

    tape: the tape that differentiates its results, as long as somebody holds it, or None; finite: what looks at
    numbers, where the option `check_finite` asks for that.
    """

    tape: Any = None
    finite: Any = None

    def __init__(self, plan: Plan, report: Counts, options: Options, provenance: Provenance) -> None:
        self.plan = plan
        self.report = report
        self.provenance = provenance
        self.profile = options.profile
        self.arrays: list[Any] = [None] * len(plan.arenas)

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
        """Records steps that ran in one call since `begin`; time outside of them counts with the first."""
        self.wait()
        report, steps, took = self.report, self.plan.steps, stretch.took
        report.fused += len(took)
        whole = sum(took)
        report.row_ms += whole / 1e6
        end = perf_counter() - (whole - took[0]) / 1e9
        ends = [*accumulate([end, *[nanoseconds / 1e9 for nanoseconds in took[1:]]])]
        report.took_each([steps[number].kind.name for number in stretch.steps], "compute", begin, ends, stretch.steps)

    def put_lookup(self, chunk: LookupChunk) -> None:
        """Puts entries of a table into their place."""
        raise NotImplementedError

    def put_leaves(self, chunk: LeafChunk) -> None:
        """Puts arrays into their place."""
        raise NotImplementedError

    def run_from(self, number: int) -> int:
        """Runs a step, or several from it on if the engine runs them together, and returns the number of the next."""
        self.run(number)
        return number + 1

    def ready(self) -> None:
        """Ends the inputs: steps run from here on."""
        self.wait()

    def wait(self) -> None:
        """Waits for all work that was handed over, if `options.profile` has it timed."""

    def finish(self) -> None:
        """Ends the flush, after every result has been requested."""

    def room(self, arena: Arena) -> Any:
        """Makes an array for the rows of an arena."""
        raise NotImplementedError

    def slice_rows(self, array: Any, begin: int, end: int) -> Any:
        """Returns consecutive rows of an array, in its memory."""
        return array[begin:end]

    def take(self, array: Any, index: Any) -> Any:
        """Copies rows of an array."""
        return array[index]

    def copy(self, rows: Any, to: Any) -> None:
        """Copies rows into others."""
        to[...] = rows

    def as_arena(self, rows: Any, own: bool) -> Any:
        """Returns the array of an arena that these rows of an input fill; own: nothing else writes to them."""
        return rows

    def launch(self, number: int, operands: Sequence[Any]) -> Sequence[Any]:
        """Returns the results of a step, given its gathered operands."""
        raise NotImplementedError

    def make_room(self) -> None:
        """Makes room for all rows, but for those of single inputs, which are arrays already."""
        arenas = self.plan.arenas
        self.arrays[:] = [None if arena.sole else self.room(arena) for arena in arenas]

    def array(self, number: int) -> Any:
        """Returns all rows of an arena."""
        array = self.arrays[number]
        if array is None:
            array = self.arrays[number] = self.room(self.plan.arenas[number])
        return array

    def at(self, place: Place) -> Any:
        """Returns these rows, in the memory of their arena."""
        return self.slice_rows(self.array(place.arena), place.begin, place.end)

    def written(self, arenas: Sequence[int]) -> None:
        """Notes that others than steps in C write to these arenas."""

    def put(self, place: Place, rows: Any, own: bool = True, there: bool = False) -> None:
        """Puts rows of an input into their place, if they have not been computed there."""
        self.written([place.arena])
        if self.finite is not None:
            self.finite.inputs(place.arena, place.begin, rows)
        if self.plan.arenas[place.arena].sole:
            self.arrays[place.arena] = self.as_arena(rows, own)
        elif not there:
            self.copy(rows, self.at(place))

    def parts(self, chunk: LeafChunk) -> Iterator[tuple[Leaf, Place]]:
        """The leaves of a chunk, of any number of rows each, and where their rows lie."""
        begin = chunk.place.begin
        for leaf in chunk.leaves:
            yield leaf, Place(chunk.place.arena, begin, begin + leaf.spec.rows)
            begin += leaf.spec.rows

    def run(self, number: int) -> None:
        """Gathers the operands of a step, runs it, and puts its results into their places."""
        step = self.plan.steps[number]
        begin = perf_counter()
        operands = []
        for gather in step.gathers:
            place = gather.place
            if gather.index is None:
                operands.append(self.at(place))
            else:
                operands.append(self.take(self.arrays[place.arena], gather.index))
        middle = self.lap(number, "gather", begin)
        for place, rows in zip(step.places, self.launch(number, operands)):
            self.write_result(place, rows)
        self.lap(number, "compute", middle)

    def write_result(self, place: Place, rows: Any) -> None:
        """Copies a result of a step into its place, after a check of its shape."""
        there = self.at(place)
        if rows.shape != there.shape:
            raise RuntimeError(f"a result has shape {tuple(rows.shape)}, expected {tuple(there.shape)}")
        self.copy(rows, there)

    def result(self, arena: int, position: int) -> Any:
        """Returns what a value whose rows begin there needs to be materialized, its `result`: rows from there on."""
        return self.slice_rows(self.arrays[arena], position, self.plan.arenas[arena].rows)

    def left(self, arena: int, positions: Sequence[int]) -> tuple[Any, Sequence[int]] | None:
        """Finds rows of an arena in what has stayed of them for values that can be read; None if not all have."""
        return None

    def rows(self, arena: int, positions: Sequence[int]) -> Any:
        """Rows of an arena, for values that are references to them."""
        return self.take(self.arrays[arena], list(positions))


class Results(NamedTuple):
    """The places of a flushed graph's rows: row r is row `position[r]` of arena `arena[r]` of the session."""

    session: Session
    arena: npt.NDArray[np.int64]
    position: npt.NDArray[np.int64]


def has_run(value: Value) -> bool:
    """True if a value's batch has run."""
    return value.result is not None or isinstance(getattr(value.graph, "owner", None), Results)


def results_of(value: Value) -> Results:
    """Finds where a flushed value's rows lie; raises BatchClosedError where its batch did not run."""
    owner = value.graph.owner
    if isinstance(owner, Results):
        return owner
    raise BatchClosedError(f"this value was never computed: {owner}")


def rows_of(value: Value) -> Any:
    """Finds the rows of a flushed value by their places: of a reference, which is no node's own result."""
    results = results_of(value)
    return results.session.rows(*placed(value, results))


def placed(value: Value, results: Results) -> tuple[int, list[int]]:
    """The arena of a value's rows, and their positions there."""
    rows = value.row_list()
    return int(results.arena[rows[0]]), results.position[rows].tolist()
