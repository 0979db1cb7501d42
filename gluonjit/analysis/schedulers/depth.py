"""Scheduling by phase and depth.

Nodes of equal phase, depth and signature run together (depth: Neubig et al. 2017, section 3.2). Two families of nodes
are in one phase if each depends on the other, directly or not. Phases run one after the other. Depth decides only
inside a phase, and is counted there, because samples may enter a phase at different depths (the steps of a decoder
after encoders of different lengths). Kinds outside of any recursion run once, before or after it, so an output layer is
one step for samples of any depth (Fegade et al. 2024, ACRoBat, get this from annotations; here it is read off the
captured graph).
"""

from __future__ import annotations

from gluonjit.analysis import flat
from gluonjit.analysis.nodes import Nodes, Schedule
from gluonjit.compiled import room


def schedule(nodes: Nodes) -> Schedule:
    """Phase by phase, and inside a phase by depth."""
    captured = nodes.captured
    phase, recursive, count = nodes.phases
    order, level = room(captured.count), room(captured.count)
    flat.levels(
        nodes.families,
        phase,
        recursive,
        captured.widths,
        captured.kinds,
        captured.bases,
        captured.firsts,
        captured.operands,
        nodes.keep,
        captured.producer,
        level,
    )
    ranked = sorted(range(len(captured.records)), key=nodes.families.__getitem__)
    return Schedule(order, flat.sort(ranked, captured.begins, nodes.families, phase, count, nodes.keep, level, order))
