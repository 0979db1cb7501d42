"""Phases: kinds that no recursion goes through run once, before or after it.

Two families of nodes are in one phase if each depends on the other, directly or not. Phases run one after the
other; only inside a phase does depth decide. So an output layer is one step however deep the samples are
(Fegade et al. 2024, ACRoBat, get this from annotations; here it is read off the captured graph).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gluonjit.analysis.indices import Index, Mask
from gluonjit.analysis.liveness import result_rows
from gluonjit.analysis.operands import joined
from gluonjit.graph import Record


def phases(
    families: Mapping[Record, int],
    keep: Mapping[Record, Mask],
    operands: Mapping[Record, Sequence[Index]],
    rows: int,
) -> dict[int, tuple[int, bool]]:
    """For each family its phase, and whether its nodes depend on each other."""
    count = max(families.values(), default=-1) + 1
    producer = np.full(rows, -1, dtype=np.int64)
    for record, mask in keep.items():
        producer[result_rows(record)[mask]] = families[record]
    uses: list[set[int]] = [set() for _ in range(count)]
    for record, mask in keep.items():
        read = joined(operands[record], len(mask))[mask]
        used = np.bincount(producer[read.ravel()] + 1, minlength=count + 1)
        uses[families[record]].update((np.flatnonzero(used[1:])).tolist())
    number, sizes = _components(uses)
    return {family: (number[family], sizes[number[family]] > 1 or family in uses[family]) for family in range(count)}


def _components(uses: Sequence[set[int]]) -> tuple[list[int], dict[int, int]]:
    """Strongly connected components, numbered so that a component comes after those it uses, and their sizes.

    Tarjan's algorithm without recursion.
    """
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    path: list[int] = []
    number = [-1] * len(uses)
    sizes: dict[int, int] = {}
    for root in range(len(uses)):
        if root in order:
            continue
        work = [(root, iter(sorted(uses[root])))]
        order[root] = low[root] = len(order)
        path.append(root)
        while work:
            family, rest = work[-1]
            for other in rest:
                if other not in order:
                    order[other] = low[other] = len(order)
                    path.append(other)
                    work.append((other, iter(sorted(uses[other]))))
                    break
                if number[other] < 0:
                    low[family] = min(low[family], order[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[family])
                if low[family] == order[family]:
                    members = path[path.index(family) :]
                    del path[path.index(family) :]
                    sizes[len(sizes)] = len(members)
                    for member in members:
                        number[member] = len(sizes) - 1
    return number, sizes
