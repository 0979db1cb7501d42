"""Backward through one flush on PyTorch, which records each step with its gathered operands and weights as leaves.

To PyTorch's autograd the flush is one function of the weights and the inputs (`history`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from gluonjit.analysis.plan import Place
from gluonjit.engines.torch.framework.arrays import (
    LEARNABLE,
    VERSIONS,
    by_one_thread,
    device_named,
    dtype_named,
    with_memory,
)
from gluonjit.engines.torch.framework.input_version import InputVersion, modified, version_of
from gluonjit.engines.torch.framework.originals import data_of, run_backward
from gluonjit.engines.torch.run.chunks import TWICE, Chunk, Readers, current_backward, note_reached
from gluonjit.engines.torch.run.one_by_one import compute_alone, run_step
from gluonjit.engines.torch.run.overwrites import savers
from gluonjit.engines.torch.run.program import pieces, program_of
from gluonjit.graph.kinds import ENOUGH
from gluonjit.hybrid.check.steps import distrust
from gluonjit.hybrid.explain.minibatch import MINIBATCH
from gluonjit.hybrid.run import tape
from gluonjit.hybrid.run.indices import Indices
from gluonjit.hybrid.run.reach import Route, part_of, route, rows_at
from gluonjit.hybrid.run.session import Session
from gluonjit.hybrid.run.state import LOCAL
from gluonjit.hybrid.run.tape import TapedStep
from gluonjit.rows.stretches import StepStretch

_ADVICE = (
    "Capture the losses of a minibatch first, then call backward once for their sum: sum(losses).backward(), or "
    "torch.autograd.backward(losses)."
)


class HookedResult(NamedTuple):
    """A result with hooks: where its rows lie, its shape, and the hooks, that of `retain_grad` last."""

    place: Place
    shape: tuple[int, ...]
    hooks: OrderedDict[int, Callable[[Any], Any]]
    last: list[Callable[[Any], None]]

    def run(self, rows: Any) -> None:
        """Runs the hooks on the rows' gradient, which the program sees as anywhere else; they may replace it."""
        state = LOCAL.state
        before, state.paused = state.paused, 0
        try:
            for hook in [*self.hooks.values(), *self.last]:
                found = hook(rows.clone().reshape(self.shape))
                if found is not None:
                    rows.copy_(found.detach().reshape(rows.shape))
        finally:
            state.paused = before


def apart(steps: list[Any], observed: dict[int, list[HookedResult]]) -> Iterator[tuple[Any, int, list[HookedResult]]]:
    """Gives what ran, the last first, with the number of its last step and what is observed of that step's results.

    Steps that ran in C in one go are parted after each of those.
    """
    for ran in reversed(steps):
        if not isinstance(ran, StepStretch):
            yield ran, ran.number, observed.get(ran.number, [])
            continue
        end = len(ran.steps)
        for k in range(end - 1, -1, -1):
            if k == 0 or ran.steps[k - 1] in observed:
                part = ran.part(k, end)
                yield part, part.steps[-1], observed.get(part.steps[-1], [])
                end = k


class Learned(NamedTuple):
    """An operand that gradients go through: rows of an arena, those of an index, or where that is None a place.

    sent: the index as it lies on the device; operand: its number among those that the program gets.
    """

    operand: int
    place: Place
    index: Any
    sent: Any
    rows: Any


Again = Callable[["Tape", Sequence[Any], Sequence[bool]], "list[Any]"]


class Pass(tape.Pass):
    """One way back. Arenas of gradients are made where it comes to them.

    free: whether nobody comes to the history after it; sources: the weights that gradients of a step in C go on to, by
    identity; spare: where nobody reads it, the gradient of a weight.
    """

    def __init__(self, taped: Tape, route: Route | None) -> None:
        super().__init__(taped.plan, [None] * len(taped.plan.arenas), route)
        self._tape, self.free = taped, False
        self.sources: Collection[int] = ()
        self.spare: dict[int, Any] = {}

    def arena(self, number: int) -> Any:
        """The gradients of an arena's rows."""
        arenas: Any = self.arenas
        if arenas[number] is None:
            arena = self._tape.plan.arenas[number]
            shape = (arena.rows, *arena.spec.row_shape)
            dtype, device = dtype_named(arena.spec.dtype), device_named(arena.spec.device)
            arenas[number] = by_one_thread(torch.zeros, shape, dtype=dtype, device=device)
        return arenas[number]

    def of(self, place: Place) -> Any:
        """The gradients of rows."""
        return self.arena(place.arena)[place.begin : place.end]

    def learned(self, weight: Any) -> Any:
        """The gradient of a weight: where none reaches it, zeros are added, and eagerly there is no gradient."""
        leaf = self._tape.constant(weight)
        known = self.weights.get(id(leaf))
        if known is None:
            rooms = self.weights if id(weight) in self.sources else self.spare
            return rooms.setdefault(id(leaf), by_one_thread(torch.zeros_like, leaf, requires_grad=False))
        if known.layout is not torch.strided:
            known = self.weights[id(leaf)] = known.to_dense()
        return known


class Tape(tape.Tape):
    """The history of one flush."""

    again: Again  # what gives gradients that can be differentiated
    advice, framework = _ADVICE, ("torch", VERSIONS)

    def __init__(self, session: Session, samples: int) -> None:
        super().__init__(session, samples)
        self._readers: list[Readers] = []
        self._places: list[Place] = []
        self._inputs: list[tuple[Place, Any]] = []
        self._held: list[tuple[Place, InputVersion]] = []
        self.observed: dict[int, list[HookedResult]] = {}  # results that have hooks, by step
        self._constants: dict[int, tuple[Any, Any]] = {}  # a weight, and what stands for it in the steps
        self._versions: list[int] = []  # of these weights, as they were

    def note_input(self, place: Place, rows: Any) -> None:
        """Rows that were there before, from which gradients go on."""
        self._inputs.append((place, rows))
        self.learn(place)

    def constant(self, tensor: Any) -> Any:
        """A weight as a leaf of the steps' own recording, if it is learned."""
        if not tensor.requires_grad:
            return tensor
        known = self._constants.get(id(tensor))
        if known is None:
            known = self._constants[id(tensor)] = (tensor, tensor.detach().requires_grad_())
            self._versions.append(version_of(tensor))
        return known[1]

    def learns_weight(self, weight: Any) -> bool:
        return self.constant(weight) is not weight

    def run(self, number: int, operands: list[Any], indices: list[Any], besides: Sequence[Any]) -> list[Any]:
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
                self._read[place.arena][rows_at(place, index)] = True
                if self.learns(place, index):
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
            self.entries.append(TapedStep(number, recorded, learned, weights))
            for k, _ in recorded:
                self.learn(step.places[k])
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
        alone = compute_alone(step, given, consts)
        if not any([alone[k].requires_grad for k in lost]):
            return results
        names = ", ".join(dict.fromkeys([op.name for op in step.kind.call.ops]))
        text = f"a result of {names} has no gradient batched, and one for one sample (on {step.kind.operands})"
        distrust(checks, self.report, step.kind, text)
        return alone

    def put_head(self, made: Pass, arena: int, positions: list[int], head: Any) -> None:
        room = made.arena(arena)
        room[positions] = torch.from_numpy(head).to(room).reshape(len(positions), *room.shape[1:])

    def gradient_of(self, made: Pass, weight: Any) -> Any:
        known = self._constants.get(id(weight))
        return None if known is None else made.weights.get(id(known[1]), torch.zeros_like(weight))

    def record_again(self, number: int) -> None:
        assert self.check is not None
        indices = Indices(self.runner)
        indices.upload(self.plan, [number])
        operands = [
            self.check.arrays[gather.place.arena][rows_at(gather.place, index)]
            for gather, index in zip(self.plan.steps[number].gathers, indices.gathers[number])
        ]
        self.run(number, operands, indices.gathers[number], indices.besides.get(number, ()))

    def sources(self) -> list[Any]:
        """Lists what `gradients` gives gradients for, in its order."""
        return [tensor for tensor, _ in self._constants.values()] + [rows for _, rows in self._inputs]

    def versions(self) -> list[tuple[Any, int]]:
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
        self._inputs = [(place, rows) for place, rows in self._inputs if self._read[place.arena][rows_at(place)].any()]
        self._places = [
            place for place in chunks if self.learns(place) and self.plan.arenas[place.arena].spec.dtype in LEARNABLE
        ]
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
        begin = self.now()
        self._note_backward()
        if any([version_of(tensor) != version for tensor, version in self.versions()]):
            self.check = None  # traces have the weights of now
        self.compare()
        made = self.new_pass(self._way(asked))
        for place, head, readers in zip(self._places, heads, self._readers):
            if head is not None:
                made.of(place).add_(head)
                given = readers.take_given(place.end - place.begin)
                if not readers.shared and (self.spent.at(place) & given).any():
                    raise RuntimeError(TWICE)
                made.at(place)[:] |= given
                if self.finite is not None:
                    self.finite.head(head)
        made.free = not retain and all(readers.spent for readers in self._readers)
        self.go_back(made)
        self._refuse_overwritten(made)
        gradients = [made.weights.get(id(leaf)) for _, leaf in self._constants.values()]
        gradients += [made.of(place) if made.reaches(place) else None for place in self.places()]
        for place, tensor in self._inputs:
            note_reached(tensor, made, place)
        if made.free:
            self.free()
        elif not retain:
            self.spent.add(made)
        rest, _ = self.account(made, begin)
        self.observe(made, rest)
        return gradients

    def new_pass(self, route: Route | None = None, dry: bool = False) -> Pass:
        return Pass(self, route)

    def entries_back(self, made: Pass) -> Iterator[Any]:
        """Runs the hooks of results before a pass goes on from them."""
        for ran, number, results in apart(self.entries, self.observed):
            for result in results:
                if made.reaches(result.place) and (made.route is None or number in made.route.steps):
                    result.run(made.of(result.place))
            yield ran

    def _way(self, asked: Sequence[bool]) -> Route | None:
        """The way to the sources that are asked for; None if all are."""
        if all(asked):
            return None
        weights = {id(tensor) for pair, wanted in zip(self._constants.values(), asked) if wanted for tensor in pair}
        inputs = zip(self._inputs, asked[len(self._constants) :])
        return route(self.plan, [place for (place, _), wanted in inputs if wanted], weights, self.learns)

    def leads(self, output: int, asked: Sequence[bool]) -> bool:
        """True if any of the sources that are asked for is reached from one of the results."""
        way = self._way(asked)
        return way is None or way.reach.reaches(self._places[output])

    @property
    def remaining(self) -> int:
        """Returns how many results there are that backward has not come from."""
        return 0 if self.freed else sum([readers.remaining for readers in self._readers])

    @property
    def has_overwritten(self) -> bool:
        """True if the program has written over anything that a backward pass may need."""
        return bool(self.plan.rewritten) or any(held.rewritten for _, held in self._held)

    def note_read(self, place: Place, held: InputVersion) -> None:
        """Rows that were there before, of a tensor that may be written to."""
        self._held.append((place, held))

    def _refuse_overwritten(self, made: Pass) -> None:
        """Raises where backward has come through a node that needs what the program has written over."""
        rewritten = list(self.plan.rewritten)
        for place, held in self._held:
            if held.rewritten and not self._has_copy(place):  # else calls may read that
                rewritten.append((place.arena, place.begin, place.end - place.begin, -1))
        nodes = list(savers(self.plan, self.learns, rewritten)) if rewritten else []
        steps = range(len(self.plan.steps)) if made.route is None else made.route.steps
        through = [place for number in steps for place in self.plan.steps[number].places] if nodes else []
        for arena, position in nodes:
            passed = any(at.arena == arena and at.begin <= position < at.end for at in through)
            if passed and made.rows[arena][position]:
                call = self.provenance.describe(*self.provenance.producer(arena, position))
                raise modified(f"the result, or an operand, of the {call},")

    def _has_copy(self, place: Place) -> bool:
        """True if an array with memory of its own was made of any of these rows."""
        rows = [row for joined in self.plan.copied for row in joined]
        positions = self.plan.position[rows][self.plan.arena[rows] == place.arena]
        return bool(((positions >= place.begin) & (positions < place.end)).any())

    def step_back(self, entry: TapedStep, made: Pass) -> bool:
        step, route, found = self.plan.steps[entry.number], made.route, made.weights
        given = [(k, result) for k, result in entry.results if made.reaches(step.places[k])]
        operands, consts = entry.operands, entry.consts
        if route is not None:
            operands = [operand for operand in operands if route.reach.reaches(operand.place, operand.index)]
            consts = [leaf for leaf in consts if id(leaf) in route.weights]
        inputs = [operand.rows for operand in operands] + [*consts]
        if not given or not inputs:
            return False
        results, gradients = zip(*[(result, made.of(step.places[k])) for k, result in given])
        got = run_backward(results, gradients, not made.free, False, tuple(inputs), True, False)
        got = [with_memory(gradient) for gradient in got]
        for operand, gradient in zip(operands, got):
            if gradient is not None:
                self._add(operand, gradient, made)
        gone = [operand.operand for operand, gradient in zip(operands, got) if gradient is not None]
        made.go(step, [k for k, _ in given], gone)
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
        return True

    def _add(self, operand: Learned, gradient: Any, made: Pass) -> None:
        arena = made.arena(operand.place.arena)
        if operand.sent is None:
            made.of(operand.place).add_(gradient)
            return
        if gradient.untyped_storage().data_ptr() == arena.untyped_storage().data_ptr():
            gradient = gradient.clone()  # what was passed on unchanged is a part of the arena itself
        arena.index_add_(0, operand.sent, gradient)

    def _note_backward(self) -> None:
        """Notes a pass; no warning of minibatches that are differentiated in parts where one differentiates itself."""
        self.gone = MINIBATCH.gone = True
        if LOCAL.state.inside or MINIBATCH.passes > 1:  # a sample that differentiates by itself, or a checkpoint
            self.backwards += 1
            LOCAL.state.singles = 0
        else:
            self.note_pass(current_backward())

    def free(self) -> None:
        super().free()
        self._held = []
