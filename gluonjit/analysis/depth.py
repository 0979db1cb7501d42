"""Scheduling by inline depth: nodes of equal depth and signature run together (Neubig et al. 2017, section 3.2).

The depth of a node is known when it is captured, so there is nothing left to do but to sort.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gluonjit.analysis.plan import Index, Mask, Part
from gluonjit.graph import Record

Group = list[Part]
"""Nodes that run together: parts of records of one family and mode."""


def by_depth(keep: Mapping[Record, Mask]) -> list[Group]:
    """Groups in the order in which they can run. Only nodes marked in `keep` appear."""
    groups: dict[tuple[int, int], Group] = {}
    families: dict[Any, int] = {}
    for record, mask in keep.items():
        family = families.setdefault((record.kind.family, record.mode), len(families))
        for depth, nodes in _by_depth(np.array(record.depths, dtype=np.int64), mask):
            groups.setdefault((depth, family), []).append(Part(record, nodes))
    return [groups[key] for key in sorted(groups)]


def _by_depth(depths: Index, mask: Mask) -> list[tuple[int, Index]]:
    nodes = np.flatnonzero(mask)
    if not len(nodes):
        return []
    kept = depths[nodes]
    order = np.argsort(kept, kind="stable")
    ordered = kept[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1))
    return [(int(ordered[start]), part) for start, part in zip(starts, np.split(nodes[order], starts[1:]))]
