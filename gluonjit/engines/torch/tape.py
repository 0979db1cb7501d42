"""Backward through one flush: step by step in reverse, with the gradients of rows in separate arenas.

Each step is recorded by itself, so that gathers cost no zero-filled gradient of a whole arena, and each weight gets one
gradient for the whole flush. To PyTorch's autograd the flush is one function of the weights and the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import torch

from gluonjit.analysis.costs.model import ObservedBackward
from gluonjit.analysis.plan import Place, Plan
from gluonjit.engines.torch.arrays import LEARNABLE, VERSIONS, by_one_thread, device_named, dtype_named, with_memory
from gluonjit.engines.torch.chunks import TWICE, Chunk, Readers, current_backward
from gluonjit.engines.torch.fused_steps import FusedSteps, RanFused
from gluonjit.engines.torch.held import Held, version_of
from gluonjit.engines.torch.hooked import data_of, run_backward
from gluonjit.engines.torch.indices import Indices
from gluonjit.engines.torch.observed import HookedResult, apart
from gluonjit.engines.torch.one_by_one import NODES, run_step
from gluonjit.engines.torch.overwrites import savers
from gluonjit.engines.torch.program import pieces, program_of
from gluonjit.engines.torch.written import modified
from gluonjit.graph import line_of, user_line
from gluonjit.graph.kinds import ENOUGH
from gluonjit.hybrid.check.entries import entry_of, replace_step
from gluonjit.hybrid.check.steps import StepCheck, distrust
from gluonjit.hybrid.choose.costs import cost_model
from gluonjit.hybrid.explain.advice import ONE_AT_A_TIME, one_at_a_time
from gluonjit.hybrid.explain.counts import Counts
from gluonjit.hybrid.explain.minibatch import MINIBATCH
from gluonjit.hybrid.explain.provenance import Provenance
from gluonjit.hybrid.run.reach import Reach, Route, part_of, route, rows_at
from gluonjit.hybrid.run.state import LOCAL
from gluonjit.rows.running import row_flags

_ADVICE = (
    "Capture the losses of a minibatch first, then call backward once for their sum: sum(losses).backward(), or "
    "torch.autograd.backward(losses)."
)


class Learned(NamedTuple):
    """An operand that gradients go through: rows of an arena, those of an index, or where that is None a place.

    sent: the index as it lies on the device; operand: its number among those that the program gets.
    """

    operand: int
    place: Place
    index: Any
    sent: Any
    rows: Any


class TapeEntry(NamedTuple):
    """A step that was recorded: its learned operands, its constants, and results by their numbers."""

    number: int
    operands: list[Learned]
    consts: list[Any]
    results: list[tuple[int, Any]]


Again = Callable[["Tape", Sequence[Any], Sequence[bool]], "list[Any]"]


class Tape:
    """The history of one flush."""

    again: Again  # what gives gradients that can be differentiated

    def __init__(
        self, report: Counts, plan: Plan, samples: int, profile: bool, finite: Any, provenance: Provenance
    ) -> None:
        self._provenance = provenance
        self.report = report
        self.plan = plan
        self.samples = samples
        self.profile = profile
        self.backwards = 0
        self.gone = False  # whether a backward pass has come here
        self.freed = False
        self._readers: list[Readers] = []
        self._places: list[Place] = []
        self._finite = finite
        self._inputs: list[tuple[Place, Any]] = []
        self._held: list[tuple[Place, Held]] = []
        self.entries: list[TapeEntry | RanFused] = []
        self.fused: FusedSteps | None = None
        self._spare: dict[int, Any] = {}  # where nobody reads it, the gradient of a weight
        self._gone: Any = None  # flags of rows through which a pass has come that was not told to keep the history
        self.observed: dict[int, list[HookedResult]] = {}  # results that have hooks, by step
        self.check: StepCheck | None = None  # what compares backward passes, where that is to be done
        self._constants: dict[int, tuple[Any, Any]] = {}  # a weight, and what stands for it in the steps
        self._versions: list[int] = []  # of these weights, as they were
        self.learned_rows, self._learned = row_flags(plan)
        self.read_rows, self._read = row_flags(plan)

    def note_input(self, place: Place, rows: Any) -> None:
        """Rows that were there before, from which gradients go on."""
        self._inputs.append((place, rows))
        self._learned[place.arena][place.begin : place.end] = True

    def constant(self, tensor: Any) -> Any:
        """A weight as a leaf of the steps' own recording, if it is learned."""
        if not tensor.requires_grad:
            return tensor
        known = self._constants.get(id(tensor))
        if known is None:
            known = self._constants[id(tensor)] = (tensor, tensor.detach().requires_grad_())
            self._versions.append(version_of(tensor))
        return known[1]

    def _learns(self, place: Place, index: Any) -> bool:
        rows = rows_at(place, index)
        self._read[place.arena][rows] = True
        return _any(self._learned[place.arena][rows])

    def run(self, number: int, operands: list[Any], indices: list[Any], besides: tuple[Any, ...]) -> list[Any]:
        """Runs a step and records it; `indices` are those that its operands were gathered by, on the device."""
        step = self.plan.steps[number]
        program = program_of(step.kind)
        given, learned = [], []
        for gather, group, rows, sent in zip(step.gathers, step.kind.groups, operands, indices):
            # Its own count of writes: the arena is written to again before backward. Each operand is a leaf of its own:
            # to one that the results do not depend on goes no gradient, not one of zeros.
            parts = pieces((group,), (data_of(rows),))
            given += parts
            size = gather.rows // len(group)
            for position, part in enumerate(parts):
                place, index = part_of(gather, position * size, size)
                if self._learns(place, index):
                    part.requires_grad_()
                    there = None if sent is None else sent[position * size : (position + 1) * size]
                    learned.append(Learned(len(given) - len(parts) + position, place, index, there, part))
        consts = [self.constant(tensor) for tensor in program.consts]
        with torch.enable_grad():
            results = run_step(step, given, consts, besides)
            if learned or any([tensor.requires_grad for tensor in consts]):
                results = self._with_history(number, results, given, consts)
        recorded = [(k, result) for k, result in enumerate(results) if result.requires_grad]
        if recorded:
            weights = [tensor for tensor in consts if tensor.requires_grad]
            self.entries.append(TapeEntry(number, learned, weights, recorded))
            for place in [step.places[k] for k, _ in recorded]:
                self._learned[place.arena][place.begin : place.end] = True
        return results

    def _with_history(self, number: int, results: list[Any], given: list[Any], consts: list[Any]) -> list[Any]:
        """The results of a step; one by one, where a program's have no history though they have one so."""
        step = self.plan.steps[number]
        checks = step.kind.program.checks
        lost = [k for k, result in enumerate(results) if result.is_floating_point() and not result.requires_grad]
        if (
            not lost
            or not program_of(step.kind).learns
            or checks is None
            or self.check is None
            or not self.check.left(number, "history")
        ):
            return results
        checks.compared["history"] = ENOUGH
        alone: list[Any] = NODES.compute(step, given, consts)
        if not any([alone[k].requires_grad for k in lost]):
            return results
        names = ", ".join(dict.fromkeys([op.name for op in step.kind.call.ops]))
        text = f"a result of {names} has no gradient batched, and one for one sample (on {step.kind.operands})"
        distrust(checks, self.report, step.kind, text)
        return alone

    def drop(self, number: int) -> None:
        """Forgets a step that was recorded last."""
        if self.entries and getattr(self.entries[-1], "number", None) == number:
            del self.entries[-1]

    def learned_at(self, arena: int, rows: Sequence[int]) -> bool:
        """Tells whether gradients go through all of these rows."""
        return bool(self._learned[arena][list(rows)].all())

    def trial(self, number: int, heads: Sequence[tuple[int, Sequence[int], Any]]) -> tuple[Any, Any]:
        """Goes back through a step alone from gradients of rows; returns what reads those of rows, and of a weight."""
        arenas: list[Any] = [None] * len(self.plan.arenas)
        flags, rows = row_flags(self.plan)
        found: dict[int, Any] = {}
        for arena, positions, head in heads:
            room = self._arena(arenas, arena)
            room[list(positions)] = torch.from_numpy(head).to(room).reshape(len(positions), *room.shape[1:])
            rows[arena][list(positions)] = True
        finite, self._finite = self._finite, None
        try:
            _, entry, place = entry_of(self.entries, number)
            if isinstance(entry, RanFused):
                self._backward_fused(entry.part(place, place + 1), arenas, flags, found, None)
            else:
                self._backward(entry, arenas, Reach(self.plan, rows), found, False, None)
        finally:
            self._finite = finite

        def weight(tensor: Any) -> Any:
            known = self._constants.get(id(tensor))
            gradient = None if known is None else found.get(id(known[1]), torch.zeros_like(tensor))
            return None if gradient is None else NODES.numbers_of(gradient)

        return lambda arena, positions: NODES.numbers(self._arena(arenas, arena), positions), weight

    def redo(self, number: int) -> None:
        """Runs a step once more, recorded, in place of what was recorded of it."""
        assert self.check is not None
        indices = Indices({}, {})
        indices.upload(self.plan, [number])
        operands = [
            self.check.arrays[gather.place.arena][rows_at(gather.place, index)]
            for gather, index in zip(self.plan.steps[number].gathers, indices.gathers[number])
        ]
        before = len(self.entries)
        self.run(number, operands, indices.gathers[number], indices.besides.get(number, ()))
        fresh = self.entries[before:]
        del self.entries[before:]
        replace_step(self.entries, number, fresh)

    def note_fused(self, ran: RanFused) -> None:
        """Remembers steps that ran in C, where something learns."""
        assert self.fused is not None
        if self.fused.learns(ran):
            self.entries.append(ran)

    def learned(self, place: Place) -> bool:
        """Tells whether gradients go through these rows."""
        return _any(self._learned[place.arena][place.begin : place.end])

    def sources(self) -> list[Any]:
        """Lists what `gradients` gives gradients for, in its order."""
        return [tensor for tensor, _ in self._constants.values()] + [rows for _, rows in self._inputs]

    def weights(self) -> list[tuple[Any, int]]:
        """Lists the weights among the sources, and how often each had been written to."""
        return [(tensor, version) for (tensor, _), version in zip(self._constants.values(), self._versions)]

    def places(self) -> list[Place]:
        """Lists the places of the other sources."""
        return [place for place, _ in self._inputs]

    def heads(self, heads: Sequence[Any]) -> list[tuple[Place, Any]]:
        """Lists where the gradients lie that are given."""
        return [(place, head) for place, head in zip(self._places, heads) if head is not None]

    def begin(self, chunks: Mapping[Place, Chunk]) -> list[Chunk]:
        """Notes which rows can be read; returns those that gradients go through."""
        # What no step has read may have a history that is gone.
        self._inputs = [
            (place, rows) for place, rows in self._inputs if _any(self._read[place.arena][place.begin : place.end])
        ]
        self._places = [place for place in chunks if self.learned(place) and _may_learn(self.plan, place)]
        found = [chunks[place] for place in self._places]
        self._readers = [chunk.readers for chunk in found]
        return found

    def given(self) -> list[dict[int, Any]]:
        """The rows of each result from which the backward passes under way come, to be given again."""
        return [dict(readers.given) for readers in self._readers]

    def give(self, given: Sequence[dict[int, Any]]) -> None:
        """Sets these rows, for one more pass that comes from them."""
        for readers, rows in zip(self._readers, given):
            readers.given.update(rows)

    def gradients(self, heads: tuple[Any, ...], retain: bool, asked: Sequence[bool]) -> list[Any]:
        """Gradients of the sources, given those of what can be read; None for those that these do not depend on.

        asked: of each source whether its gradient is asked for.
        """
        if self.freed:
            raise RuntimeError(TWICE)
        begin = perf_counter()
        self._note_backward()
        if self.check is not None:
            if all([version_of(tensor) == version for tensor, version in self.weights()]):
                self.check.backward(self)  # traces have the weights of now
            self.check = None
        arenas: list[Any] = [None] * len(self.plan.arenas)
        flags, rows = row_flags(self.plan)
        reached = Reach(self.plan, rows)
        for place, head, readers in zip(self._places, heads, self._readers):
            if head is not None:
                self._gradients_at(arenas, place).add_(head)
                given = readers.take_given(place.end - place.begin)
                if self._gone is not None and not readers.shared and (self._gone.at(place) & given).any():
                    raise RuntimeError(TWICE)
                reached.at(place)[:] |= given
        free = not retain and all(readers.spent for readers in self._readers)
        found: dict[int, Any] = {}
        laps = []
        way = self._way(asked)
        for ran, number, results in apart(self.entries, self.observed):
            for result in results:
                if reached.reaches(result.place) and (way is None or number in way.steps):
                    result.run(self._gradients_at(arenas, result.place))
            first = perf_counter()
            if isinstance(ran, RanFused):
                laps += [
                    (number, perf_counter() - first) for number in self._backward_fused(ran, arenas, flags, found, way)
                ]
                continue
            if way is not None and ran.number not in way.steps:
                reached.pass_over(self.plan.steps[ran.number])
            elif self._backward(ran, arenas, reached, found, free, way):
                laps.append((ran.number, perf_counter() - first))
        self._refuse_overwritten(reached, way)
        gradients = [found.get(id(leaf)) for _, leaf in self._constants.values()]
        for place, rows in self._inputs:
            gradients.append(arenas[place.arena][place.begin : place.end] if reached.reaches(place) else None)
            del rows
        if free:
            self.free()
        elif not retain:
            if self._gone is not None:
                reached.add(self._gone)
            self._gone = reached
        self._account(begin, laps)
        return gradients

    def _way(self, asked: Sequence[bool]) -> Route | None:
        """The way to the sources that are asked for; None if all are."""
        if all(asked):
            return None
        weights = {id(tensor) for pair, wanted in zip(self._constants.values(), asked) if wanted for tensor in pair}
        inputs = zip(self._inputs, asked[len(self._constants) :])
        return route(self.plan, [place for (place, _), wanted in inputs if wanted], weights)

    def leads(self, output: int, asked: Sequence[bool]) -> bool:
        """Tells whether any of the sources that are asked for is reached from one of the results."""
        way = self._way(asked)
        return way is None or way.reach.reaches(self._places[output])

    @property
    def remaining(self) -> int:
        """Returns how many results there are that backward has not come from."""
        return 0 if self.freed else sum([readers.remaining for readers in self._readers])

    @property
    def has_overwritten(self) -> bool:
        """Tells whether the program has written over anything that a backward pass may need."""
        return bool(self.plan.overwritten or self.plan.rewritten) or any(held.rewritten for _, held in self._held)

    def note_read(self, place: Place, held: Held) -> None:
        """Rows that were there before, of a tensor that may be written to."""
        self._held.append((place, held))

    def _refuse_overwritten(self, reached: Reach, way: Route | None) -> None:
        """Raises where backward has come through a node that needs what the program has written over."""
        nodes, rewritten = list(self.plan.overwritten), list(self.plan.rewritten)
        for place, held in self._held:
            if held.rewritten and not self._has_copy(place):  # else calls may read that
                rewritten.append((place.arena, place.begin, place.end - place.begin))
        for rows in rewritten:
            nodes += savers(self.plan, self._has_learned, *rows)
        steps = range(len(self.plan.steps)) if way is None else way.steps
        through = [place for number in steps for place in self.plan.steps[number].places] if nodes else []
        for arena, position in nodes:
            passed = any(at.arena == arena and at.begin <= position < at.end for at in through)
            if passed and reached.rows[arena][position]:
                call = self._provenance.describe(*self._provenance.producer(arena, position))
                raise modified(f"the result, or an operand, of the {call},")

    def _has_copy(self, place: Place) -> bool:
        """True if an array with memory of its own was made of any of these rows."""
        rows = [row for joined in self.plan.copied for row in joined]
        positions = self.plan.position[rows][self.plan.arena[rows] == place.arena]
        return bool(((positions >= place.begin) & (positions < place.end)).any())

    def _has_learned(self, place: Place, index: Any) -> bool:
        return bool(self._learned[place.arena][rows_at(place, index)].any())

    def _gradients_at(self, arenas: list[Any], place: Place) -> Any:
        return self._arena(arenas, place.arena)[place.begin : place.end]

    def _arena(self, arenas: list[Any], number: int) -> Any:
        if arenas[number] is None:
            arena = self.plan.arenas[number]
            shape = (arena.rows, *arena.spec.row_shape)
            dtype, device = dtype_named(arena.spec.dtype), device_named(arena.spec.device)
            arenas[number] = by_one_thread(torch.zeros, shape, dtype=dtype, device=device)
        return arenas[number]

    def _backward(
        self,
        ran: TapeEntry,
        arenas: list[Any],
        reached: Reach,
        found: dict[int, Any],
        free: bool,
        way: Route | None,
    ) -> bool:
        """Goes backward through a step; False if nothing depends on its results."""
        step = self.plan.steps[ran.number]
        given = [(k, result) for k, result in ran.results if reached.reaches(step.places[k])]
        if not given:
            return False
        heads = [(result, self._gradients_at(arenas, step.places[k])) for k, result in given]
        operands, consts = ran.operands, ran.consts
        if way is not None:
            operands = [operand for operand in operands if way.reach.reaches(operand.place, operand.index)]
            consts = [leaf for leaf in consts if id(leaf) in way.weights]
        inputs = [operand.rows for operand in operands] + consts
        if not inputs:
            return False
        results, gradients = zip(*heads)
        got = run_backward(results, gradients, not free, False, tuple(inputs), True, False)
        got = [with_memory(gradient) for gradient in got]
        for operand, gradient in zip(operands, got):
            if gradient is not None:
                self._add(operand, gradient, arenas)
        gone = [operand.operand for operand, gradient in zip(operands, got) if gradient is not None]
        reached.go(step, [k for k, _ in given], gone)
        for leaf, gradient in zip(consts, got[len(operands) :]):
            if gradient is not None:
                known = found.get(id(leaf))
                if gradient.layout is not torch.strided:  # of a sparse look-up; its own add_ takes no dense one
                    found[id(leaf)] = gradient if known is None else known + gradient
                elif known is None:  # a kernel may give one tensor for two weights, such as the biases of an LSTM
                    own = gradient.is_contiguous() and sum(gradient is other for other in got) == 1
                    found[id(leaf)] = gradient if own else gradient.clone(memory_format=torch.contiguous_format)
                elif known.layout is not torch.strided:
                    found[id(leaf)] = gradient + known
                else:
                    known.add_(gradient)
        if self._finite is not None:
            self._finite.gradients(ran.number, arenas, list(found.values()))
        return True

    def _backward_fused(
        self, ran: RanFused, arenas: list[Any], reached: Any, found: dict[int, Any], way: Route | None
    ) -> list[int]:
        """Goes backward through steps that ran in C; returns those that anything depends on."""
        assert self.fused is not None

        def learned(tensor: Any, reaches: bool) -> Any:
            leaf = self.constant(tensor)
            known = found.get(id(leaf))
            if known is None and not reaches:  # zeros are added, where eagerly there is no gradient
                return self._spare.setdefault(id(leaf), by_one_thread(torch.zeros_like, leaf, requires_grad=False))
            if known is None:
                known = found[id(leaf)] = by_one_thread(torch.zeros_like, leaf, requires_grad=False)
            elif known.layout is not torch.strided:
                known = found[id(leaf)] = known.to_dense()
            return known

        passed = None if way is None else frozenset(ran.stretch.steps) - way.steps
        went, took = self.fused.backward(ran, reached, passed, lambda number: self._arena(arenas, number), learned)
        self.report.row_ms += took
        if self._finite is not None:
            for number in went:
                self._finite.gradients(number, arenas, list(found.values()))
        return went

    def _add(self, operand: Learned, gradient: Any, arenas: list[Any]) -> None:
        arena = self._arena(arenas, operand.place.arena)
        if operand.sent is None:
            arena[operand.place.begin : operand.place.end].add_(gradient)
            return
        if gradient.untyped_storage().data_ptr() == arena.untyped_storage().data_ptr():
            gradient = gradient.clone()  # what was passed on unchanged is a part of the arena itself
        arena.index_add_(0, operand.sent, gradient)

    def _note_backward(self) -> None:
        """Warns where minibatches are captured and differentiated one sample at a time."""
        self.backwards += 1
        self.gone = True
        MINIBATCH.gone = True
        state = LOCAL.state
        if state.inside or MINIBATCH.passes > 1:  # a sample that differentiates by itself, or a checkpoint
            state.singles = 0
        elif state.one_at_a_time(self.samples, self.backwards == 1, current_backward()):
            line = line_of(user_line())
            one_at_a_time(f"{ONE_AT_A_TIME} {_ADVICE}", line)

    def _account(self, begin: float, laps: list[tuple[int, float]]) -> None:
        end = perf_counter()
        self.report.took("backward", "backward", begin, end)
        if self.profile:
            rest = end - begin - sum(seconds for _, seconds in laps)
            cost_model("torch", VERSIONS).observe_backward(ObservedBackward(self.plan, laps, rest))

    def free(self) -> None:
        """Forgets the history."""
        self.freed = True
        self.entries = []
        self._held = []
        self._gone = None
        self._spare = {}
        self.check = None
        self.fused = None


def _any(flags: Any) -> bool:
    """Tells whether one of these flags is set; numpy's own `any` takes ten times as long."""
    return 1 in flags.tobytes()


def _may_learn(plan: Plan, place: Place) -> bool:
    return plan.arenas[place.arena].spec.dtype in LEARNABLE
