"""Sizes of a static plan, the places of its rows, and the conversion of a plan's indices to padded rows.

A padding node is a copy of the first node of its step: it gathers the same rows, so it computes only what a real node
does. A padding child is a copy of the first child, and counts in no node's sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gluonjit.analysis.indices import Index
from gluonjit.analysis.plan import Plan
from gluonjit.engines.torch.replay.skeleton import Axis, SizedSkeleton
from gluonjit.hybrid.run.reach import rows_at

Wholes = Mapping[tuple[int, int], int]


class Span(NamedTuple):
    """Rows of a static arena."""

    arena: int
    begin: int
    end: int


class OwnerSlices(NamedTuple):
    """The slices of the packed index that say whose child each is; see `variadic.building.Owners`."""

    spread: slice
    sums: slice
    nodes: slice


def joined(sized: SizedSkeleton, wholes: Wholes, sizes: Sequence[int]) -> tuple[int, ...]:
    """Sizes that are equal where a gather takes a whole place: the largest of each."""
    found = list(sizes)
    axes = _axes(sized)
    group = list(range(len(found)))
    for (step, position), place in wholes.items():
        one, other = group[axes[place].dim], group[sized.steps[step].groups[position].axis.dim]
        group = [one if number == other else number for number in group]
    most: dict[int, int] = {}
    for number, size in zip(group, found):
        most[number] = max(most.get(number, 0), size)
    return tuple([most[number] for number in group])


def _axes(sized: SizedSkeleton) -> list[Axis]:
    return [axis for _, axis in sized.inputs] + [result.axis for step in sized.steps for result in step.results]


class Padding:
    """The rows of a static plan of this many units in each dimension."""

    def __init__(self, sized: SizedSkeleton, sizes: tuple[int, ...], wholes: Wholes, arenas: int) -> None:
        self.sizes = sizes
        self.wholes = dict(wholes)
        self.rows = [0] * arenas
        self.spans: list[Span] = []
        numbers = [arena for arena, _ in sized.inputs] + [
            result.arena for step in sized.steps for result in step.results
        ]
        for arena, axis in zip(numbers, _axes(sized)):
            begin = self.rows[arena]
            self.rows[arena] += sizes[axis.dim] * axis.unit
            self.spans.append(Span(arena, begin, self.rows[arena]))
        self.index: dict[tuple[int, int], slice] = {}
        self.owners: dict[int, OwnerSlices] = {}
        self.packed = 0
        for number, step in enumerate(sized.steps):
            for position, group in enumerate(step.groups):
                if (number, position) not in self.wholes:
                    self.index[number, position] = self._take(group.roles * sizes[group.axis.dim] * group.axis.unit)
            if step.children >= 0:
                children, nodes = sizes[step.children], sizes[step.nodes]
                self.owners[number] = OwnerSlices(self._take(children), self._take(children), self._take(nodes))

    def _take(self, count: int) -> slice:
        self.packed += count
        return slice(self.packed - count, self.packed)

    def fits(self, sized: SizedSkeleton) -> bool:
        """Tells whether a plan of the same skeleton can run in these sizes."""
        whole = all(sized.wholes.get(at) == place for at, place in self.wholes.items())
        return whole and all(size <= room for size, room in zip(sized.sizes, self.sizes))

    def padded(self, sized: SizedSkeleton) -> int:
        """Counts the padding nodes in all steps."""
        return sum([self.sizes[step.nodes] - sized.sizes[step.nodes] for step in sized.steps])

    def pack(self, plan: Plan, sized: SizedSkeleton, packed: Index) -> None:
        """Writes the indices of a plan, as those of padded rows."""
        moved = self._moved(plan, sized)
        for (number, position), at in self.index.items():
            gather, group = plan.steps[number].gathers[position], sized.steps[number].groups[position]
            place = gather.place
            rows = moved[place.arena][rows_at(place, gather.index)]
            _fill(packed[at].reshape(group.roles, -1), rows.reshape(group.roles, -1), group.axis.unit)
        for number, slices in self.owners.items():
            step = plan.steps[number]
            owners = step.owners
            spread, sums, nodes = packed[slices.spread], packed[slices.sums], packed[slices.nodes]
            spread[: len(owners)] = sums[: len(owners)] = owners
            spread[len(owners) :] = owners[0]
            sums[len(owners) :] = len(nodes)
            nodes[: step.count] = np.arange(step.count)
            nodes[step.count :] = 0

    def _moved(self, plan: Plan, sized: SizedSkeleton) -> list[Index]:
        """Finds the place in the static arenas of each row of the plan's."""
        moved = [np.arange(arena.rows) for arena in plan.arenas]
        for place, span in zip(sized.places, self.spans):
            if place.begin != span.begin:
                moved[place.arena][place.begin : place.end] += span.begin - place.begin
        return moved


def _fill(target: Index, rows: Index, unit: int) -> None:
    """Rows of each role, and behind them copies of those of the first node."""
    roles, size = rows.shape
    target[:, :size] = rows
    if target.shape[1] > size:
        target[:, size:].reshape(roles, -1, unit)[...] = rows[:, None, :unit]
