"""Scheduling by ratio: run the ready type with the largest ready fraction of its typewise frontier.

The typewise frontier of a type is the set of its nodes that no other remaining node of the type precedes. If all of it
is ready, running it now cannot be a mistake (Chen et al. 2023, ED-Batch, section 2.3).
"""

from __future__ import annotations

import numpy as np

from gluonjit.analysis.grouping import Index, Lists, by_key, grouped, released, sorting
from gluonjit.analysis.nodes import Nodes, Ready, Schedule

_AT_ONCE = 1024  # nodes, sets of which are rows of 128 bytes


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
    by_type = by_key(nodes.types, np.arange(nodes.count))
    of_type = [own for kind, own in by_type if len(own) > 1 and not nodes.alone[kind]]
    pairs = [_nearest(part, nodes, sources, targets, steps) for part in _parts(of_type)]
    none = np.zeros(0, dtype=np.int64)
    first, second = (np.concatenate([none, *sides]) for sides in zip(*pairs)) if pairs else (none, none)
    return np.bincount(second, minlength=nodes.count), grouped(first, second, nodes.count)


def _parts(of_type: list[Index]) -> list[list[Index]]:
    """Divides the types, each with its nodes, into parts of about `_AT_ONCE` nodes."""
    parts: list[list[Index]] = []
    room = 0
    for own in of_type:
        if len(own) > room:
            parts.append([])
            room = _AT_ONCE
        parts[-1].append(own)
        room -= len(own)
    return parts


def _nearest(
    of_type: list[Index], nodes: Nodes, sources: Index, targets: Index, steps: list[Index]
) -> tuple[Index, Index]:
    """Pairs of nodes of one type of which the first comes before the second, with none of the type between.

    Sets of nodes of these types are rows of bits, carried along the edges level by level.
    """
    own = np.concatenate(of_type)
    width = (len(own) + 7) // 8
    place = np.full(nodes.count, -1, dtype=np.int64)
    place[own] = np.arange(len(own))
    byte, bit = place // 8, (128 >> (place % 8)).astype(np.uint8)
    same = np.zeros((len(of_type), width), dtype=np.uint8)  # the nodes of a type
    number = np.repeat(np.arange(len(of_type)), [len(nodes_of) for nodes_of in of_type])  # the type of each of them
    np.bitwise_or.at(same, (number, byte[own]), bit[own])
    seen = np.zeros((nodes.count, width), dtype=np.uint8)  # of what comes before a node
    for step in steps:
        source, target = sources[step], targets[step]
        carried = seen[source]
        mine = np.flatnonzero(place[source] >= 0)
        which = source[mine]
        carried[mine] &= ~same[number[place[which]]]
        carried[mine, byte[which]] |= bit[which]
        order, starts = sorting(target)
        seen[target[order[starts]]] = np.bitwise_or.reduceat(carried[order], starts, axis=0)
    second, first = np.nonzero(np.unpackbits(seen[own] & same[number], axis=1)[:, : len(own)])
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
