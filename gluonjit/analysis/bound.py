"""Lowers bounds on what a schedule can do: the fewest launches, and the longest chain."""

from __future__ import annotations

from collections.abc import Hashable

from gluonjit.analysis import flat
from gluonjit.analysis.nodes import Nodes
from gluonjit.analysis.plan import Plan


def lower_bound(plan: Plan) -> int:
    """Returns the fewest launches of a plan's nodes, computed once for all plans of its structure."""
    found = plan.common.bound
    if found is None:
        found = plan.common.bound = _lower_bound(plan)
    return found


def _lower_bound(plan: Plan) -> int:
    """Returns the number of nodes that run alone, plus for each other type the longest chain of its nodes.

    Source: Chen et al. 2023 (ED-Batch), section 3: no schedule can run two nodes of one path together.
    """
    alone = 0
    once: set[Hashable] = set()  # nodes of one step do not depend on each other
    several: set[Hashable] = set()
    for step in plan.steps:
        key = step.kind.family, step.mode
        if step.kind.lone:
            alone += step.count
        elif key in once:
            several.add(key)
        else:
            once.add(key)
    return alone + len(once) - len(several) + (_longest_chains(plan, several) if several else 0)


def critical_path(plan: Plan) -> int:
    """Returns the longest chain of nodes of any types: no schedule has fewer steps."""
    return int(plan.captured.depths().max(initial=0))


def _longest_chains(plan: Plan, types: set[Hashable]) -> int:
    """Returns the sum over types of the longest chain of nodes of that type."""
    captured = plan.captured
    nodes = Nodes(captured, captured.keep)
    families = {
        family for record, family in zip(captured.records, nodes.families) if (record.kind.family, record.mode) in types
    }
    phase, recursive, _ = nodes.phases
    found: int = flat.longest_chains(
        sorted(families),
        captured.count,
        nodes.families,
        phase,
        recursive,
        captured.widths,
        captured.kinds,
        captured.bases,
        captured.firsts,
        captured.operands,
        captured.producer,
    )
    return found
