"""The best of all schedules of a small graph: a search of all states, by their launches and what must come at least."""

from __future__ import annotations

from heapq import heappop, heappush

from experiments.schedulers.problem import Problem


def fewest(problem: Problem) -> int:
    """Return the launches of the best schedule. To run all ready nodes of a type is never worse than to run some."""
    count = problem.count
    uses = [sum(1 << one for one in used) for used in problem.uses]
    everything = (1 << count) - 1
    best = {0: 0}
    front = [(problem.bound(), 0, 0)]  # what is needed at least, what has been launched, what has run
    while True:
        _, launched, done = heappop(front)
        if done == everything:
            return launched
        if launched > best[done]:
            continue
        together: dict[int, list[int]] = {}
        for node in range(count):
            if not done >> node & 1 and uses[node] & done == uses[node]:
                together.setdefault(problem.types[node], []).append(node)
        for kind, ready in together.items():
            after = done | sum(1 << node for node in ready)
            cost = launched + (len(ready) if problem.alone[kind] else 1)
            if cost < best.get(after, count + 1):
                best[after] = cost
                left = [node for node in range(count) if not after >> node & 1]
                heappush(front, (cost + problem.bound(left), cost, after))
