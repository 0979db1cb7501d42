"""Backward through one flush on MXNet, which records each step with arenas and weights as variables.

Their gradients accumulate where MXNet computes them. What the flush is to MXNet's own history `backward` sees to.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any
from weakref import WeakSet

import mxnet as mx
import numpy as np
from mxnet import autograd
from mxnet.ndarray import NDArray

from gluonjit.analysis.plan import Gather, Place, Plan, Step
from gluonjit.engines.mxnet.framework.arrays import VERSIONS, context_of, fill_zero, host_view, room_for, zeros
from gluonjit.engines.mxnet.framework.originals import COPIES, original_backward, slice_rows
from gluonjit.engines.mxnet.framework.semantics import as_captured, as_shape, classic, learned_rows, shapes
from gluonjit.engines.mxnet.run.one_by_one import compute_alone
from gluonjit.engines.mxnet.run.program import program_of
from gluonjit.engines.mxnet.run.results import RecordedInput, Seed, Target, has_history
from gluonjit.engines.mxnet.run.statistics import Statistics
from gluonjit.graph.modes import is_recorded
from gluonjit.hybrid.run import tape
from gluonjit.hybrid.run.indices import Indices
from gluonjit.hybrid.run.reach import owners_of_result, roles_of
from gluonjit.hybrid.run.session import Session
from gluonjit.hybrid.run.tape import TapedStep

_count = iter(range(1 << 62))


def taken(source: NDArray, place: Place, index: NDArray | None, learned: bool) -> NDArray:
    """Rows of an arena, or of what stands for it where they are learned: those of an index, or else of a place."""
    if index is not None:
        return mx.nd.take(source, index)
    return (learned_rows if learned else slice_rows)(source, place.begin, place.end)


class Pass(tape.Pass):
    """One way back. `constants` are the addresses of the weights met on it."""

    def __init__(self, plan: Plan, arenas: Sequence[Any], train_mode: bool, dry: bool) -> None:
        super().__init__(plan, arenas, dry=dry)
        self.train_mode = train_mode
        self.constants: set[int] = set()

    def through(self, step: Step) -> bool:
        """Goes on from a step's results to its operands; False if none of the results has been reached."""
        results = self.results(step)
        for number in results:
            self.go(step, [number], self.operands(step, number))
        if results:  # a node is one: what is reached of it is so with all its results
            nodes = self.nodes(step, results)
            for number, place in enumerate(step.places):
                self.at(place)[:] |= True if nodes is None else nodes[owners_of_result(step, number)]
        return bool(results)

    def operands(self, step: Step, result: int) -> tuple[int, ...]:
        """The operands that gradients of a result go on to. Its weights are met."""
        program = program_of(step.kind)
        found = program.sources.get(result)
        if found is None:
            depends, count = program.depends[result], len(step.gathers)
            operands = tuple([k for k, (gather, _) in enumerate(roles_of(step.kind)) if gather in depends])
            consts = [k for k in range(len(program.consts)) if count + k in depends]
            found = program.sources[result] = operands, consts
        self.constants.update([id(program.consts[k]) for k in found[1]])
        return found[0]


class Tape(tape.Tape):
    """Backward through one flush. `done` are results where it has begun.

    `spent` is what backward went through without `retain_graph`: as with MXNet's own history that is no part of what
    follows.
    """

    bridges = 0  # values that MXNet's own history comes from: backward may come through them at any time
    arrays: Sequence[Any] = ()  # the rows of all arenas
    framework = "mxnet", VERSIONS
    _fresh = True  # gradients are zeros yet

    advice = (
        "Capture the losses of a minibatch first, then call backward once for their sum: "
        "gluonjit.add_n(losses).backward(), or autograd.backward(losses)."
    )

    def __init__(self, session: Session, samples: int) -> None:
        super().__init__(session, samples)
        plan = self.plan
        self.number = next(_count)  # later flushes are differentiated first
        self.later: WeakSet[Tape] = WeakSet()  # those of flushes that have gone on from results of this one
        self.sources: list[RecordedInput] = []
        self._constants: dict[int, tuple[NDArray, NDArray | None]] = {}  # weights, with their gradients
        self._lock = threading.Lock()  # MXNet calls bridges back in threads of its own
        self.done: set[tuple[int, int]] = set()
        self._variables: list[NDArray | None] = [None] * len(plan.arenas)
        self._gradients: list[NDArray | None] = [None] * len(plan.arenas)
        self._weights: dict[int, NDArray] = {}  # as variables of the steps' own recording
        self._copies: list[tuple[NDArray, NDArray]] = []  # of weights that steps have read
        self.statistics = Statistics(plan)
        self._begun = self.learned_rows  # of inputs

    @cached_property
    def rows_at(self) -> Callable[[Place], list[int]]:
        """A function that finds the graph's rows at a place, in the order in which they lie there."""
        places = zip(self.plan.arena.tolist(), self.plan.position.tolist())
        rows = {at: row for row, at in enumerate(places)}
        return lambda place: [rows[place.arena, position] for position in range(place.begin, place.end)]

    def track(self, arrays: Sequence[Any]) -> None:
        """Decides which arenas get gradients: those that steps write to under recording, and those of sources."""
        self.arrays = arrays
        wanted = {source.place.arena for source in self.sources}
        wanted.update(place.arena for step in self.plan.steps if is_recorded(step.mode) for place in step.places)
        for number in wanted:
            arena = self.plan.arenas[number]
            if arena.spec.dtype != "bool":  # MXNet adds up gradients of whole numbers, cut off, but no flags
                shape, context = (arena.rows, *arena.spec.row_shape), context_of(arena.spec.device)
                self._gradients[number] = zeros(shape, context, arena.spec.dtype)
        for source in self.sources:
            self.learn(source.place)
        self._begun = self.learned_rows.copy()

    def learn(self, place: Place) -> None:
        """Notes that gradients go through these rows, if they are no flags."""
        if self._gradients[place.arena] is not None:
            super().learn(place)

    def variable(self, number: int) -> NDArray:
        """An arena as a variable of the steps' own recording."""
        found = self._variables[number]
        if found is None:
            found = self.arrays[number]
            gradient = self._gradients[number]
            if gradient is not None:
                found = found.detach()
                autograd.mark_variables([found], [gradient], "add")
            self._variables[number] = found
        return found

    def constant(self, given: NDArray, adds: bool) -> NDArray:
        """A weight as a variable of the steps' own recording, if it is learned.

        Where what uses it does not add to a gradient rightly (`adds`), a view stands between them.
        """
        gradient, variable = self._constant(given), self._weights.get(id(given))
        if variable is None:
            variable = classic(given).detach()
            # MXNet forgets about an array that is no variable after the first backward: each step gets its own.
            if gradient is None:
                return variable
            autograd.mark_variables([variable], [gradient], "add")
            self._weights[id(given)] = variable
        if adds:
            return variable
        return learned_rows(variable, 0, given.shape[0]) if given.shape else as_shape(variable, ())

    def _constant(self, given: NDArray) -> NDArray | None:
        """Room for the gradient of a weight, if it is learned."""
        known = self._constants.get(id(given))
        if known is None:
            gradient = None
            if has_history(classic(given)):
                gradient = zeros(given.shape, given.context, given.dtype)
            known = self._constants[id(given)] = (given, gradient)
        return known[1]

    def gradient_of(self, made: Pass, weight: NDArray) -> NDArray | None:
        return self._constants.get(id(weight), (None, None))[1]

    def gathered(self, gather: Gather, index: NDArray | None) -> NDArray:
        """The rows of a gather, recorded where they learn; the index is on their device."""
        place, learned = gather.place, self.learns(gather.place, gather.index)
        return taken(self.variable(place.arena) if learned else self.arrays[place.arena], place, index, learned)

    def note(self, number: int, results: list[NDArray]) -> None:
        """Remembers a step that was recorded; one without anything learned before it was not."""
        self._copies += COPIES
        COPIES.clear()
        step = self.plan.steps[number]
        program = program_of(step.kind)
        sources = [self.learns(gather.place, gather.index) for gather in step.gathers]
        sources += [self._constant(array) is not None for array in program.consts]
        if any([used and source for used, source in zip(program.used, sources)]):
            self.entries.append(TapedStep(number, [*enumerate(results)]))
            for place in step.places:
                self.learn(place)

    def learns_weight(self, weight: NDArray) -> bool:
        return self._constant(weight) is not None

    def shares_parts(self) -> bool:
        """True if calls of several samples have a part of a weight in common, which eager execution takes for each."""
        return any([gradient is not None and array.grad is None for array, gradient in self._constants.values()])

    def put_head(self, made: Pass, arena: int, positions: list[int], head: Any) -> None:
        gradient: Any = made.arenas[arena]
        numbers = gradient.asnumpy()
        numbers[positions] = head.reshape(len(positions), *numbers.shape[1:])
        gradient._sync_copyfrom(numbers)

    def record_again(self, number: int) -> None:
        step = self.plan.steps[number]
        results = [room_for(self.plan.arenas[at.arena].spec, at.end - at.begin) for at in step.places]
        with as_captured(step.mode), shapes(program_of(step.kind).numpy):
            indices = Indices(self.runner)
            indices.upload(self.plan, [number])
            operands = [self.gathered(*each) for each in zip(step.gathers, indices.gathers[number])]
            consts = [self.constant(array, False) for array in program_of(step.kind).consts]
            compute_alone(step, operands, consts, results)
        self.note(number, results)

    def new_pass(self, route: Any = None, dry: bool = False, train_mode: bool = True) -> Pass:
        """Makes a pass, which weights are read anew for: after pending writes to them, as MXNet's own backward does."""
        made = Pass(self.plan, self._gradients, train_mode, dry)
        made.weights = {key: gradient for key, (_, gradient) in self._constants.items() if gradient is not None}
        if not dry:
            if not self._fresh:
                for array in [*self._gradients, *made.weights.values()]:
                    if array is not None:
                        fill_zero(array)
            self._fresh = False
            self.fused.steps.forget_weights()
        return made

    def gradients(
        self, seeds: Sequence[Seed], retain: bool, train_mode: bool, hold: bool = False
    ) -> tuple[list[Target], Pass]:
        """Gradients of everything before the flush, given those of some of its rows; and the pass that found them.

        History is kept where `retain` or `hold` says so, and where there is some that these rows do not depend on. With
        `hold` it is spent nevertheless. Where MXNet's own history comes from the flush too, its backward comes back
        here, from another thread, before these gradients have been used: then they are copies.
        """
        self.gone = True
        if not self.bridges:
            return self._backward(seeds, retain, train_mode, hold)
        with self._lock:
            found, made = self._backward(seeds, retain, train_mode, True)
            return [target._replace(gradient=target.gradient.copy()) for target in found], made

    def _backward(self, seeds: Sequence[Seed], retain: bool, train_mode: bool, hold: bool) -> tuple[list[Target], Pass]:
        self.compare()
        made = self.new_pass(train_mode=train_mode)
        for place, given in seeds:
            if self._gradients[place.arena] is not None:  # else numbers without gradients, such as integers
                made.start(place)
                self._add_seed(place, given)
                if self.finite is not None:
                    self.finite.head(given)
        with as_captured(0):  # as MXNet's own backward reads weights as they are now
            for array, copy in self._copies:
                mx.nd.identity(array, out=copy)
        if not train_mode:
            self.statistics.lend()
        gone = self.go_back(made)
        if train_mode:
            self.statistics.passed(gone, made)
        else:
            self.statistics.take_back()
        if not retain:
            self.spent.add(made)
        targets = self._targets(made)
        if not (retain or hold or self.bridges or self._awaited()) and self._all_spent():
            self.free()
        return targets, made

    def step_back(self, entry: TapedStep, made: Pass) -> bool:
        step = self.plan.steps[entry.number]
        program = program_of(step.kind)
        if all([self._gradients[place.arena] is None for place in step.places]) or not made.through(step):
            return False
        if not made.dry:
            heads = [
                (result, self._rows(place))
                for (_, result), place, depends in zip(entry.results, step.places, program.depends)
                if depends
                and self._gradients[place.arena] is not None
                and (program.stages is None or has_history(result))
            ]
            with shapes(program.numpy):  # kept until the pass is over, which may free all
                original_backward(*map(list, zip(*heads)), True, made.train_mode)
        return True

    def _add_seed(self, place: Place, given: NDArray) -> None:
        """Adds a given gradient to that of its rows, in the host's memory where a step in C comes to them next."""
        rows = self._rows(place)
        to, view = (host_view(rows), host_view(given)) if self.fused.steps.begun else (None, None)
        if to is not None and view is not None and to.dtype == view.dtype == np.float32:
            to += view.reshape(to.shape)
        else:
            mx.nd.elemwise_add(rows, given, out=rows)

    @property
    def profiles(self) -> bool:
        """True if each step is waited for. Not where MXNet may call back: it would wait for the call to end."""
        return self.profile and not self.bridges

    def reached(self, places: Sequence[Place]) -> tuple[Pass, list[int]]:
        """Finds what gradients of these rows would reach, and the steps on the way."""
        made = self.new_pass(dry=True)
        for place in places:
            if self._gradients[place.arena] is not None:
                made.start(place)
        return made, self.go_back(made)

    def origins(self, places: Sequence[Place]) -> list[Target]:
        """Finds what gradients of these rows go on to."""
        return [target for target in self._targets(self.reached(places)[0]) if target.reached]

    def _targets(self, made: Pass) -> list[Target]:
        weights = [
            Target(gradient, id(array) in made.constants, array)
            for array, gradient in self._constants.values()
            if gradient is not None
        ]
        sources = [source for source in self.sources if self._gradients[source.place.arena] is not None]
        return weights + [self._target(source, made.reaches(source.place)) for source in sources]

    def _target(self, source: RecordedInput, reached: bool) -> Target:
        place, spec, array, value, again = source
        rows = self._rows(place)
        if reached and array is not None:
            rows = rows.reshape(spec.shape)
        return Target(rows, reached, array, value, again)

    def _awaited(self) -> bool:
        """True if backward may come from a later flush. Sharing may go through what has been gone through."""
        return any(not tape.freed for tape in self.later)

    def _all_spent(self) -> bool:
        """True if backward has gone through all rows that have been computed from something that learns."""
        return not (self.learned_rows > (self._begun | self.spent.flags)).any()

    def _rows(self, place: Place) -> NDArray:
        gradient = self._gradients[place.arena]
        assert gradient is not None
        return slice_rows(gradient, place.begin, place.end)

    def free(self) -> None:
        """Forgets the history, and with it the arenas."""
        super().free()
        self.arrays = ()
        self._variables = []
        self._gradients = []
        self._constants = {}
        self._weights = {}
        self.sources = []
