"""The frontier of a schedule in progress: the nodes that can run next."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gluonjit.analysis.grouping import by_key, released
from gluonjit.analysis.indices import Index
from gluonjit.analysis.nodes import Nodes


class Ready:
    """Nodes whose operands have all run, by type. False once all nodes have been taken."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._waiting = nodes.waiting.copy()
        self._remaining = np.bincount(nodes.types, minlength=nodes.kinds).tolist()
        depths = np.bincount(nodes.types, weights=nodes.depths, minlength=nodes.kinds)
        self._depths = depths.astype(np.int64).tolist()
        self._ready: dict[int, list[Index]] = {}
        self._add(np.flatnonzero(self._waiting == 0))

    def __bool__(self) -> bool:
        return bool(self._ready)

    def kinds(self) -> Iterable[int]:
        """Types with nodes that can run."""
        return self._ready.keys()

    def count(self, kind: int) -> int:
        """The number of nodes of a type that can run."""
        return sum(len(part) for part in self._ready[kind])

    def mean_depth(self, kind: int) -> float:
        """The mean depth of a type's remaining nodes; 0 if none remain."""
        return self._depths[kind] / max(self._remaining[kind], 1)  # type: ignore[no-any-return]

    def take(self, kind: int) -> Index:
        """Takes all ready nodes of a type; nodes that waited only for them are ready from now on."""
        parts = self._ready.pop(kind)
        run = parts[0] if len(parts) == 1 else np.concatenate(parts)
        self._remaining[kind] -= len(run)
        self._depths[kind] -= int(self._nodes.depths[run].sum())
        self._add(released(self._waiting, self._nodes.users, run))
        return run

    def _add(self, found: Index) -> None:
        for kind, part in by_key(self._nodes.types[found], found):
            self._ready.setdefault(kind, []).append(part)
