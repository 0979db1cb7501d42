"""Lower bounds on what a schedule can do: the fewest launches, and the longest chain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from gluonjit.analysis.indices import Index
from gluonjit.analysis.liveness import result_rows
from gluonjit.analysis.operands import joined, operand_matrices
from gluonjit.analysis.plan import Plan, Step
from gluonjit.graph import Record

_CELLS = 1 << 22  # lengths that are kept at once: rows times types


def lower_bound(plan: Plan) -> int:
    """Nodes that run alone + for each other type the longest chain of nodes of that type.

    Source: Chen et al. 2023 (ED-Batch), section 3: no schedule can run two nodes of one path together.
    """
    alone = sum(step.count for step in plan.steps if step.kind.lone)
    types = Counter(_type(step) for step in plan.steps if not step.kind.lone)
    # Nodes of one step do not depend on each other.
    once = sum(1 for steps in types.values() if steps == 1)
    several = [key for key, steps in types.items() if steps > 1]
    return alone + once + _longest_chains(plan, several)


def critical_path(plan: Plan) -> int:
    """The longest chain of nodes of whatever types: no schedule has fewer steps."""
    return int(_lengths(plan, dict.fromkeys(map(_type, plan.steps), 0), 1)[0])


def _type(step: Step) -> Hashable:
    return step.kind.family, step.mode


def _longest_chains(plan: Plan, types: Sequence[Hashable]) -> int:
    """The longest chains of nodes of each type, added up: so many types in one pass as memory is there for."""
    total = 0
    width = max(1, _CELLS // max(len(plan.arena), 1))
    for begin in range(0, len(types), width):
        column = {key: number for number, key in enumerate(types[begin : begin + width])}
        total += int(_lengths(plan, column, len(column)).sum())
    return total


def _lengths(plan: Plan, column: Mapping[Hashable, int], columns: int) -> npt.NDArray[np.int32]:
    """Longest paths, one a column, counted in nodes of its types. Steps are in an order in which they can run."""
    length = np.zeros((len(plan.arena), columns), dtype=np.int32)
    longest = np.zeros(columns, dtype=np.int32)
    known: dict[Record, tuple[Index, Index]] = {}  # the rows that each node reads, and those of its results
    for step in plan.steps:
        own = column.get(_type(step))
        for record, nodes in step.parts:
            if record not in known:
                known[record] = joined(operand_matrices(record), len(record.bases)), result_rows(record)
            operands, results = known[record]
            best = length[operands[nodes]].max(axis=1, initial=0)
            if own is not None:
                best[:, own] += 1
                longest[own] = max(longest[own], best[:, own].max(initial=0))
            length[results[nodes]] = best[:, None, :]
    return longest
