"""Schedulers of other systems, to compare with: each runs all ready nodes of one type after the other."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from experiments.schedulers.problem import Problem, Run


def agenda(problem: Problem) -> int:
    """DyNet's: the ready type of which all nodes have the least mean depth, taken once (Neubig et al. 2017)."""
    depths: dict[int, list[int]] = {}
    for kind, depth in zip(problem.types, problem.depths):
        depths.setdefault(kind, []).append(depth)
    means = {kind: Fraction(sum(found), len(found)) for kind, found in depths.items()}
    run = Run(problem)
    while run.ready:
        run.take(min(run.ready, key=lambda kind: (not problem.alone[kind], means[kind], kind)))
    return run.launches


def agenda_of_remaining(problem: Problem) -> int:
    """The same, with means of the nodes that remain."""
    total: dict[int, int] = {}
    left: dict[int, int] = {}
    for kind, depth in zip(problem.types, problem.depths):
        total[kind], left[kind] = total.get(kind, 0) + depth, left.get(kind, 0) + 1
    run = Run(problem)
    while run.ready:
        kind = min(run.ready, key=lambda one: (not problem.alone[one], Fraction(total[one], left[one]), one))
        for node in run.take(kind):
            total[kind] -= problem.depths[node]
            left[kind] -= 1
    return run.launches


class Frontier(Run):
    """It knows the typewise frontier: the nodes left that no other node left of their type comes before.

    `nearest` has for each node the nearest earlier ones of its type, as bits.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self._before = [0] * problem.count  # how many of these have not run
        self._after: list[list[int]] = [[] for _ in problem.types]
        of_type = [0] * len(problem.alone)
        for node, kind in enumerate(problem.types):
            of_type[kind] |= 1 << node
        seen: list[int] = []  # the nodes of each type that come before, as far as none of their type is between
        for node, used in enumerate(problem.uses):
            found = 0
            for one in used:
                found |= (seen[one] & ~of_type[problem.types[one]]) | 1 << one
            seen.append(found)
            found &= of_type[problem.types[node]]
            while found:
                one = found.bit_length() - 1
                found ^= 1 << one
                self._before[node] += 1
                self._after[one].append(node)
        self.frontier: dict[int, int] = {}
        for kind, count in zip(problem.types, self._before):
            self.frontier[kind] = self.frontier.get(kind, 0) + (not count)

    def take(self, kind: int) -> list[int]:
        """Run all ready nodes of a type; return them."""
        ran = super().take(kind)
        self.frontier[kind] -= len(ran)
        for node in ran:
            for one in self._after[node]:
                self._before[one] -= 1
                self.frontier[kind] += not self._before[one]
        return ran

    def ratio(self, kind: int) -> Fraction:
        """The share of a type's frontier that is ready."""
        return Fraction(len(self.ready[kind]), self.frontier[kind])

    def best_ratio(self) -> int:
        """The ready type with the largest share; of equal ones the first."""
        return min(self.ready, key=lambda kind: (not self.problem.alone[kind], -self.ratio(kind), kind))


def ratio(problem: Problem) -> int:
    """ED-Batch's without what it learns: the type of whose frontier the largest share is ready (Chen et al. 2023)."""
    run = Frontier(problem)
    while run.ready:
        run.take(run.best_ratio())
    return run.launches


BASELINES: dict[str, Callable[[Problem], int]] = {
    "agenda, DyNet": agenda,
    "agenda, remaining": agenda_of_remaining,
    "ratio, ED-Batch": ratio,
}
"""The launches that each needs."""
