"""Scheduling by agenda: of what is ready run the type whose remaining nodes lie least deep, all that are ready.

Types whose nodes run alone go first: waiting gains nothing for them. (Neubig et al. 2017, section 3.2; the mean is
taken over the nodes that remain, not once over all, which their text leaves open and which needs fewer launches.)
"""

from __future__ import annotations

from gluonjit.analysis.nodes import Nodes, Schedule
from gluonjit.analysis.ready import Ready


def schedule(nodes: Nodes) -> Schedule:
    """Least mean depth of the remaining nodes first."""
    ready = Ready(nodes)
    groups = []
    while ready:
        kind = min(ready.kinds(), key=lambda kind: (not nodes.alone[kind], ready.mean_depth(kind), kind))
        groups.append(ready.take(kind))
    return nodes.schedule(groups)
