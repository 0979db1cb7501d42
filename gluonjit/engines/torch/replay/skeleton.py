"""The skeleton of a plan: the common part of plans that one static plan can run, and their sizes.

The sizes of a plan are those of its **dimensions**: the rows of each input, and of each step the nodes, the rows if a
node has any number of them, and the children. Everything that a step gathers and returns has a fixed number of rows per
unit of one dimension. Plans of one skeleton differ in sizes and in indices.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gluonjit.analysis.plan import Gather, Place, Plan, Step
from gluonjit.engines.torch.arrays import LEARNABLE
from gluonjit.engines.torch.program import program_of
from gluonjit.engines.torch.replay.reach import Dependencies, reach_of
from gluonjit.graph.modes import is_recorded
from gluonjit.hybrid.run.reach import rows_at

NODES, ROWS, CHILDREN = range(3)
"""The dimensions of a step."""


class Axis(NamedTuple):
    """This many rows for each unit of a dimension."""

    dim: int
    unit: int


class GroupForm(NamedTuple):
    """Operands that are gathered together: `roles` runs of rows of an arena, each as long as the axis says.

    learned: of each run whether gradients go to it.
    """

    arena: int
    roles: int
    axis: Axis
    learned: tuple[bool, ...]


class ResultForm(NamedTuple):
    """A result of a step: the number of its place, its arena, and how many rows there are."""

    place: int
    arena: int
    axis: Axis


class StepForm(NamedTuple):
    """A step without its sizes. `children` is the dimension of them, -1 where the step has none."""

    program: Any
    taped: bool
    nodes: int
    children: int
    groups: tuple[GroupForm, ...]
    results: tuple[ResultForm, ...]
    reach: tuple[Dependencies | None, ...]  # of each result; None if nothing learns


@dataclass(frozen=True)
class SizedSkeleton:
    """A plan's skeleton and its sizes.

    key: equal for plans of one skeleton; sizes: of each dimension; places: of inputs and then of results; wholes: the
    gathers (step, group) that take all rows of a place, and which; learned: rows that gradients go through, by arena.
    """

    key: Hashable
    inputs: tuple[tuple[int, Axis], ...]
    steps: tuple[StepForm, ...]
    sizes: tuple[int, ...]
    places: tuple[Place, ...]
    wholes: dict[tuple[int, int], int]
    learned: list[npt.NDArray[np.bool_]]


class NotStatic(Exception):
    """The reason why a plan is not made static, and the executor that runs it instead."""

    def __init__(self, reason: str, instead: str = "steps") -> None:
        super().__init__(reason)
        self.instead = instead


def sized_skeleton(plan: Plan, learned: Sequence[bool]) -> SizedSkeleton:
    """The sized skeleton of a plan; learned: whether gradients go to each of its inputs. Raises NotStatic."""
    if not plan.steps:
        raise NotStatic("the plan has no steps")
    if len({arena.spec.device for arena in plan.arenas}) > 1:
        raise NotStatic("its tensors are on several devices")
    return _Reader(plan, learned).sized()


class _Reader:
    """Goes through a plan once."""

    def __init__(self, plan: Plan, learned: Sequence[bool]) -> None:
        self.plan = plan
        self.given = learned
        self.sizes = [chunk.place.end - chunk.place.begin for chunk in plan.inputs]
        self.places: list[Place] = [chunk.place for chunk in plan.inputs]
        self.axes = [Axis(number, 1) for number in range(len(plan.inputs))]
        self.numbers = {place: number for number, place in enumerate(self.places)}
        self.wholes: dict[tuple[int, int], int] = {}
        self.learned = [np.zeros(arena.rows, dtype=bool) for arena in plan.arenas]
        for chunk, learns in zip(plan.inputs, learned):
            if learns:
                self.learned[chunk.place.arena][chunk.place.begin : chunk.place.end] = True

    def sized(self) -> SizedSkeleton:
        """Collects what there is to know of the plan."""
        plan = self.plan
        steps = tuple([self._step(number, step) for number, step in enumerate(plan.steps)])
        inputs = tuple([(chunk.place.arena, Axis(number, 1)) for number, chunk in enumerate(plan.inputs)])
        arenas = tuple([(arena.spec.row_shape, arena.spec.dtype, arena.spec.device) for arena in plan.arenas])
        key = (arenas, tuple([(arena, learns) for (arena, _), learns in zip(inputs, self.given)]), steps)
        places = tuple(self.places)
        return SizedSkeleton(key, inputs, steps, tuple(self.sizes), places, self.wholes, self.learned)

    def _step(self, number: int, step: Step) -> StepForm:
        kind, program = step.kind, program_of(step.kind)
        if kind.lone:
            raise NotStatic(f"{kind.name} runs sample by sample")
        if not kind.pure:
            raise NotStatic(f"{kind.name} draws random numbers")
        if kind.apart:
            raise NotStatic(f"{kind.name} takes operands with different numbers of rows")
        first = len(self.sizes)
        self.sizes += [step.count, 0, 0 if step.arities is None else int(step.arities.sum())]
        groups = tuple([self._group(number, position, gather, first) for position, gather in enumerate(step.gathers)])
        taped = is_recorded(step.mode)
        reach: tuple[Dependencies | None, ...] = (None,) * len(step.places)
        if taped:
            learns = tuple([group.learned for group in groups])
            try:
                reach = reach_of(kind, learns)
            except RuntimeError as error:  # an operator without a derivative, which backward may never come to
                raise NotStatic(f"{kind.name}: {error}") from error
        results = tuple([self._result(step, position, place, first) for position, place in enumerate(step.places)])
        for place, reached in zip(step.places, reach):
            if reached is not None:
                self.learned[place.arena][place.begin : place.end] = True
        children = -1 if step.arities is None else first + CHILDREN
        return StepForm(program, taped, first + NODES, children, groups, results, reach)

    def _group(self, number: int, position: int, gather: Gather, first: int) -> GroupForm:
        kind = self.plan.steps[number].kind
        group = kind.groups[position]
        roles, place = len(group), gather.place
        size, rest = divmod(gather.rows, roles)
        spec = kind.operands[group[0][0]]
        if group[0] in kind.children:
            axis = Axis(first + CHILDREN, 1)
        elif kind.poly and spec.mode == "rows":
            axis = Axis(first + ROWS, 1)
            self.sizes[axis.dim] = self.sizes[axis.dim] or size
        else:
            axis = Axis(first + NODES, spec.rows)
        if rest or not size or size != self.sizes[axis.dim] * axis.unit:
            raise NotStatic(f"{kind.name} takes another number of rows than its operands have")
        source = self.numbers.get(place) if gather.index is None and roles == 1 else None
        if source is not None and self.axes[source].unit == axis.unit:
            self.wholes[number, position] = source
        learned = np.zeros(roles, dtype=bool)
        if is_recorded(self.plan.steps[number].mode) and spec.dtype in LEARNABLE:
            learned = self.learned[place.arena][rows_at(place, gather.index)].reshape(roles, size).any(1)
        return GroupForm(place.arena, roles, axis, tuple(learned.tolist()))

    def _result(self, step: Step, position: int, place: Place, first: int) -> ResultForm:
        wide = program_of(step.kind).wide if step.kind.poly else ()
        unit = step.kind.outputs[position].spec.rows
        axis = Axis(first + ROWS, 1) if wide and wide[position] else Axis(first + NODES, unit)
        if place.end - place.begin != self.sizes[axis.dim] * axis.unit:
            raise NotStatic(f"{step.kind.name} returns another number of rows than its results have")
        number = len(self.places)
        self.places.append(place)
        self.axes.append(axis)
        self.numbers[place] = number
        return ResultForm(number, place.arena, axis)
