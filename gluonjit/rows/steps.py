"""The steps of a flush that run in C, for any engine: which they are, how each is called, and their run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gluonjit.analysis.plan import Plan
from gluonjit.compiled import ROWS
from gluonjit.graph import Kind
from gluonjit.rows.host_memory import view_at
from gluonjit.rows.program import NotFusable, RowProgram
from gluonjit.rows.running import Flags, Launches, cores, read_steps
from gluonjit.rows.stretches import StepStretch
from gluonjit.rows.ways import MOST_WAYS, Fused, Learning, Way, fused_of

if TYPE_CHECKING:
    from gluonjit.rows.blocks import BlockForm, Blocks

_MOST_WORKSPACES = 4  # kept for one structure: so many of its flushes may be needed at once


class _PlannedProgram(NamedTuple):
    """A program of a plan: its number and the spaces of its operands and of its results, or why there is none ("" if
    nodes run alone).

    limited: whether it reads whole numbers, with limits.
    """

    known: tuple[int, tuple[int, ...], list[int]] | None
    why: str = ""
    limited: bool = False


class _Workspace:
    """The blocks and launches of a flush, taken again by a later one of the same structure: numbers, and memory.

    And the ways in which steps are called, which are the same as long as the same weights learn (`weights`, by
    program): `known` by program and look, with the forms of each, forward and `backward`; where nothing is recorded
    also `chosen` by where a stretch begins and ends.
    """

    __slots__ = ("backward", "blocks", "chosen", "forms", "known", "lacks", "launches", "marks", "ways", "weights")

    def __init__(self, blocks: Blocks, arenas: int, programs: int) -> None:
        self.blocks = blocks
        self.launches = Launches(arenas, blocks)
        self.lacks = False  # whether there are steps without a way
        self.weights: list[Hashable] = []
        self.ways: list[Way] = []
        self.forms: list[BlockForm] = []
        self.backward: dict[Hashable, BlockForm] = {}
        self.marks: list[Collection[int]] = []
        self.known: list[dict[bytes, int]] = [{} for _ in range(programs)]
        self.chosen: dict[tuple[int, int], list[int]] = {}

    def clear(self) -> None:
        """Forgets what a flush has of its own; and steps without a way, as why they have none is told in each flush."""
        self.launches.forget_weights()
        self.blocks.clear()
        if self.lacks:
            self.lacks = False
            self.known[:] = [{look: way for look, way in known.items() if way >= 0} for known in self.known]

    def learn(self, weights: list[Hashable]) -> None:
        """Forgets its ways where other weights learn than before."""
        if weights != self.weights:
            self.weights = weights
            self.ways.clear()
            self.forms.clear()
            self.backward.clear()
            self.marks.clear()
            for known in self.known:
                known.clear()


class _Read(NamedTuple):
    """The steps of a plan that may run in C, as plans of the same structure have them in common.

    steps: their numbers; programs: so many numbers are given to these; recorded: the first recorded step of each;
    limited: steps that read whole numbers; unfit: the others, and why; workspaces: those that no flush has taken.
    """

    blocks: Blocks | None
    steps: frozenset[int]
    programs: int
    recorded: list[int]
    limited: list[int]
    unfit: list[tuple[int, str]]
    workspaces: list[_Workspace]

    def workspace(self, arenas: int) -> _Workspace | None:
        """Returns the workspace that a flush runs steps with; None where no step runs in C."""
        if self.blocks is None:
            return None
        try:
            return self.workspaces.pop()
        except IndexError:
            return _Workspace(self.blocks.again(), arenas, self.programs)


class Steps:
    """The steps of one flush that run in C. `make(kind)` makes a kind's program, or raises NotFusable. `threads` tells
    how many the framework lets an operator take.

    Those that follow each other are a stretch, which is one call. A batched program remembers what it is in C
    (`fused`), and why, if it is nothing. Why steps do not run in C goes into `unfused`, by the kind's name.
    """

    _workspace: _Workspace | None = None
    stops: AbstractSet[int] = frozenset()  # steps before and after which a stretch ends

    def __init__(
        self,
        plan: Plan,
        without: Collection[str],
        make: Callable[[Kind], RowProgram],
        unfused: dict[str, str],
        threads: Callable[[], int],
        recorded: list[bool],
    ) -> None:
        self.plan, self._unfused, self._recorded = plan, unfused, recorded
        self._learned: dict[int, Any] | None = None  # the weights of a kind that learn
        self._renewed: set[int] = set()  # ways whose forms have the addresses of this flush
        self.begun: frozenset[int] = frozenset()  # the steps that run in C
        self._keeps = True  # what it knows is whole, and of use to a later flush
        if ROWS is None or "fused" in without:
            return
        found: _Read | None = plan.common.read
        if found is None:
            found = plan.common.read = self._found(make)
        for number, reason in found.unfit:
            unfused[plan.steps[number].kind.name] = reason
        self.begun, self._read = found.steps, found
        workspace = self._workspace = found.workspace(len(plan.arenas))
        if workspace is None:
            return
        most = threads()
        self._blocks, self._launches = workspace.blocks, workspace.launches
        self._launches.threads = most if most == 1 else min(most, cores())
        self._taped = any(recorded)
        self.ways, self._forms = workspace.ways, workspace.forms
        self._known, self._marks = workspace.known, workspace.marks

    def __del__(self) -> None:
        self.done()

    def done(self) -> None:
        """Leaves blocks and launches to a later flush: nothing runs from here on, nor goes backward."""
        workspace, self._workspace = self._workspace, None
        if workspace is None or not self._keeps:
            return
        workspace.clear()
        if len(self._read.workspaces) < _MOST_WORKSPACES and len(workspace.launches.programs) <= MOST_WAYS:
            self._read.workspaces.append(workspace)

    def _found(self, make: Callable[[Kind], RowProgram]) -> _Read:
        """Reads the steps that may run in C."""
        kinds = [step.kind for step in self.plan.steps]
        by_kind = {kind: _program(kind, make, number) for number, kind in enumerate(dict.fromkeys(kinds))}
        found = [by_kind[kind] for kind in kinds]
        programs = [each.known for each in found]
        unfit = [(number, each.why) for number, each in enumerate(found) if each.why]
        limited = [number for number, each in enumerate(found) if each.limited]
        fit = {number for number, program in enumerate(programs) if program is not None}
        blocks = read_steps(self.plan, programs, lambda *told: unfit.append(told)) if fit else None
        steps = frozenset(fit.difference([number for number, _ in unfit]))
        first: dict[int, int] = {}
        for number in sorted(steps):
            if self._recorded[number]:
                first.setdefault(programs[number][0], number)  # type: ignore[index]
        return _Read(blocks, steps, len(by_kind), list(first.values()), limited, unfit, [])

    @property
    def all(self) -> bool:
        """True if all steps run in C."""
        return len(self.begun) == len(self.plan.steps)

    @property
    def others(self) -> list[int]:
        """The steps that do not run in C."""
        return [] if self.all else [k for k in range(len(self.plan.steps)) if k not in self]

    def __contains__(self, number: int) -> bool:
        """True if a step may run in C."""
        return number in self.begun

    def end(self, begin: int) -> int:
        """The end of the stretch that begins with a step."""
        end, stops = begin, self.stops
        while end in self.begun and (not stops or end == begin or stops.isdisjoint((end - 1, end))):
            end += 1
        return end

    def leave(self, number: int) -> list[int]:
        """Lets the steps of a program run otherwise from here on; returns them."""
        program = self.plan.steps[number].kind.program
        found = [n for n in self.begun if self.plan.steps[n].kind.program.checks is program.checks]
        self.begun -= frozenset(found)
        return found

    @property
    def under_way(self) -> int:
        """The step that runs, or ran last."""
        return self._launches.under_way

    def choose(self, begin: int, end: int, learned: Flags, read: Flags, learner: Any, memory: Any) -> list[int]:
        """Chooses how steps are called, up to one without a derivative; if none is, the first one runs otherwise.

        learned, read: `row_flags`, of rows that were computed from something that learns, and of rows that were read.
        """
        keeps, self._keeps = self._keeps, False  # an interrupt may leave a part of a way behind

        def make(number: int, look: bytes) -> int:
            self._launches.under_way = number
            return self._way(self.plan.steps[number].kind, look, learner, memory)

        for number in self._read.limited:
            if begin <= number < end and not self._in_limits(number, memory):
                self._unfused[self.plan.steps[number].kind.name] = "an integer that is out of range"
                end = number
        workspace = self._workspace
        assert workspace is not None
        if self._taped and self._learned is None:
            kinds = [self.plan.steps[number].kind for number in self._read.recorded]
            self._learned = {id(kind): learner.weights(kind) for kind in kinds}
            workspace.learn(list(self._learned.values()))
        found: list[int] | None = None if self._taped else workspace.chosen.get((begin, end))
        if found is None:
            flags = learned.view("uint8"), read.view("uint8")
            found = self._blocks.choose(begin, end, self._recorded, *flags, self._known, self._marks, make)
            if len(found) < end - begin:
                workspace.lacks = True
            elif not self._taped:
                workspace.chosen[begin, end] = found
        if not found:
            self.begun -= {begin}
        number = begin
        for way in found:
            if way not in self._renewed:
                self._launches.under_way = number
                self._renewed.add(way)
                consts = self.plan.steps[number].kind.program.consts
                self._forms[way].renew(self._launches.slots(self.ways[way].forward, consts, memory))
            number += 1
        self._keeps = keeps
        return found

    def _in_limits(self, number: int, memory: Any) -> bool:
        """True if the whole numbers that a step reads are those of entries: no row program of the same stretch
        computes them, since what these compute are floats."""
        step = self.plan.steps[number]
        gathers = [gather for gather, group in zip(step.gathers, step.kind.groups) for _ in group]
        for operand, limit in step.kind.program.fused.program.limits:
            place, index = gathers[operand].place, gathers[operand].index
            whole = view_at(memory.arena(place.arena), 8 * self.plan.arenas[place.arena].rows, np.uint64)
            if (whole[place.begin : place.end] if index is None else whole[index]).max() >= limit:
                return False
        return True

    def _way(self, kind: Kind, look: bytes, learner: Any, memory: Any) -> int:
        """Returns the number of a new way, -1 if there is none."""
        fused: Fused = kind.program.fused
        weights = self._learned[id(kind)] if look[0] and self._learned is not None else None
        found = fused.ways.get((look, weights))
        if found is None:
            if len(fused.ways) >= MOST_WAYS:
                fused.ways.clear()
            operands = frozenset([k for k, sign in enumerate(look[1:]) if sign & 2])
            learning = learner.learning(kind, operands, weights) if look[0] else Learning()
            found = fused.ways[look, weights] = fused.way(look, learning, kind.program.consts)
        if isinstance(found, str):
            self._unfused[kind.name] = found
            return -1
        self._renewed.add(len(self.ways))
        self._forms.append(self._launches.form(found.forward, kind.program.consts, memory))
        self.ways.append(found)
        self._marks.append(found.learning.marks)
        return len(self.ways) - 1

    def run(self, begin: int, ways: list[int], memory: Any) -> StepStretch:
        """Runs the steps from one on, each in its way."""
        steps = list(range(begin, begin + len(ways)))
        saved, took = self._launches.launch(steps, [self._forms[way] for way in ways], True, memory)
        return StepStretch(steps, ways, saved, took)

    def reach(
        self,
        steps: list[int],
        ways: list[int],
        reached: Flags,
        passed: Collection[int] | None,
        through: Callable[[int, int, bytes], tuple[Any, Any]],
        other: Callable[[int], Any] | None = None,
    ) -> list[tuple[int, Any]]:
        """Goes back through steps, the last one first, from their reached results; returns them, each with its form.

        reached: `row_flags`; operands are reached by it. passed: steps that are not gone through. `through` gives, once
        for each way and which results are reached, pairs of results and the operands that gradients go on to from them,
        and a form. `other` goes through a step whose nodes have any number of rows; with it a node is reached with all
        its results or none.
        """
        return self._blocks.reach(steps, ways, reached.view("uint8"), passed, {}, through, other)

    def backward_form(self, number: int, way: int, memory: Any, case: Hashable = None) -> BlockForm | None:
        """Returns the form of blocks of a step's backward pass; None if nothing is to be done.

        case: tells apart forms of one way that a pass needs at once.
        """
        template, workspace = self.ways[way].backward, self._workspace
        if template is None:
            return None
        assert workspace is not None
        consts = self.plan.steps[number].kind.program.consts
        found = workspace.backward.get((way, case))
        if found is None:
            found = workspace.backward[way, case] = self._launches.form(template, consts, memory)
        else:
            found.renew(self._launches.slots(template, consts, memory))
        return found

    def backward(self, steps: list[tuple[int, BlockForm | None]], memory: Any) -> list[int]:
        """Adds the gradients of steps' results to those of their sources, step by step; returns their nanoseconds."""
        forms = {number: form for number, form in steps if form is not None}
        if not forms:
            return [0] * len(steps)
        took = dict(zip(forms, self._launches.launch([*forms], [*forms.values()], False, memory)[1]))
        return [took.get(number, 0) for number, _ in steps]

    def forget(self, arenas: Sequence[int]) -> None:
        """Asks anew where arenas lie."""
        if self._workspace is not None:
            self._blocks.forget(list(arenas))

    def forget_weights(self) -> None:
        """Reads weights anew from here on: they may have been written to."""
        if self._workspace is not None:
            self._launches.forget_weights()


def _program(kind: Kind, make: Callable[[Kind], RowProgram], number: int) -> _PlannedProgram:
    """Returns the program of a kind, under this number."""
    checks = kind.program.checks
    if kind.lone is not None or (checks is not None and checks.distrusted):
        return _PlannedProgram(None)
    try:
        program = fused_of(kind, make).program
    except NotFusable as reason:
        return _PlannedProgram(None, str(reason))
    results = [program.spaces[view.reg] for view in program.results]
    return _PlannedProgram((number, program.spaces[: program.operands], results), "", bool(program.limits))
