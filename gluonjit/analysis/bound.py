"""What no schedule can do better than: a lower bound on the number of launches, and the longest chain."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from gluonjit.analysis.liveness import result_rows
from gluonjit.analysis.operands import highest, operand_matrices
from gluonjit.analysis.plan import Plan


def lower_bound(plan: Plan) -> int:
    """Nodes that run alone + for each other type the longest chain of nodes of that type.

    Source: Chen et al. 2023 (ED-Batch), section 3: no schedule can run two nodes of one path together.
    """
    alone = sum(step.count for step in plan.steps if step.kind.lone)
    types = Counter((step.kind.family, step.mode) for step in plan.steps if not step.kind.lone)
    # Nodes of one step do not depend on each other.
    return alone + sum(1 if steps == 1 else _longest_chain(plan, key) for key, steps in types.items())


def critical_path(plan: Plan) -> int:
    """The longest chain of nodes of whatever types: no schedule has fewer steps."""
    return _longest_chain(plan)


def _longest_chain(plan: Plan, key: Any = None) -> int:
    """Longest path counted in nodes of one type, or of all; steps are in an order in which they can run."""
    length = np.zeros(len(plan.arena), dtype=np.int64)
    longest = 0
    for step in plan.steps:
        own = 1 if key is None or (step.kind.family, step.mode) == key else 0
        for record, nodes in step.parts:
            best = highest(length, operand_matrices(record), nodes) + own
            longest = max(longest, int(best.max(initial=0)))
            length[result_rows(record)[nodes]] = best[:, None]
    return longest
