"""A session with one array an arena: what engines have in common, of which they say how arrays are made and copied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import Any

from gluonjit.analysis.plan import Arena, LeafChunk, Place, Plan
from gluonjit.graph import Leaf
from gluonjit.hybrid.explain.provenance import Provenance
from gluonjit.hybrid.explain.report import Report
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.protocol import Session


class ArraySession(Session):
    """Rows of inputs and of steps lie in arrays, by arena, of `arrays`. What has a default here is as of numpy's.

    An engine says how to make `room`, to `cut` rows out of an array and `take` them by an index, to `copy` rows, and to
    `launch` a step; one that does more than that runs steps by itself.

    finite: what looks at numbers, where the option `check_finite` asks for that.
    """

    finite: Any = None

    def __init__(self, plan: Plan, report: Report, options: Options, provenance: Provenance) -> None:
        super().__init__(plan, report, options, provenance)
        self.arrays: list[Any] = [None] * len(plan.arenas)

    def room(self, arena: Arena) -> Any:
        """Makes an array for the rows of an arena."""
        raise NotImplementedError

    def cut(self, array: Any, begin: int, end: int) -> Any:
        """Rows of an array that follow each other, in its memory."""
        return array[begin:end]

    def take(self, array: Any, index: Any) -> Any:
        """Copies rows of an array."""
        return array[index]

    def copy(self, rows: Any, to: Any) -> None:
        """Copy rows into others."""
        to[...] = rows

    def kept(self, rows: Any, own: bool) -> Any:
        """The array of an arena that these rows of an input fill; `own`: nobody else writes to them, or learns."""
        return rows

    def launch(self, number: int, operands: Sequence[Any]) -> Sequence[Any]:
        """The results of a step, given what its gathers take."""
        raise NotImplementedError

    def make_room(self) -> None:
        """Make room for all rows, but for those of single inputs, which are arrays already."""
        arenas = self.plan.arenas
        self.arrays[:] = [None if arena.sole else self.room(arena) for arena in arenas]

    def at(self, place: Place) -> Any:
        """These rows, in the memory of their arena."""
        array = self.arrays[place.arena]
        if array is None:
            array = self.arrays[place.arena] = self.room(self.plan.arenas[place.arena])
        return self.cut(array, place.begin, place.end)

    def put(self, place: Place, rows: Any, own: bool = True) -> None:
        """Put rows of an input into their place."""
        if self.finite is not None:
            self.finite.inputs(place.arena, place.begin, rows)
        if self.plan.arenas[place.arena].sole:
            self.arrays[place.arena] = self.kept(rows, own)
        else:
            self.copy(rows, self.at(place))

    def parts(self, chunk: LeafChunk) -> Iterator[tuple[Leaf, Place]]:
        """The leaves of a chunk, of any number of rows each, and where their rows lie."""
        begin = chunk.place.begin
        for leaf in chunk.leaves:
            yield leaf, Place(chunk.place.arena, begin, begin + leaf.spec.rows)
            begin += leaf.spec.rows

    def run(self, number: int) -> None:
        """Gather the operands of a step, run it, and put its results into their places."""
        step = self.plan.steps[number]
        begin = perf_counter()
        operands = []
        for gather in step.gathers:
            place = gather.place
            if gather.index is None:
                operands.append(self.at(place))
            else:
                self.report.gathers += 1
                operands.append(self.take(self.arrays[place.arena], gather.index))
        middle = self.lap(number, "gather", begin)
        for place, rows in zip(step.places, self.launch(number, operands)):
            self.write_result(place, rows)
        self.lap(number, "compute", middle)

    def write_result(self, place: Place, rows: Any) -> None:
        """Copy a result of a step into its place, if it has the shape that it should have."""
        there = self.at(place)
        if rows.shape != there.shape:
            raise RuntimeError(f"a result has shape {tuple(rows.shape)}, expected {tuple(there.shape)}")
        self.copy(rows, there)

    def result(self, arena: int, position: int) -> Any:
        """The rows of an arena from there on."""
        array = self.arrays[arena]
        return self.cut(array, position, self.plan.arenas[arena].rows)

    def rows(self, arena: int, positions: Sequence[int]) -> Any:
        """Rows of an arena, for values that are references to them."""
        return self.take(self.arrays[arena], list(positions))
