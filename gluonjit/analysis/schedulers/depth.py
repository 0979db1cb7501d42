"""Scheduling by phase and inline depth.

Nodes of equal phase, depth and signature run together (depth: Neubig et al. 2017, section 3.2). The depth of a
node is known when it is captured, so there is little left to do but to sort.
"""

from __future__ import annotations

import numpy as np

from gluonjit.analysis.nodes import Group, Nodes
from gluonjit.analysis.phases import phases
from gluonjit.analysis.plan import Index, Mask, Part


def schedule(nodes: Nodes) -> list[Group]:
    """Phase by phase, and inside a phase by depth."""
    phase = phases(nodes.families, nodes.keep, nodes.operands, nodes.rows)
    groups: dict[tuple[int, int, int], Group] = {}
    for record, mask in nodes.keep.items():
        family = nodes.families[record]
        number, recursive = phase[family]
        depths = np.array(record.depths, dtype=np.int64) if recursive else np.zeros(len(mask), dtype=np.int64)
        for depth, found in _by_depth(depths, mask):
            groups.setdefault((number, depth, family), []).append(Part(record, found))
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
