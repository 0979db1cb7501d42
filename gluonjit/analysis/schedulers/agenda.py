"""Scheduling by agenda: run all ready nodes of the type whose remaining nodes have the least mean depth.

Types whose nodes run alone go first: waiting gains nothing for them. (Neubig et al. 2017, section 3.2. The mean is
taken over the remaining nodes, not once over all nodes; their text leaves this open, and it needs fewer launches.)
"""

from __future__ import annotations

from gluonjit.analysis.nodes import Nodes, Ready, Schedule


def schedule(nodes: Nodes) -> Schedule:
    """Least mean depth of the remaining nodes first."""
    ready = Ready(nodes)
    groups = []
    while ready:
        kind = min(ready.kinds(), key=lambda kind: (not nodes.alone[kind], ready.mean_depth(kind), kind))
        groups.append(ready.take(kind))
    return nodes.schedule(groups)
