"""Scheduling by the bound on what remains: of what is ready, run the type that lowers it at the least loss.

No schedule needs fewer launches than the longest chains of all types have nodes (Chen et al. 2023, ED-Batch). If all
nodes that begin the longest remaining chains of a type are ready, running it shortens them, and cannot be a mistake;
of several such types, or of none, it is the one with the largest share of these nodes ready. Each phase is scheduled
by itself, forwards and backwards, and as by depth: the order with the fewest launches is taken.
"""

from __future__ import annotations

from gluonjit.analysis import flat
from gluonjit.analysis.nodes import Nodes, Schedule
from gluonjit.analysis.schedulers import depth
from gluonjit.compiled import filled


def schedule(nodes: Nodes) -> Schedule:
    """Schedule by the rule alone."""
    return shortened(nodes, 0)


def shortened(nodes: Nodes, breadth: int) -> Schedule:
    """Schedule by the rule, and where it does not reach the bound by a beam of this many states, if any."""
    captured = nodes.captured
    order, starts = depth.schedule(nodes)
    starts = flat.shortened(
        breadth,
        starts,
        captured.count,
        nodes.families,
        filled([record.kind.lone is not None for record in captured.records]),
        nodes.phases[0],
        captured.widths,
        captured.kinds,
        captured.firsts,
        captured.operands,
        nodes.keep,
        captured.producer,
        order,
    )
    return Schedule(order, starts)
