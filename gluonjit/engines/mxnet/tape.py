"""Backward through one flush: step by step in reverse, with the gradients of rows in separate arenas.

MXNet records each step by itself, with the arenas and the weights as variables whose gradients accumulate. So gathers
cost no zero-filled gradient of a whole arena, and each weight gets one gradient for the whole flush.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from time import perf_counter
from typing import Any, NamedTuple
from weakref import WeakSet

import mxnet as mx
import numpy as np
from mxnet import autograd
from mxnet.ndarray import NDArray

from gluonjit.analysis.plan import Gather, Place, Step, row_bytes
from gluonjit.engines.mxnet.arrays import address_of, context_of, host_view, room_for, sent, view_at
from gluonjit.engines.mxnet.filling import fill_zero, zeros
from gluonjit.engines.mxnet.one_by_one import compute_alone
from gluonjit.engines.mxnet.originals import COPIES, original_backward, slice_rows
from gluonjit.engines.mxnet.program import program_of
from gluonjit.engines.mxnet.reach import Reach
from gluonjit.engines.mxnet.results import LIVING, RecordedInput, Seed, Target, has_history
from gluonjit.engines.mxnet.semantics import as_captured, as_shape, classic, learned_rows, shapes
from gluonjit.engines.mxnet.statistics import Statistics
from gluonjit.graph import Kind
from gluonjit.graph.modes import is_recorded
from gluonjit.hybrid.check.entries import entry_of, replace_step
from gluonjit.hybrid.run import tape
from gluonjit.hybrid.run.stepping import SteppedSession
from gluonjit.rows.stretches import StepStretch
from gluonjit.rows.ways import Learning


class RecordedStep(NamedTuple):
    """A step that was recorded, as gradients go through it, and its results."""

    number: int
    results: Sequence[NDArray]


_Way = tuple[int, Sequence[NDArray], Sequence[tuple[int, int]]]
"""The last step of what backward goes through at once, its results, or steps that ran in C, each with its way."""


_count = iter(range(1 << 62))


class Tape(tape.Tape):
    """Backward through one flush. `done` are results where it has begun.

    `spent` is what backward went through without `retain_graph`: as with MXNet's own history that is no part of what
    follows. `entered`: the rows that MXNet would have in a graph (see `refusals`).
    """

    entered: Any = None
    bridges = 0  # values that MXNet's own history comes from: backward may come through them at any time
    arrays: Sequence[Any] = ()  # the rows of all arenas
    laps: Sequence[tuple[int, float, float]] = ()  # when profiling, of the last backward: step, begin, end
    _fresh = True  # gradients are zeros yet

    advice = (
        "Capture the losses of a minibatch first, then call backward once for their sum: "
        "gluonjit.add_n(losses).backward(), or autograd.backward(losses)."
    )

    def __init__(self, session: SteppedSession, samples: int) -> None:
        super().__init__(session, samples)
        plan = self.plan
        self.number = next(_count)  # later flushes are differentiated first
        self.spent = Reach(plan)
        self.later: WeakSet[Tape] = WeakSet()  # those of flushes that have gone on from results of this one
        self.sources: list[RecordedInput] = []
        self.read: dict[int, tuple[NDArray, Place]] = {}  # by their address, arrays of the program that learn nothing
        self._constants: dict[int, tuple[NDArray, NDArray | None]] = {}  # weights, with their gradients
        self._lock = threading.Lock()  # MXNet calls bridges back in threads of its own
        self.done: set[tuple[int, int]] = set()
        self._addresses: dict[int | tuple[str, int], int] = {}  # of gradients that MXNet is not writing to
        self._variables: list[NDArray | None] = [None] * len(plan.arenas)
        self._gradients: list[NDArray | None] = [None] * len(plan.arenas)
        self._weights: dict[int, NDArray] = {}  # as variables of the steps' own recording
        self._copies: list[tuple[NDArray, NDArray]] = []  # of weights that steps have read
        self.statistics = Statistics(plan)
        self._begun = self.learned_rows  # rows that no step computes, or without gradients
        LIVING.add(self)

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
        for source in self.sources:
            self.learn(source.place)
        wanted.update(place.arena for step in self.plan.steps if is_recorded(step.mode) for place in step.places)
        for number in wanted:
            arena = self.plan.arenas[number]
            if arena.spec.dtype != "bool":  # MXNet adds up gradients of whole numbers, cut off, but no flags
                shape, context = (arena.rows, *arena.spec.row_shape), context_of(arena.spec.device)
                self._gradients[number] = self._zeros(number, shape, context, arena.spec.dtype)
        self._begun = self.learned_rows.copy()
        begin = 0
        for arena, gradient in zip(self.plan.arenas, self._gradients):
            if gradient is None:
                self._begun[begin : begin + arena.rows] = True
            begin += arena.rows

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
                gradient = self._zeros(("constant", id(given)), given.shape, given.context, given.dtype)
            known = self._constants[id(given)] = (given, gradient)
        return known[1]

    def _zeros(self, key: int | tuple[str, int], shape: tuple[int, ...], context: Any, dtype: Any) -> NDArray:
        """Zeros for a gradient; where they lie is known until MXNet writes there."""
        array, address = zeros(shape, context, dtype)
        if address is not None:
            self._addresses[key] = address
        return array

    def gradient_of(self, given: NDArray) -> NDArray | None:
        """The gradient of a constant, None where it is not learned."""
        return self._constants[id(given)][1]

    def gradient_address(self, arena: int) -> int:
        """The address of the gradients of an arena's rows."""
        return self._address(arena, self._gradients[arena])

    def learned_address(self, given: NDArray) -> int:
        """The address of the gradient of a constant."""
        return self._address(("constant", id(given)), self.gradient_of(given))

    def _address(self, key: int | tuple[str, int], array: NDArray | None) -> int:
        found = self._addresses.get(key)
        if found is None:
            assert array is not None
            found = self._addresses[key] = address_of(array)
        return found

    def gathers(self, gather: Gather) -> bool:
        """True if any of these rows is or was computed from something that gets a gradient."""
        return self._gradients[gather.place.arena] is not None and self.learns(gather.place, gather.index)

    def note(self, number: int, results: list[NDArray]) -> None:
        """Remembers a step that was recorded; one without anything learned before it was not."""
        self._copies += COPIES
        COPIES.clear()
        step = self.plan.steps[number]
        program = program_of(step.kind)
        sources = [*map(self.gathers, step.gathers), *[self.gradient_of(array) is not None for array in program.consts]]
        if any([used and source for used, source in zip(program.used, sources)]):
            self.entries.append(RecordedStep(number, results))
            for place in step.places:
                self.learn(place)

    def weights(self, kind: Kind) -> tuple[bool, ...]:
        """Returns for each constant of steps that are to run in C True if it learns."""
        return tuple([self._constant(array) is not None for array in program_of(kind).consts])

    def learning(self, kind: Kind, operands: frozenset[int], weights: tuple[bool, ...]) -> Learning:
        """Tells what learns in such a step, given its operands and weights that do."""
        program = program_of(kind)
        groups = [group for group, roles in enumerate(kind.groups) for _ in roles]
        learns = any([program.used[groups[operand]] for operand in operands])
        learns = learns or any([used and learned for used, learned in zip(program.used[len(kind.groups) :], weights)])
        results = range(len(kind.outputs))  # all of them are of float32
        return Learning([k for k, learned in enumerate(weights) if learned], results, results if learns else (), learns)

    def learned_at(self, arena: int, rows: Any) -> bool:
        """True if gradients go through all of these rows."""
        return self._gradients[arena] is not None and super().learned_at(arena, rows)

    def trial(self, number: int, heads: Sequence[tuple[int, Sequence[int], Any]]) -> tuple[Any, Any]:
        """Goes back through a step alone from gradients of rows; returns what reads those of rows, and of a weight."""
        step = self.plan.steps[number]
        arenas = {place.arena for place in (*step.places, *[gather.place for gather in step.gathers])}
        rooms: dict[Any, NDArray | None] = {arena: self._gradients[arena] for arena in arenas}
        rooms |= zip(map(id, program_of(step.kind).consts), self._gradients_of(step))
        try:
            self._try(number, heads)
            found = {key: room.asnumpy() for key, room in rooms.items() if room is not None}
        finally:
            self._fill_zero(rooms.values())
        return lambda arena, positions: found[arena][list(positions)], lambda array: found.get(id(array))

    def _try(self, number: int, heads: Sequence[tuple[int, Sequence[int], Any]]) -> None:
        for arena, positions, head in heads:
            gradient: Any = self._gradients[arena]
            numbers = gradient.asnumpy()
            numbers[list(positions)] = head.reshape(len(positions), *numbers.shape[1:])
            gradient._sync_copyfrom(numbers)
        _, entry, place = entry_of(self.entries, number)
        step = self.plan.steps[number]
        if isinstance(entry, StepStretch):
            self.fused.begin_backward()
            self.fused.backward([(number, entry.ways[place])])
        else:
            results, gradients = zip(*self._with_gradients(step, entry.results))
            with shapes(program_of(step.kind).numpy):
                original_backward(list(results), list(gradients), True, True)

    def redo(self, number: int) -> None:
        """Runs a step once more, recorded, in place of what was recorded of it."""
        step = self.plan.steps[number]
        results = [room_for(self.plan.arenas[at.arena].spec, at.end - at.begin) for at in step.places]
        with as_captured(step.mode), shapes(program_of(step.kind).numpy):
            operands = [self._gathered(gather) for gather in step.gathers]
            consts = [self.constant(array, False) for array in program_of(step.kind).consts]
            compute_alone(step, operands, consts, results)
        replace_step(self.entries, number, [RecordedStep(number, results)])

    def _gathered(self, gather: Gather) -> NDArray:
        """The rows of a gather, recorded."""
        place = gather.place
        source = self.variable(place.arena) if self.gathers(gather) else self.arrays[place.arena]
        if gather.index is None:
            return (learned_rows if self.gathers(gather) else slice_rows)(source, place.begin, place.end)
        return mx.nd.take(source, sent(gather.index.astype(np.int32), source.context))

    def gradients(self, seeds: Sequence[Seed], retain: bool, train_mode: bool, hold: bool = False) -> list[Target]:
        """Gradients of everything before the flush, given those of some of its rows.

        History is kept where `retain` or `hold` says so, and where there is some that these rows do not depend on. With
        `hold` it is spent nevertheless. Where MXNet's own history comes from the flush too, its backward comes back
        here, from another thread, before these gradients have been used: then they are copies.
        """
        self.gone = True
        if not self.bridges:
            return self._backward(seeds, retain, train_mode, hold)
        with self._lock:
            found = self._backward(seeds, retain, train_mode, True)
            return [target._replace(gradient=target.gradient.copy()) for target in found]

    def _backward(self, seeds: Sequence[Seed], retain: bool, train_mode: bool, hold: bool) -> list[Target]:
        if self.check is not None:
            self.check.backward(self)
            self.check = None
        reach, steps = self._reached([place for place, _ in seeds])
        if not retain:
            self.spent.add(reach)
        keep = retain or hold or self.bridges > 0 or self._awaited() or not self._all_spent()
        if not self._fresh:
            self._fill_zero([*self._gradients, *[gradient for _, gradient in self._constants.values()]])
        self._fresh = False
        for place, given in seeds:
            if self._gradients[place.arena] is not None:  # else numbers without gradients, such as integers
                self._add_seed(place, given)
                if self.finite is not None:
                    self.finite.head(given)
        self.fused.begin_backward()
        with as_captured(0):  # as MXNet's own backward reads weights as they are now
            for array, copy in self._copies:
                mx.nd.identity(array, out=copy)
        if not train_mode:
            self.statistics.lend()
        laps, begin = [], self._now()
        for number, results, going in steps:
            step = self.plan.steps[number]
            if going:
                self.report.row_ms += self.fused.backward(going)
            else:
                heads, head_gradients = zip(*self._with_gradients(step, results))
                with shapes(program_of(step.kind).numpy):
                    original_backward(list(heads), list(head_gradients), keep, train_mode)
                self._addresses.clear()
            end = self._now()
            laps.append((number, begin, end))
            begin = end
            if self.finite is not None:
                self.finite.gradients(number, self._gradients, self._gradients_of(step))
        self.laps = laps if self.profiles else ()
        if train_mode:
            self.statistics.passed([number for number, _, _ in steps], reach)
        else:
            self.statistics.take_back()
        targets = self._targets(reach)
        if not keep:
            self.free()
        return targets

    def _add_seed(self, place: Place, given: NDArray) -> None:
        """Adds a given gradient to that of its rows, in the host's memory where a step in C comes to them next."""
        spec, address = self.plan.arenas[place.arena].spec, self._addresses.get(place.arena)
        if self.fused.steps.begun and address is not None and spec.dtype == "float32":
            size, view = row_bytes(spec), host_view(given)
            if view is not None and view.dtype == np.float32:
                rows = view_at(address + place.begin * size, len(given) * size)
                rows += view.reshape(-1)
                return
        rows = self._rows(place)
        mx.nd.elemwise_add(rows, given, out=rows)
        self._addresses.pop(place.arena, None)

    def _fill_zero(self, arrays: Iterable[NDArray | None]) -> None:
        for array in arrays:
            if array is not None:
                fill_zero(array)
        self._addresses.clear()

    def _now(self) -> float:
        """The time, when profiling after all that came before has run."""
        if self.profiles:
            mx.nd.waitall()
        return perf_counter()

    @property
    def profiles(self) -> bool:
        """True if each step is waited for. Not where MXNet may call back: it would wait for the call to end."""
        return self.profile and not self.bridges

    def origins(self, places: Sequence[Place]) -> list[Target]:
        """Finds what gradients of these rows go on to."""
        return [target for target in self._targets(self._reached(places)[0]) if target.reached]

    def _targets(self, reach: Reach) -> list[Target]:
        weights = [
            Target(gradient, id(array) in reach.constants, array)
            for array, gradient in self._constants.values()
            if gradient is not None
        ]
        sources = [source for source in self.sources if self._gradients[source.place.arena] is not None]
        return weights + [self._target(source, reach.reaches(source.place)) for source in sources]

    def _target(self, source: RecordedInput, reached: bool) -> Target:
        place, spec, array, value, again = source
        rows = self._rows(place)
        if reached and array is not None:
            rows = rows.reshape(spec.shape)
        return Target(rows, reached, array, value, again)

    def _reached(self, places: Sequence[Place]) -> tuple[Reach, list[_Way]]:
        """Finds what these rows depend on, and the steps to go backward through, the last one first."""
        reach = Reach(self.plan)
        for place in places:
            if self._gradients[place.arena] is not None:
                reach.start(place)
        found: list[_Way] = []
        for entry in reversed(self.entries):
            if isinstance(entry, StepStretch):
                going = self.fused.reach(entry, reach)
                found += [(going[0][0], (), going)] if going else []
                continue
            step = self.plan.steps[entry.number]
            if any([self._gradients[place.arena] is not None for place in step.places]) and reach.through(step):
                found.append((entry.number, entry.results, ()))
        return reach, found

    def _with_gradients(self, step: Step, results: Sequence[NDArray]) -> list[tuple[NDArray, NDArray]]:
        """Results of a step with their gradients, for those that can have one."""
        program = program_of(step.kind)
        return [
            (result, self._rows(place))
            for result, place, depends in zip(results, step.places, program.depends)
            if depends and self._gradients[place.arena] is not None and (program.stages is None or has_history(result))
        ]

    def _awaited(self) -> bool:
        """True if backward may come from a later flush. Sharing may go through what has been gone through."""
        return any(not tape.freed for tape in self.later)

    def _all_spent(self) -> bool:
        """True if backward has gone through all rows that have been computed from something that learns."""
        return not (self.learned_rows > (self._begun | self.spent.flags)).any()

    def _gradients_of(self, step: Step) -> list[NDArray | None]:
        """The gradients of the weights of a step."""
        return [self.gradient_of(array) for array in program_of(step.kind).consts]

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
        self._addresses = {}
        self.sources = []
        self.read = {}
