"""The steps of a flush that run in C, for any engine: which those are, in which way each is called, and its run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from gluonjit.analysis import Plan
from gluonjit.analysis.plan import Gather
from gluonjit.compiled import ROWS
from gluonjit.graph import Kind
from gluonjit.rows.assembly import Compiled, Variant, compiled
from gluonjit.rows.program import NotFusable, RowProgram
from gluonjit.rows.running import Launches, Memory, RowCounts, rows_of

_MOST_WAYS = 256  # in which one program is called: which operands lie together, and which learn


class Fused:
    """A batched program in C, for each way in which it has been called, or why it is nothing."""

    def __init__(self, program: RowProgram) -> None:
        self.program = program
        self.ways: dict[Variant, Compiled | str] = {}
        self.sources: dict[tuple[int, ...], tuple[frozenset[int], frozenset[int]]] = {}  # of gradients, by results

    def compiled(self, way: Variant) -> Compiled | str:
        """The program for a way of calling it, or why there is none."""
        if way not in self.ways:
            if len(self.ways) >= _MOST_WAYS:
                self.ways.clear()
            try:
                self.ways[way] = compiled(self.program, way, ROWS.OPS)
            except NotFusable as reason:
                self.ways[way] = str(reason)
        return self.ways[way]


class Done(NamedTuple):
    """A step that ran in C, and what its backward pass needs."""

    compiled: Compiled
    saved: Any


class Steps:
    """The steps of one flush that run in C. `make(kind)` makes a kind's program, or raises NotFusable.

    A batched program remembers what it is in C (`fused`), and why, if it is nothing.
    Why steps do not run in C goes into `unfused`, by the kind's name.
    """

    def __init__(
        self, plan: Plan, without: Collection[str], make: Callable[[Kind], RowProgram], unfused: dict[str, str]
    ) -> None:
        self.plan, self._unfused = plan, unfused
        self._rows = {} if ROWS is None or "fused" in without else _rows(plan, make, unfused)
        self._launches = Launches(plan, self._rows)

    def __contains__(self, number: int) -> bool:
        """Tells whether a step may run in C."""
        return number in self._rows

    def gathers(self, number: int) -> Sequence[Gather]:
        """Returns what is gathered for each operand of a step."""
        return self._rows[number].gathers

    def run(
        self,
        number: int,
        learned: Collection[int],
        weights: Collection[int],
        results: Collection[int],
        memory: Memory,
    ) -> Done | None:
        """Run a step; None where it has no derivative, so that it has to run otherwise.

        learned, weights: the operands and constants that gradients go on to; results: those that have a gradient.
        """
        step = self.plan.steps[number]
        way = Variant(self._direct(number), frozenset(learned), frozenset(weights), frozenset(results))
        found = step.kind.program.fused.compiled(way)
        if isinstance(found, str):
            self._unfused[step.kind.name] = found
            del self._rows[number]
            return None
        return Done(found, self._launches.forward(number, found, step.kind.program.consts, memory))

    def _direct(self, number: int) -> frozenset[int]:
        """The operands whose rows follow each other."""
        return frozenset([k for k, gather in enumerate(self._rows[number].gathers) if gather.index is None])

    def sources(self, number: int, results: tuple[int, ...]) -> tuple[frozenset[int], frozenset[int]]:
        """The operands and constants of a step that gradients of these results go to."""
        fused: Fused = self.plan.steps[number].kind.program.fused
        if results not in fused.sources:
            fused.sources[results] = fused.program.sources(results)
        return fused.sources[results]

    def forget_weights(self) -> None:
        """Read weights anew from here on: they may have been written to."""
        self._launches.forget_weights()

    def backward(self, number: int, done: Done, memory: Memory) -> None:
        """Add to the gradients of a step's operands and weights."""
        consts = self.plan.steps[number].kind.program.consts
        self._launches.backward(number, done.compiled, consts, done.saved, memory)


def _rows(plan: Plan, make: Callable[[Kind], RowProgram], unfused: dict[str, str]) -> dict[int, RowCounts]:
    """The steps that may run in C."""
    found = {}
    for number, step in enumerate(plan.steps):
        if step.kind.lone is not None:
            continue
        try:
            found[number] = rows_of(_fused(step.kind, make).program, step)
        except NotFusable as reason:
            unfused[step.kind.name] = str(reason)
    return found


def _fused(kind: Kind, make: Callable[[Kind], RowProgram]) -> Fused:
    program = kind.program
    if program.fused is None:
        try:
            program.fused = Fused(make(kind))
        except NotFusable as reason:
            program.fused = str(reason)
    found: Fused | str = program.fused
    if isinstance(found, str):
        raise NotFusable(found)
    return found
