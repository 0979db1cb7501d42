"""Scheduling by phase and depth.

Nodes of equal phase, depth and signature run together (depth: Neubig et al. 2017, section 3.2). The depth of a
node is known when it is captured, so there is little left to do but to sort. Only where nodes enter a phase at
different depths, as the steps of a decoder after encoders of different lengths, is it counted anew, from the entry on.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gluonjit.analysis.grouping import by_key
from gluonjit.analysis.indices import Index, Mask
from gluonjit.analysis.liveness import base_rows, result_rows
from gluonjit.analysis.nodes import Group, Nodes
from gluonjit.analysis.operands import highest
from gluonjit.analysis.phases import phases
from gluonjit.analysis.plan import Part
from gluonjit.graph import Record


def schedule(nodes: Nodes) -> list[Group]:
    """Phase by phase, and inside a phase by depth."""
    phase = phases(nodes.families, nodes.keep, nodes.operands, nodes.rows)
    together: dict[int, list[Record]] = {}  # the records of each phase with recursion
    groups: dict[tuple[int, int, int], Group] = {}
    for record, mask in nodes.keep.items():
        number, recursive = phase[nodes.families[record]]
        if recursive:
            together.setdefault(number, []).append(record)
        elif mask.any():
            groups.setdefault((number, 0, nodes.families[record]), []).append(Part(record, np.flatnonzero(mask)))
    for number, records in together.items():
        depths = _depths(nodes, records)
        for record in records:
            for depth, found in _by_depth(depths[record], nodes.keep[record]):
                groups.setdefault((number, depth, nodes.families[record]), []).append(Part(record, found))
    return [groups[key] for key in sorted(groups)]


def _depths(nodes: Nodes, records: Sequence[Record]) -> dict[Record, Index]:
    """The depth of each node of a phase: inline, or where what comes from outside adds to it, counted inside alone."""
    inline = {record: np.array(record.depths, dtype=np.int64) for record in records}
    level = np.zeros(nodes.rows, dtype=np.int64)  # inline depths of the phase's own rows
    for record in records:
        mask = nodes.keep[record]
        level[result_rows(record)[mask]] = inline[record][mask][:, None]
    entry = None
    for record in records:
        kept = np.flatnonzero(nodes.keep[record])
        inside = highest(level, nodes.operands[record], kept)
        enters = inside == 0
        depths = inline[record][kept]
        entered = depths[enters]
        if entry is None and len(entered):
            entry = int(entered[0])
        if (depths[~enters] != inside[~enters] + 1).any() or (entered != entry).any():
            return _counted(nodes, records, inline)
    return inline


def _counted(nodes: Nodes, records: Sequence[Record], inline: dict[Record, Index]) -> dict[Record, Index]:
    """Depths counted inside of the phase alone, from one inline depth to the next."""
    level = np.zeros(nodes.rows, dtype=np.int64)
    depths = {record: np.zeros(len(found), dtype=np.int64) for record, found in inline.items()}
    parts = [
        (depth, record, found) for record in records for depth, found in _by_depth(inline[record], nodes.keep[record])
    ]
    for _, record, found in sorted(parts, key=lambda part: part[0]):
        reached = highest(level, nodes.operands[record], found) + 1
        depths[record][found] = reached
        level[base_rows(record)[found][:, None] + np.arange(record.kind.rows)] = reached[:, None]
    return depths


def _by_depth(depths: Index, mask: Mask) -> list[tuple[int, Index]]:
    nodes = np.flatnonzero(mask)
    return by_key(depths[nodes], nodes)
