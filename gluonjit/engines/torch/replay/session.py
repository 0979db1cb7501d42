"""A flush whose plan runs as a static one, forward in one go and backward in one go."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np
import torch

from gluonjit.analysis.plan import LeafChunk, LookupChunk, Place, Plan
from gluonjit.engines.torch.chunks import TWICE
from gluonjit.engines.torch.held import version_of
from gluonjit.engines.torch.hooked import plain
from gluonjit.engines.torch.replay.plans import Skeleton
from gluonjit.engines.torch.replay.skeleton import SizedSkeleton
from gluonjit.engines.torch.replay.static import Back, StaticPlan
from gluonjit.engines.torch.session import Session
from gluonjit.engines.torch.tape import Tape
from gluonjit.engines.torch.written import modified
from gluonjit.errors import GluonJITError
from gluonjit.hybrid.explain.counts import Counts
from gluonjit.hybrid.explain.provenance import Provenance
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.reach import Reach, Route, part_of, rows_at


class ReplaySession(Session):
    """Implements `gluonjit.hybrid.Session` on a static plan. Where that fails, the plan runs step by step after all."""

    def __init__(
        self,
        plan: Plan,
        report: Counts,
        options: Options,
        samples: int,
        provenance: Provenance,
        sized: SizedSkeleton,
        skeleton: Skeleton,
        static: StaticPlan,
    ) -> None:
        self._sized = sized
        self._skeleton = skeleton
        self._static: StaticPlan | None = static
        self._numbers = {place: number for number, place in enumerate(sized.places)}
        self._given: dict[Place, tuple[Any, bool]] = {}
        self._kept: dict[Place, Any] = {}
        self._again = (options, samples)
        super().__init__(plan, report, options, samples, provenance)

    def _prepare(self, options: Options, samples: int) -> None:
        static = self._static
        if static is None:
            super()._prepare(options, samples)
            return
        if any(step.taped for step in static.steps):
            self.tape = ReplayTape(self.report, self.plan, samples, options.profile, self._sized, static)
        static.claim(self.tape)
        lookups = [chunk for chunk in self.plan.inputs if isinstance(chunk, LookupChunk)]
        with plain():
            sent = static.load(self.plan, self._sized, [np.array(chunk.indices) for chunk in lookups])
        self._sent = {chunk.place: index for chunk, index in zip(lookups, sent)}

    def _lookup_index(self, chunk: LookupChunk) -> Any:
        return self._sent[chunk.place] if self._static is not None else super()._lookup_index(chunk)

    def _wanted(self, chunk: LookupChunk) -> bool:
        return True

    def put(self, place: Place, rows: Any, own: bool = True) -> None:
        """Puts rows of an input into the static plan."""
        static = self._static
        if static is None:
            super().put(place, rows, own)
            return
        self._given[place] = (rows, own)
        plain_rows = rows.detach()
        static.put(self._numbers[place], plain_rows)
        # What a program keeps of an input is read from here: by then other rows lie in the static plan, and the
        # program may have written to its own tensor.
        self._kept[place] = plain_rows if own else plain_rows.clone()

    def _has_room(self, place: Place) -> bool:
        return self._static is None and super()._has_room(place)

    def run(self, number: int) -> None:
        """Runs the whole plan in place of its first step."""
        if self._static is None:
            super().run(number)
        elif number == 0:
            begin = perf_counter()
            self._captures = self._static.recorder.captures
            try:
                self._static.forward()
            except (GluonJITError, RuntimeError, ValueError, TypeError, IndexError) as error:
                self._fall_back(f"{type(error).__name__}: {error}")
                super().run(number)
                return
            self._count(begin)

    def _count(self, begin: float) -> None:
        static = self._static
        assert static is not None
        report, executed = self.report, self.report.executed
        executed.count("replay")
        executed.captures += static.recorder.captures - self._captures
        executed.replays += static.runs > 1
        report.gathers += len(static.padding.index)
        report.padded += static.padding.padded(self._sized)
        report.took("static plan", "compute", begin, perf_counter())

    def _fall_back(self, reason: str) -> None:
        """Runs the plan step by step: an error then names the call, and everything is supported."""
        static, self._static = self._static, None
        assert static is not None
        static.release()
        self._skeleton.unfit = reason
        if static in self._skeleton.plans:
            self._skeleton.plans.remove(static)
        self.report.executed.decline(f"its static plan failed: {reason}")
        self._prepare(*self._again)
        for item in [item for items in self._inputs.values() for item in items]:
            if self.tape is not None and item.tensor.requires_grad:
                self.tape.note_input(item.place, item.tensor)
        with plain():
            for place, (rows, own) in self._given.items():
                super().put(place, rows, own)

    def at(self, place: Place) -> Any:
        """These rows, of the static plan or of what was kept of an input."""
        if self._static is None:
            return super().at(place)
        if place in self._kept:
            return self._kept[place]
        return self._static.rows(self._numbers[place], place.end - place.begin)

    def _whole(self, arena: int) -> bool:
        return self._static is None and super()._whole(arena)

    def _stays(self, arena: int) -> bool:
        return self._static is None and super()._stays(arena)

    def finish(self) -> None:
        """Gives results their history. The static plan is free from here on, or the tape's."""
        if self._static is None:
            super().finish()
            return
        super().finish()
        if self.tape is None or not self._chunks:
            self._static.release()
        self._sent = {}
        self._given = {}


class ReplayTape(Tape):
    """The history of a flush on a static plan, which is reserved as long as this is needed."""

    observes = False

    def __init__(
        self, report: Counts, plan: Plan, samples: int, profile: bool, sized: SizedSkeleton, static: StaticPlan
    ) -> None:
        super().__init__(report, plan, samples, profile)
        self._sized = sized
        self._static: StaticPlan | None = static
        self._learned = sized.learned
        self._numbers = {place: number for number, place in enumerate(sized.places)}
        self._constants = {key: (tensor, tensor) for key, tensor in static.weights.items()}
        self._versions = [tensor._version for tensor in static.weights.values()]
        for gather in [gather for step in plan.steps for gather in step.gathers]:
            self._read[gather.place.arena][rows_at(gather.place, gather.index)] = True

    def gradients(self, heads: tuple[Any, ...], retain: bool, asked: Sequence[bool]) -> list[Any]:
        """Gradients of the sources; None for those that these results do not depend on."""
        static = self._static
        if self.freed or static is None:
            raise RuntimeError(TWICE)
        begin = perf_counter()
        self._note_backward()
        self._check(static)
        reached = Reach(self.plan)
        static.clear()
        for place, head, readers in zip(self._places, heads, self._readers):
            if head is not None:
                static.add_head(self._numbers[place], head)
                reached.at(place)[:] |= readers.take_given(place.end - place.begin)
        way = self._way(asked)
        weights = static.backward(self._backs(reached, way))
        self._refuse_overwritten(reached, way)
        wanted = [static.learned[key] if key in weights else None for key in self._constants]
        for place, _ in self._inputs:
            wanted.append(self._room(static, place) if reached.reaches(place) else None)
        found = _copies(wanted)
        if not retain and all(readers.spent for readers in self._readers):
            self.free()
        self._account(begin, [])
        return found

    def _room(self, static: StaticPlan, part: Place) -> Any:
        """Gradients of some rows of an input."""
        for place, number in self._numbers.items():
            if place.arena == part.arena and place.begin <= part.begin and part.end <= place.end:
                rows = static.gradient_rows(number, place.end - place.begin)
                return rows[part.begin - place.begin : part.end - place.begin]
        raise IndexError(f"there is no input at {part}")

    def _backs(self, reached: Reach, way: Route | None) -> tuple[Back, ...]:
        """The steps on the way that these rows were computed by, last first."""
        found = []
        for number in range(len(self.plan.steps) - 1, -1, -1):
            step, form = self.plan.steps[number], self._sized.steps[number]
            if way is not None and number not in way.steps:
                reached.pass_over(step)
                continue
            given = tuple([position for position in reached.results(step) if form.reach[position] is not None])
            reaches = [goes for goes in [form.reach[position] for position in given] if goes is not None]
            operands = {operand for goes in reaches for operand in goes.operands}
            consts = {const for goes in reaches for const in goes.consts}
            parts = self._parts(number)
            if way is not None:
                operands = {operand for operand in operands if way.meets(*parts[operand])}
                consts = {const for const in consts if id(form.program.consts[const]) in way.weights}
            if not (operands or consts):
                continue
            found.append(Back(number, given, tuple(sorted(operands)), tuple(sorted(consts))))
            reached.go(step, given, operands)
        return tuple(found)

    def _parts(self, number: int) -> list[tuple[Place, Any]]:
        """The rows of each operand of a step."""
        found = []
        for gather, group in zip(self.plan.steps[number].gathers, self._sized.steps[number].groups):
            size = gather.rows // group.roles
            found += [part_of(gather, role * size, size) for role in range(group.roles)]
        return found

    def _check(self, static: StaticPlan) -> None:
        """Weights that have changed would give other gradients. Where autograd itself runs, it says so."""
        if static.recorder.remembers:
            for tensor, version in zip(static.weights.values(), self._versions):
                if version_of(tensor) != version:
                    raise modified("a weight", tensor)

    def free(self) -> None:
        """Forgets the history, and lets the static plan run again."""
        super().free()
        if self._static is not None:
            self._static.release()
            self._static = None


def _copies(rooms: Sequence[Any]) -> list[Any]:
    """Copies of these, which the next run writes to, in few launches."""
    given = [room for room in rooms if room is not None]
    copies = [torch.empty_like(room) for room in given]
    if given:
        torch._foreach_copy_(copies, given)
    left = iter(copies)
    return [None if room is None else next(left) for room in rooms]


def learned_inputs(plan: Plan) -> list[bool]:
    """Tells for each input of a plan whether gradients go to it."""
    found = []
    for chunk in plan.inputs:
        if isinstance(chunk, LeafChunk):
            taped = any(leaf.taped for leaf in chunk.leaves)
            found.append(taped and any(leaf.payload.tensor.requires_grad for leaf in chunk.leaves))
        else:
            weight = chunk.table.weight
            found.append(bool(chunk.table.taped and weight is not None and weight.requires_grad))
    return found
