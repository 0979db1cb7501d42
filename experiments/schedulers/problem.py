"""Inputs of schedulers as plain lists: nodes, their types, and what they use."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Sequence
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

MOST_NODES, MOST_TYPES = 14, 3


class Problem:
    """Nodes, each after those that it uses.

    types: the number of each one's type; uses: those that it uses; alone: of each type, whether its nodes run alone.
    """

    def __init__(self, types: Sequence[int], uses: Sequence[Sequence[int]], alone: Sequence[bool]) -> None:
        self.types, self.alone = list(types), list(alone)
        self.uses = [sorted(set(used)) for used in uses]

    @property
    def count(self) -> int:
        """The number of nodes."""
        return len(self.types)

    @cached_property
    def users(self) -> list[list[int]]:
        """The nodes that use each node."""
        found: list[list[int]] = [[] for _ in self.types]
        for node, used in enumerate(self.uses):
            for one in used:
                found[one].append(node)
        return found

    @cached_property
    def depths(self) -> list[int]:
        """The longest path to each node."""
        found: list[int] = []
        for used in self.uses:
            found.append(1 + max([found[one] for one in used], default=-1))
        return found

    @cached_property
    def rests(self) -> list[int]:
        """The most nodes of each one's type on a path that begins with it."""
        found = [0] * self.count
        for kind in set(self.types):
            length = [0] * self.count
            for node in reversed(range(self.count)):
                length[node] = max([length[user] for user in self.users[node]], default=0)
                if self.types[node] == kind:
                    length[node] += 1
                    found[node] = length[node]
        return found

    def bound(self, left: Sequence[int] | None = None) -> int:
        """The launches that the nodes that are `left` need at least: all of them, if it is None."""
        longest: dict[int, int] = {}
        alone = 0
        for node in range(self.count) if left is None else left:
            kind = self.types[node]
            if self.alone[kind]:
                alone += 1
            else:
                longest[kind] = max(longest.get(kind, 0), self.rests[node])
        return alone + sum(longest.values())


class Run:
    """A schedule in the making: what is ready, by type."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.launches = 0
        self.ready: dict[int, list[int]] = {}
        self._waiting = [len(used) for used in problem.uses]
        for node, count in enumerate(self._waiting):
            if not count:
                self.ready.setdefault(problem.types[node], []).append(node)

    def take(self, kind: int) -> list[int]:
        """Run all ready nodes of a type; return them."""
        ran = self.ready.pop(kind)
        self.launches += len(ran) if self.problem.alone[kind] else 1
        for node in ran:
            for user in self.problem.users[node]:
                self._waiting[user] -= 1
                if not self._waiting[user]:
                    self.ready.setdefault(self.problem.types[user], []).append(user)
        return ran


def of_trace(path: Path) -> Problem:
    """Read the nodes that run from a file of `Batch.save_trace`, which docs/traces.md describes. No sums are folded."""
    trace = json.loads(gzip.decompress(path.read_bytes()))
    kinds = trace["kinds"]
    makers: list[int] = []  # the event that made each row
    for number, (kind, *_) in enumerate(trace["events"]):
        makers += [number] * (kinds[kind]["rows"] if kind >= 0 else _rows(trace["inputs"][-1 - kind]))
    needed: set[int] = set()
    for number in reversed(range(len(trace["events"]))):
        kind, _, alive, read = trace["events"][number]
        if kind >= 0 and (alive or number in needed or not kinds[kind]["pure"]):
            needed.add(number)
            needed.update(makers[row] for row in read)
    families: dict[tuple[int, int], int] = {}
    alone: list[bool] = []
    places: dict[int, int] = {}
    types: list[int] = []
    uses: list[list[int]] = []
    for number, (kind, _, _, read) in enumerate(trace["events"]):
        if kind < 0 or number not in needed:
            continue
        key = kinds[kind]["family"], kinds[kind]["mode"]
        if key not in families:
            families[key] = len(families)
            alone.append(kinds[kind]["lone"] is not None)
        places[number] = len(types)
        types.append(families[key])
        uses.append([places[makers[row]] for row in read if makers[row] in places])
    return Problem(types, uses, alone)


def _rows(look: Any) -> int:
    """Return the rows of an input: the first axes of its shape, as many as its mode says."""
    shape, _, _, mode = look
    return prod(shape[:mode])


def random_problem(rng: random.Random) -> Problem:
    """Up to 14 nodes of up to 3 types, each of which uses up to two earlier ones, near ones rather than far ones."""
    types = rng.randint(2, MOST_TYPES)
    uses = []
    for number in range(rng.randint(4, MOST_NODES)):
        reach = rng.randint(1, max(number, 1))
        chosen = [number - rng.randint(1, reach) for _ in range(rng.choice((0, 1, 1, 2)))] if number else []
        uses.append(chosen)
    return Problem([rng.randrange(types) for _ in uses], uses, [False] * types)
