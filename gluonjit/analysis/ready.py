"""What can run next: the frontier of a schedule in the making."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gluonjit.analysis.nodes import Nodes
from gluonjit.analysis.plan import Index


class Ready:
    """Nodes all of whose operands are there, by type. False when all nodes have been taken."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._waiting = nodes.waiting.copy()
        self._ready: dict[int, list[Index]] = {}
        self._add(np.flatnonzero(self._waiting == 0))

    def __bool__(self) -> bool:
        return bool(self._ready)

    def kinds(self) -> Iterable[int]:
        """Types with nodes that can run."""
        return self._ready.keys()

    def count(self, kind: int) -> int:
        """How many nodes of a type can run."""
        return sum(len(part) for part in self._ready[kind])

    def take(self, kind: int) -> Index:
        """Run all nodes of a type that can run; those that have waited for them only can run from now on."""
        parts = self._ready.pop(kind)
        run = parts[0] if len(parts) == 1 else np.concatenate(parts)
        users = np.bincount(self._nodes.users.of(run), minlength=0)
        touched = np.flatnonzero(users)
        self._waiting[touched] -= users[touched]
        self._add(touched[self._waiting[touched] == 0])
        return run

    def totals(self) -> tuple[list[int], list[int]]:
        """For each type its number of nodes, and the sum of their depths."""
        nodes = self._nodes
        counts = np.bincount(nodes.types, minlength=nodes.kinds)
        depths = np.bincount(nodes.types, weights=nodes.depths, minlength=nodes.kinds)
        return counts.tolist(), depths.astype(np.int64).tolist()

    def _add(self, found: Index) -> None:
        if not len(found):
            return
        types = self._nodes.types[found]
        order = np.argsort(types, kind="stable")
        ordered = types[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1))
        for start, part in zip(starts.tolist(), np.split(found[order], starts[1:])):
            self._ready.setdefault(int(ordered[start]), []).append(part)
