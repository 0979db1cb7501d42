"""A static plan: arenas, gradients and indices at fixed addresses, and the two functions that work on them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple
from weakref import ref

import numpy as np
import torch

from gluonjit.analysis.plan import Plan
from gluonjit.engines.torch.arrays import LEARNABLE, device_named, room_for, with_memory
from gluonjit.engines.torch.hooked import data_of, plain, run_backward
from gluonjit.engines.torch.program import pieces
from gluonjit.engines.torch.replay.padding import Padding, Span
from gluonjit.engines.torch.replay.recorders import Replayer, recorder_for
from gluonjit.engines.torch.replay.skeleton import SizedSkeleton, StepForm
from gluonjit.engines.torch.variadic import ChildOwners


class Back(NamedTuple):
    """A step that a backward pass goes through: results that have gradients, operands and constants that get some."""

    step: int
    results: tuple[int, ...]
    operands: tuple[int, ...]
    consts: tuple[int, ...]


class StaticEntry(NamedTuple):
    """A step that ran, as autograd knows it: operands and constants that learn, and results."""

    operands: dict[int, Any]
    consts: list[Any]
    results: list[Any]


class StaticPlan:
    """Runs plans of one skeleton, one after the other, in the same memory.

    A tape that goes backward through it may be alive until somebody else needs it: see `busy`.
    """

    def __init__(self, plan: Plan, sized: SizedSkeleton, padding: Padding) -> None:
        self.padding = padding
        self.steps = sized.steps
        self.device = device_named(plan.arenas[0].spec.device)
        self.recorder: Replayer = recorder_for(self.device)
        self.runs = 0
        self._user: Any = None
        self._ran: dict[int, StaticEntry] = {}
        specs = [arena.spec for arena in plan.arenas]
        self.arenas = [room_for(spec, rows).zero_() for spec, rows in zip(specs, padding.rows)]
        self.index = torch.zeros(padding.packed, dtype=torch.int64, device=self.device)
        taped = any(any(step.reach) for step in self.steps)
        self.gradients: list[Any] = [
            room_for(spec, rows).zero_() if taped and spec.dtype in LEARNABLE else None
            for spec, rows in zip(specs, padding.rows)
        ]
        self.weights: dict[int, Any] = {}  # those that learn, by identity, and a place for the gradient of each
        for step in self.steps:
            if step.taped:
                self.weights.update({id(tensor): tensor for tensor in step.program.consts if tensor.requires_grad})
        self.learned = {key: torch.zeros_like(tensor) for key, tensor in self.weights.items()}
        self._constants = [tensor for step in self.steps for tensor in step.program.consts]
        self._addresses = self._addressed()

    @property
    def bytes(self) -> int:
        """Memory at fixed addresses."""
        held = [*self.arenas, *filter(lambda room: room is not None, self.gradients), *self.learned.values()]
        return sum([tensor.numel() * tensor.element_size() for tensor in [*held, self.index]])

    @property
    def current(self) -> bool:
        """Tells whether the constants still lie where they did."""
        return self._addressed() == self._addresses

    def _addressed(self) -> list[Any]:
        return [(tensor.data_ptr(), tensor.dtype, tensor.requires_grad) for tensor in self._constants]

    @property
    def busy(self) -> bool:
        """Tells whether a backward pass may still go through the last run."""
        tape = None if self._user is None else self._user()
        return tape is not None and not tape.freed

    def claim(self, tape: Any) -> None:
        """Lets this tape be who goes backward through what runs next."""
        self._user = None if tape is None else ref(tape)

    def release(self) -> None:
        """Nobody goes backward through what ran last."""
        self._user = None
        if not self.recorder.remembers:
            self._ran = {}

    def load(self, plan: Plan, sized: SizedSkeleton, extra: Sequence[Any] = ()) -> list[Any]:
        """Takes over a plan's indices, and sends more index arrays along; returns those on the device."""
        self.recorder.begin()
        sizes = [self.padding.packed, *map(len, extra)]
        pinned = self.device.type == "cuda"
        packed = torch.empty(sum(sizes), dtype=torch.int64, pin_memory=pinned)
        numbers = packed.numpy()
        self.padding.pack(plan, sized, numbers)
        if extra:
            numbers[self.padding.packed :] = np.concatenate(extra)
        sent = packed.to(self.device, non_blocking=True)
        parts: list[Any] = list(sent.split(sizes))
        self.index.copy_(parts[0])
        return parts[1:]

    def rows(self, place: int, count: int) -> Any:
        """The first rows of a place."""
        span = self.padding.spans[place]
        return self.arenas[span.arena][span.begin : span.begin + count]

    def put(self, place: int, rows: Any) -> None:
        """Fills the place of an input; if a step takes all of it, the padding is like its first row."""
        span = self.padding.spans[place]
        room = self.arenas[span.arena][span.begin : span.end]
        room[: len(rows)].copy_(rows)
        if len(room) > len(rows) and place in self.padding.wholes.values():
            rest = room[len(rows) :]
            rest.copy_(rows[:1].expand_as(rest))

    # --- forward --------------------------------------------------------------------------------------------------

    def forward(self) -> None:
        """Runs all steps."""
        self.runs += 1
        self.recorder.forward(self._forward, self.arenas)

    def _forward(self) -> None:
        with plain():
            leaves: dict[int, Any] = {}
            self._ran = {}
            for number, step in enumerate(self.steps):
                self._run(number, step, leaves)

    def _run(self, number: int, step: StepForm, leaves: dict[int, Any]) -> None:
        given: list[Any] = []
        learned: dict[int, Any] = {}
        for position, group in enumerate(step.groups):
            parts = pieces(((((),) * group.roles),), (self._operand(number, position).data,))
            for part, learns in zip(parts, group.learned):
                if learns:
                    learned[len(given)] = part.requires_grad_()
                given.append(part)
        consts = [self._constant(tensor, step, leaves) for tensor in step.program.consts]
        with torch.set_grad_enabled(step.taped):
            results = step.program(given, consts, self.padding.sizes[step.nodes], self._besides(number))
        for form, result in zip(step.results, results):
            span = self.padding.spans[form.place]
            self.arenas[span.arena][span.begin : span.end].copy_(result.detach())
        if any(step.reach):
            self._ran[number] = StaticEntry(learned, consts, results)

    def _operand(self, number: int, position: int) -> Any:
        whole = self.padding.wholes.get((number, position))
        if whole is not None:
            span = self.padding.spans[whole]
            return self.arenas[span.arena][span.begin : span.end]
        arena = self.arenas[self.steps[number].groups[position].arena]
        return arena.index_select(0, self.index[self.padding.index[number, position]])

    def _constant(self, tensor: Any, step: StepForm, leaves: dict[int, Any]) -> Any:
        """A weight as a leaf of the steps' own recording.

        Where that recording belongs to later runs, weights change in between: `ReplayTape` looks after that.
        """
        alias = data_of(tensor) if self.recorder.remembers else tensor.detach()
        if not (step.taped and tensor.requires_grad):
            return alias
        if id(tensor) not in leaves:
            leaves[id(tensor)] = alias.requires_grad_()
        return leaves[id(tensor)]

    def _besides(self, number: int) -> tuple[Any, ...]:
        slices = self.padding.owners.get(number)
        if slices is None:
            return ()
        # Not the packed index itself: autograd would notice that the next minibatch's is written there.
        return (ChildOwners(*[self.index[at].data for at in slices]),)

    # --- backward -------------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Sets the gradients of rows to zero."""
        self.recorder.begin()
        torch._foreach_zero_([room for room in self.gradients if room is not None])

    def add_head(self, place: int, gradient: Any) -> None:
        """The gradient of a result that was read."""
        span = self.padding.spans[place]
        room = self.gradients[span.arena]
        room[span.begin : span.begin + len(gradient)].add_(gradient)

    def gradient_rows(self, place: int, count: int) -> Any:
        """The gradients of the first rows of a place."""
        span = self.padding.spans[place]
        return self.gradients[span.arena][span.begin : span.begin + count]

    def backward(self, way: tuple[Back, ...]) -> set[int]:
        """Goes backward through these steps, in this order; returns which weights, by identity, have a gradient now."""
        written = [room for room in [*self.gradients, *self.learned.values()] if room is not None]
        self.recorder.backward(way, partial(self._backward, way), written)
        return {id(self.steps[back.step].program.consts[const]) for back in way for const in back.consts}

    def _backward(self, way: tuple[Back, ...]) -> None:
        with plain():
            written: set[int] = set()
            for back in way:
                self._back(back, written)

    def _back(self, back: Back, written: set[int]) -> None:
        number = back.step
        step, ran = self.steps[number], self._ran[number]
        consts = {id(step.program.consts[const]): ran.consts[const] for const in back.consts}
        results = tuple([ran.results[position] for position in back.results])
        tops = tuple([self._gradient_at(self.padding.spans[step.results[position].place]) for position in back.results])
        inputs = (*[ran.operands[operand] for operand in back.operands], *consts.values())
        got = [with_memory(gradient) for gradient in run_backward(results, tops, True, False, inputs, True, False)]
        of_operand = dict(zip(back.operands, got))
        first = 0
        for position, group in enumerate(step.groups):
            for role in range(group.roles):
                gradient = of_operand.get(first + role)
                if gradient is not None:
                    self._add(number, position, role, gradient)
            first += group.roles
        for key, gradient in zip(consts, got[len(back.operands) :]):
            if gradient is not None:
                target = self.learned[key]
                if key in written:
                    target.add_(gradient)
                else:
                    target.copy_(gradient)
                    written.add(key)

    def _gradient_at(self, span: Span) -> Any:
        return self.gradients[span.arena][span.begin : span.end]

    def _add(self, number: int, position: int, role: int, gradient: Any) -> None:
        whole = self.padding.wholes.get((number, position))
        if whole is not None:
            self._gradient_at(self.padding.spans[whole]).add_(gradient)
            return
        group = self.steps[number].groups[position]
        size = self.padding.sizes[group.axis.dim] * group.axis.unit
        index = self.index[self.padding.index[number, position]][role * size : (role + 1) * size]
        room = self.gradients[group.arena]
        if gradient.untyped_storage().data_ptr() == room.untyped_storage().data_ptr():
            gradient = gradient.clone()  # what was passed on unchanged is a part of the arena itself
        room.index_add_(0, index, gradient)
