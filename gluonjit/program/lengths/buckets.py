"""Nodes of like lengths together, for a padded stage: those for which padding costs less than another launch."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from gluonjit.program.axes.values import Size
from gluonjit.program.lengths.nodes import SizedNodes
from gluonjit.program.lengths.stages import Stage

SAVED = 8000
"""The elements that may be worked on in vain, for what another call of the framework costs."""


def buckets(stage: Stage, nodes: SizedNodes) -> list[Any]:
    """The numbers of the nodes of each bucket; None for all of them."""
    if not stage.lengths or _fits(stage, nodes):
        return [None]
    listed = np.stack([nodes.lengths[length] for length in stage.lengths], 1)
    groups: dict[tuple[int, ...], list[int]] = {}
    for number, lengths in enumerate(map(tuple, listed.tolist())):
        groups.setdefault(lengths, []).append(number)
    found = _gathered(stage, groups)
    return [None] if len(found) == 1 else [np.sort(np.array(numbers)) for numbers in found]


def _fits(stage: Stage, nodes: SizedNodes) -> bool:
    """True if padding of all nodes costs less than a launch, and all have something."""
    own = np.broadcast_to(stage.size(nodes.lengths), nodes.count).sum()
    wasted = nodes.count * stage.size(nodes.most) - own
    return bool(wasted <= SAVED * stage.calls) and all([nodes.lengths[k].all() for k in stage.lengths])


def _gathered(stage: Stage, groups: dict[tuple[int, ...], list[int]]) -> list[list[int]]:
    """Groups of nodes of equal lengths that run together; those without any rows by themselves."""
    terms = [
        (size.times, [stage.lengths.index(length) for length in size.lengths]) if size.__class__ is Size else (size, [])
        for size in stage.elements
    ]

    def elements(lengths: tuple[int, ...]) -> int:
        return sum([times * prod([lengths[place] for place in places]) for times, places in terms])

    sized = [(tuple([not size for size in lengths]), -elements(lengths), lengths) for lengths in groups]
    found: list[list[int]] = []
    most: tuple[int, ...] = ()
    before: tuple[bool, ...] = ()
    size = count = 0
    for empty, own, lengths in sorted(sized):
        more = groups[lengths]
        if found and empty == before:
            both = tuple(map(max, most, lengths))
            whole = elements(both)
            if (whole - size) * count + (whole + own) * len(more) <= SAVED * stage.calls:
                found[-1] += more
                most, size, count = both, whole, count + len(more)
                continue
        found.append([*more])
        most, before, size, count = lengths, empty, -own, len(more)
    return found
