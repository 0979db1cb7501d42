"""ED-Batch's learned policy (Chen et al. 2023): a table from what is ready to the type to run, by Q-learning.

States are encoded in three ways; the reward of a step is -1 and the share of the type's frontier that is ready, so that
a step that cannot be a mistake costs nothing. A state that training has not met falls back to that share.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable
from typing import NamedTuple

from experiments.schedulers.baselines import Frontier
from experiments.schedulers.problem import Problem

RATE, RETURNS = 0.4, 10  # of learning; steps whose rewards are added up
FIRST, LAST, LESS = 0.5, 0.05, 0.9  # how often a random type is run: at first, at least, and per episode
EVERY, ENOUGH = 50, 1.01  # episodes between two evaluations; times the bound at which training ends
ENCODINGS: dict[str, Callable[[Frontier], Hashable]] = {
    "base": lambda run: tuple(sorted(run.ready)),
    "sort": lambda run: tuple(sorted(run.ready, key=lambda kind: (-len(run.ready[kind]), kind))),
    "max": lambda run: (tuple(sorted(run.ready)), max(run.ready, key=lambda kind: (len(run.ready[kind]), -kind))),
}
Table = dict[Hashable, dict[int, float]]


class Step(NamedTuple):
    """A step of an episode: the state, the type that was run, and the reward."""

    state: Hashable
    kind: int
    reward: float


def learned(problem: Problem, episodes: int, seed: int = 0) -> int:
    """Return the launches of the best policy of the three encodings, each trained on this graph."""
    return min(_trained(problem, encode, episodes, random.Random(seed)) for encode in ENCODINGS.values())


def _trained(problem: Problem, encode: Callable[[Frontier], Hashable], episodes: int, rng: random.Random) -> int:
    table: Table = {}
    chance, best = FIRST, _evaluated(problem, encode, table)
    for episode in range(1, episodes + 1):
        _learn(_episode(problem, encode, table, chance, rng), table)
        chance = max(LAST, chance * LESS)
        if episode % EVERY == 0 or episode == episodes:
            best = min(best, _evaluated(problem, encode, table))
            if best <= ENOUGH * problem.bound():
                break
    return best


def _episode(
    problem: Problem, encode: Callable[[Frontier], Hashable], table: Table, chance: float, rng: random.Random
) -> list[Step]:
    run, steps = Frontier(problem), []
    while run.ready:
        state = encode(run)
        kind = rng.choice(sorted(run.ready)) if rng.random() < chance else _chosen(run, table.get(state))
        steps.append(Step(state, kind, float(run.ratio(kind)) - 1.0))
        run.take(kind)
    return steps


def _learn(steps: list[Step], table: Table) -> None:
    """Move the value of each state and type towards the rewards of ten steps and the value of the state after them."""
    for number, (state, kind, _) in enumerate(steps):
        after = number + RETURNS
        value = sum([step.reward for step in steps[number:after]])
        if after < len(steps):
            value += max(table.get(steps[after].state, {}).values(), default=0.0)
        known = table.setdefault(state, {})
        known[kind] = known.get(kind, 0.0) + RATE * (value - known.get(kind, 0.0))


def _chosen(run: Frontier, known: dict[int, float] | None) -> int:
    """Return the best type that is known, or where none is known the one with the largest share."""
    possible = {kind: value for kind, value in (known or {}).items() if kind in run.ready}
    return max(possible, key=lambda kind: (possible[kind], -kind)) if possible else run.best_ratio()


def _evaluated(problem: Problem, encode: Callable[[Frontier], Hashable], table: Table) -> int:
    run = Frontier(problem)
    while run.ready:
        run.take(_chosen(run, table.get(encode(run))))
    return run.launches
