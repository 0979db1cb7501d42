"""Scheduling by agenda with means taken once, over all nodes, as DyNet does (Neubig et al. 2017, section 3.2)."""

from __future__ import annotations

from gluonjit.analysis.nodes import Nodes, Ready, Schedule


def schedule(nodes: Nodes) -> Schedule:
    """Least mean depth of all nodes first."""
    ready = Ready(nodes)
    order = sorted(range(nodes.kinds), key=lambda kind: (not nodes.alone[kind], ready.mean_depth(kind), kind))
    rank = {kind: position for position, kind in enumerate(order)}
    groups = []
    while ready:
        groups.append(ready.take(min(ready.kinds(), key=rank.__getitem__)))
    return nodes.schedule(groups)
