"""A static step: the program of single steps at fixed addresses, with padded sizes.

It has rows for its operands, its results and the gradients of both. It runs one step at a time: the history of that
step holds it as long as backward through it is possible.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any, NamedTuple
from weakref import ref

import torch

from gluonjit.engines.torch.arrays import dtype_named, with_memory
from gluonjit.engines.torch.chunks import is_asked_for
from gluonjit.engines.torch.hooked import data_of, plain, run_backward
from gluonjit.engines.torch.program import program_of
from gluonjit.engines.torch.replay.recorders import Replayer, step_recorder_for, stream_of
from gluonjit.engines.torch.replay.skeleton import CHILDREN, NODES, ROWS, Axis
from gluonjit.engines.torch.variadic import ChildOwners
from gluonjit.graph import Kind

_WASTE, _FEW = 2, 32
"""A static step with more than this many times the nodes is left to larger steps, and so for rows and children; up to
a few, padding costs nothing."""

Sizes = tuple[int, int, int]
"""The numbers of nodes, rows and children; zero where a program has none."""


class StaticStepForm(NamedTuple):
    """The form of steps that the same static step can run."""

    operands: tuple[tuple[Axis, tuple[int, ...], Any, bool], ...]  # the shape of a row, its dtype, whether it learns
    results: tuple[tuple[Axis, tuple[int, ...], Any], ...]
    consts: tuple[tuple[int, Any, bool], ...]  # where they lie
    device: Any
    stream: int
    taped: bool


class Lease:
    """Held by the history of a step."""

    __slots__ = ("__weakref__",)


class LastRun(NamedTuple):
    """The last run, as autograd knows it."""

    inputs: list[Any]  # operands and constants, those that learn
    results: list[Any]


class StaticStep:
    """Runs the steps of one form, one after the other, in the same memory."""

    def __init__(self, program: Any, form: StaticStepForm, sizes: Sizes) -> None:
        self.form, self.sizes = form, sizes
        self.recorder: Replayer = step_recorder_for(form.device, form.stream)
        self.runs = 0
        self.learning: list[bool] = []  # of each result
        self._program = ref(program)  # which owns this
        self._lease: Any = None
        self._ran = LastRun([], [])
        self._reached: dict[Hashable, list[bool]] = {}
        self.operands = [self._room(axis, shape, dtype) for axis, shape, dtype, _ in form.operands]
        self.results = [self._room(*result) for result in form.results]
        self.heads: list[Any] = [torch.zeros_like(room) if form.taped else None for room in self.results]
        learned = [room for room, (_, _, _, learns) in zip(self.operands, form.operands) if learns]
        weights = [tensor for tensor in program.consts if tensor.requires_grad]
        self.gradients = [torch.zeros_like(room) for room in [*learned, *weights]] if form.taped else []
        self._owners = ChildOwners(*[self._room(Axis(dim, 1), (), torch.int64) for dim in (CHILDREN, CHILDREN, NODES)])
        held = [*self.operands, *self.results, *self.heads, *self.gradients]
        self.bytes = sum([tensor.numel() * tensor.element_size() for tensor in held if tensor is not None])

    def _room(self, axis: Axis, shape: tuple[int, ...], dtype: Any) -> Any:
        return torch.zeros((self.sizes[axis.dim] * axis.unit, *shape), dtype=dtype, device=self.form.device)

    @property
    def busy(self) -> bool:
        """Tells whether a backward pass may still go through the last run."""
        return self._lease is not None and self._lease() is not None

    def fits(self, sizes: Sizes) -> bool:
        """Tells whether a step of these sizes can run here without much waste."""
        pairs = list(zip(sizes, self.sizes))
        return all(size <= room <= _WASTE * max(size, _FEW) and bool(size) == bool(room) for size, room in pairs)

    def forward(self, operands: Sequence[Any], sizes: Sizes, owners: Any, lease: Lease | None) -> list[Any]:
        """The results of a step, in memory that the next one writes to."""
        self._lease = None if lease is None else ref(lease)
        self.recorder.begin()
        for room, rows, (axis, *_) in zip(self.operands, operands, self.form.operands):
            _fill(room, rows.detach(), axis.unit)
        if sizes[CHILDREN]:
            self._own(owners, sizes[NODES])
        self.runs += 1
        self.recorder.forward(self._forward, self.results)
        return [room[: sizes[axis.dim] * axis.unit].data for room, (axis, *_) in zip(self.results, self.form.results)]

    def _own(self, owners: Any, nodes: int) -> None:
        """Sets the owners like `Padding.pack`: a padding child is like the first, and counts to no sum that is read."""
        _fill(self._owners.spread, owners, 1)
        self._owners.sums[: len(owners)].copy_(owners)
        self._owners.sums[len(owners) :].fill_(self.sizes[NODES])
        torch.arange(nodes, out=self._owners.nodes[:nodes])
        self._owners.nodes[nodes:].zero_()

    def _forward(self) -> None:
        with plain():
            given = []
            for room, (_, _, _, learns) in zip(self.operands, self.form.operands):
                given.append(room.data.requires_grad_(self.form.taped and learns))
            program: Any = self._program()
            consts = [self._constant(tensor) for tensor in program.consts]
            inputs = [tensor for tensor in [*given, *consts] if tensor.requires_grad]
            besides = (self._owners,) if self.sizes[CHILDREN] else ()
            with torch.set_grad_enabled(self.form.taped):
                results = program(given, consts, self.sizes[NODES], besides)
            for room, result in zip(self.results, results):
                room.copy_(result.detach())
            self.learning = [result.requires_grad for result in results]
            self._ran = LastRun(inputs, list(results))

    def _constant(self, tensor: Any) -> Any:
        """Returns a constant like `StaticPlan`."""
        alias = data_of(tensor) if self.recorder.remembers else tensor.detach()
        return alias.requires_grad_(self.form.taped and tensor.requires_grad)

    def backward(self, heads: Sequence[Any], operands: Sequence[int], asked: Sequence[bool]) -> list[Any]:
        """Copies of the gradients of what learns, operands of this many rows and weights, given those of results.

        asked: of each of what learns whether its gradient is asked for.
        """
        self.recorder.begin()
        given = tuple([number for number, head in enumerate(heads) if head is not None])
        key = given, tuple(asked)
        for number in given:
            room = self.heads[number]
            room[: len(heads[number])].copy_(heads[number])
            room[len(heads[number]) :].zero_()
        self.recorder.backward(key, partial(self._backward, key), self.gradients)
        sizes = [size for size, (_, _, _, learns) in zip(operands, self.form.operands) if learns]
        parts = [room[:size] for room, size in zip(self.gradients, sizes)] + self.gradients[len(sizes) :]
        return [part.clone() if reached else None for part, reached in zip(parts, self._reached[key])]

    def _backward(self, key: tuple[tuple[int, ...], tuple[bool, ...]]) -> None:
        given, asked = key
        wanted = [number for number, is_asked in enumerate(asked) if is_asked]
        reached = self._reached[key] = [False] * len(asked)
        if not wanted:
            return
        with plain():
            results = tuple([self._ran.results[number] for number in given])
            heads = tuple([self.heads[number] for number in given])
            inputs = tuple([self._ran.inputs[number] for number in wanted])
            for number, gradient in zip(wanted, run_backward(results, heads, True, False, inputs, True, False)):
                if gradient is not None:
                    self.gradients[number].copy_(with_memory(gradient))
                    reached[number] = True


def _fill(room: Any, rows: Any, unit: int) -> None:
    """Rows, and behind them copies of those of the first node."""
    room[: len(rows)].copy_(rows)
    rest = room[len(rows) :]
    if len(rest):
        rest.view(-1, unit, *rest.shape[1:]).copy_(rows[:unit].expand(len(rest) // unit, *rows[:unit].shape))


class StaticStepFunction(torch.autograd.Function):  # type: ignore[misc]
    """A static step as a function of its operands and constants."""

    @staticmethod
    def forward(ctx: Any, static: StaticStep, sizes: Sizes, owners: Any, operands: int, *given: Any) -> Any:
        """Runs it."""
        ctx.lease, ctx.static, ctx.sizes = Lease(), static, [len(rows) for rows in given[:operands]]
        ctx.set_materialize_grads(False)
        ctx.needed = [number for number, tensor in enumerate(given) if tensor.requires_grad]
        ctx.count = len(given)
        if static.recorder.remembers:  # autograd looks after weights that change; what it has saved lives on else
            ctx.save_for_backward(*given[operands:])
        results = static.forward(given[:operands], sizes, owners, ctx.lease)
        ctx.mark_non_differentiable(*[result for result, learns in zip(results, static.learning) if not learns])
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *heads: Any) -> Any:
        """Gradients of what it was given."""
        _ = ctx.saved_tensors
        with plain():
            sources = ctx.next_functions[-ctx.count :]  # before them is that of the owners, where these are a tensor
            asked = [is_asked_for(sources[number][0]) for number in ctx.needed]
            found = ctx.static.backward(heads, ctx.sizes, asked)
        gradients = [None] * ctx.count
        for number, gradient in zip(ctx.needed, found):
            gradients[number] = gradient
        return (None, None, None, None, *gradients)


def form_of(kind: Kind, operands: Sequence[Any], count: int) -> tuple[StaticStepForm, Sizes]:
    """The form and the sizes of a step with these operands, as `pieces` gives them."""
    program, taped = program_of(kind), torch.is_grad_enabled()
    rows = children = 0
    given = []
    left = iter(operands)
    for group in kind.groups:
        spec = kind.operands[group[0][0]]
        for _ in group:
            tensor = next(left)
            axis = Axis(NODES, spec.rows)
            if group[0] in kind.children:
                axis, children = Axis(CHILDREN, 1), len(tensor)
            elif kind.poly and spec.mode == "rows":
                axis, rows = Axis(ROWS, 1), len(tensor)
            given.append((axis, tuple(tensor.shape[1:]), tensor.dtype, tensor.requires_grad))
    wide = program.wide or (False,) * len(kind.outputs)
    results = [
        (Axis(ROWS, 1) if kind.poly and many else Axis(NODES, spec.rows), spec.row_shape, dtype_named(spec.dtype))
        for spec, many in zip([output.spec for output in kind.outputs], wide)
    ]
    consts = tuple([(tensor.data_ptr(), tensor.dtype, tensor.requires_grad) for tensor in program.consts])
    device = operands[0].device
    return StaticStepForm(tuple(given), tuple(results), consts, device, stream_of(device), taped), (
        count,
        rows,
        children,
    )
