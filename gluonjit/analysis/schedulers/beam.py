"""Scheduling by a beam: of all orders of types, after each step, the few states with the least launches to come go on.

The launches of a state are those so far and the bound on what remains; see `bound`, whose order is taken if this finds
none with fewer launches.
"""

from __future__ import annotations

from gluonjit.analysis.nodes import Nodes, Schedule
from gluonjit.analysis.schedulers.bound import shortened


def schedule(nodes: Nodes) -> Schedule:
    """Schedule by a beam as broad as the options say."""
    return shortened(nodes, nodes.breadth)
