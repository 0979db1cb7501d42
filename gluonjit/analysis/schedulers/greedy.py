"""Scheduling by ratio: run the ready type with the largest ready fraction of its typewise frontier.

The typewise frontier of a type is the set of its nodes that no other remaining node of the type precedes. If all of it
is ready, running it now cannot be a mistake (Chen et al. 2023, ED-Batch, section 2.3).
"""

from __future__ import annotations

import numpy as np

from gluonjit.analysis.grouping import Lists, by_key, grouped, released, sorting
from gluonjit.analysis.indices import Index
from gluonjit.analysis.nodes import Nodes, Schedule
from gluonjit.analysis.ready import Ready


def schedule(nodes: Nodes) -> Schedule:
    """Largest ratio of ready nodes to typewise frontier first; of equal ones the least deep."""
    ready = Ready(nodes)
    before, after = _same_type(nodes)
    frontier = np.bincount(nodes.types[before == 0], minlength=nodes.kinds).tolist()
    groups = []
    while ready:
        kind = min(
            ready.kinds(),
            key=lambda kind: (
                not nodes.alone[kind],
                -ready.count(kind) / frontier[kind],
                ready.mean_depth(kind),
                kind,
            ),
        )
        run = ready.take(kind)
        frontier[kind] += len(released(before, after, run)) - len(run)
        groups.append(run)
    return nodes.schedule(groups)


def _same_type(nodes: Nodes) -> tuple[Index, Lists]:
    """Counts for each node the nearest earlier nodes of its type, and lists the later ones that it is nearest to."""
    sources, targets = nodes.edges
    steps = [step for _, step in by_key(_levels(nodes)[targets], np.arange(len(targets)))]
    earlier, later = [], []
    for kind in range(nodes.kinds):
        own = np.flatnonzero(nodes.types == kind)
        if len(own) > 1 and not nodes.alone[kind]:
            pairs = _nearest(own, nodes.count, sources, targets, steps)
            earlier.append(pairs[0])
            later.append(pairs[1])
    first = np.concatenate(earlier) if earlier else np.zeros(0, dtype=np.int64)
    second = np.concatenate(later) if later else np.zeros(0, dtype=np.int64)
    return np.bincount(second, minlength=nodes.count), grouped(first, second, nodes.count)


def _nearest(own: Index, count: int, sources: Index, targets: Index, steps: list[Index]) -> tuple[Index, Index]:
    """Pairs of nodes of one type of which the first comes before the second, with none of the type between.

    Sets of nodes are rows of bits, carried along the edges level by level.
    """
    width = (len(own) + 7) // 8
    place = np.full(count, -1, dtype=np.int64)
    place[own] = np.arange(len(own))
    seen = np.zeros((count, width), dtype=np.uint8)  # of what comes before a node
    itself = np.zeros((len(own), width), dtype=np.uint8)
    itself[np.arange(len(own)), np.arange(len(own)) // 8] = 128 >> (np.arange(len(own)) % 8)
    for step in steps:
        source, target = sources[step], targets[step]
        carried = seen[source]
        mine = place[source] >= 0
        carried[mine] = itself[place[source[mine]]]
        order, starts = sorting(target)
        seen[target[order[starts]]] = np.bitwise_or.reduceat(carried[order], starts, axis=0)
    bits = np.unpackbits(seen[own], axis=1)[:, : len(own)]
    second, first = np.nonzero(bits)
    return own[first], own[second]


def _levels(nodes: Nodes) -> Index:
    """The longest path to each node, in nodes that are to run."""
    waiting = nodes.waiting.copy()
    levels = np.zeros(nodes.count, dtype=np.int64)
    front, level = np.flatnonzero(waiting == 0), 0
    while len(front):
        levels[front] = level
        front, level = released(waiting, nodes.users, front), level + 1
    return levels
