"""Scheduling by phase and inline depth.

Nodes of equal phase, depth and signature run together (depth: Neubig et al. 2017, section 3.2). The depth of a
node is known when it is captured, so there is little left to do but to sort.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gluonjit.analysis.phases import phases
from gluonjit.analysis.plan import Index, Mask, Part
from gluonjit.graph import Record

Group = list[Part]
"""Nodes that run together: parts of records of one family and mode."""


def by_depth(keep: Mapping[Record, Mask], operands: Mapping[Record, Sequence[Index]], rows: int) -> list[Group]:
    """Groups in the order in which they can run. Only nodes marked in `keep` appear."""
    known: dict[Any, int] = {}
    families = {record: known.setdefault((record.kind.family, record.mode), len(known)) for record in keep}
    phase = phases(families, keep, operands, rows)
    groups: dict[tuple[int, int, int], Group] = {}
    for record, mask in keep.items():
        number, recursive = phase[families[record]]
        depths = np.array(record.depths, dtype=np.int64) if recursive else np.zeros(len(mask), dtype=np.int64)
        for depth, nodes in _by_depth(depths, mask):
            groups.setdefault((number, depth, families[record]), []).append(Part(record, nodes))
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
