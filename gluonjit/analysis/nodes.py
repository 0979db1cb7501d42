"""The nodes to schedule, numbered record by record, with their types and readers, and the frontier: those ready."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from gluonjit.analysis.captured import Captured
from gluonjit.analysis.grouping import Index, Lists, by_key, grouped, released
from gluonjit.compiled import filled, numbers


class Schedule(NamedTuple):
    """Nodes of `Captured` in the order in which they run: step k has those from `starts[k]` to `starts[k + 1]`."""

    order: Any
    starts: list[int]


class Nodes:
    """The input of a scheduler: the kept nodes of `captured`. Expensive parts are computed on request.

    families: the type of each record, whose nodes may run together with others of it; kinds: how many types there are.
    """

    def __init__(self, captured: Captured, keep: Any) -> None:
        self.captured = captured
        self.keep = keep
        known: dict[Any, int] = {}
        self.families = filled(
            [known.setdefault((record.kind.family, record.mode), len(known)) for record in captured.records]
        )
        self.kinds = len(known)

    @cached_property
    def captured_numbers(self) -> Index:
        """The number of each node in `captured`; they increase."""
        return np.flatnonzero(numbers(self.keep)[: self.captured.count])

    @property
    def count(self) -> int:
        """The number of nodes to run."""
        return len(self.captured_numbers)

    @cached_property
    def records(self) -> Index:
        """The number of each node's record."""
        return numbers(self.captured.kinds)[self.captured_numbers]  # type: ignore[no-any-return]

    @cached_property
    def types(self) -> Index:
        """The type of each node: nodes of one type may run together."""
        return numbers(self.families)[self.records]  # type: ignore[no-any-return]

    @cached_property
    def depths(self) -> Index:
        """The depth of each node: one more than that of the deepest it uses."""
        return self.captured.depths()[self.captured_numbers]  # type: ignore[no-any-return]

    @cached_property
    def alone(self) -> list[bool]:
        """Flags of types: whether their nodes run alone."""
        found = [False] * self.kinds
        for record, family in zip(self.captured.records, self.families):
            found[family] = record.kind.lone is not None
        return found

    @cached_property
    def bases(self) -> Index:
        """The first result row of each node."""
        return numbers(self.captured.bases)[self.captured_numbers]  # type: ignore[no-any-return]

    @cached_property
    def reads(self) -> tuple[Index, Index]:
        """Pairs (node, row that it reads), node by node and in the order of its operands."""
        widths = numbers(self.captured.widths)[self.records]
        ends = np.cumsum(widths)
        readers = np.repeat(np.arange(self.count), widths)
        offsets = np.arange(len(readers)) - np.repeat(ends - widths, widths)
        first = numbers(self.captured.firsts)[self.captured_numbers]
        return readers, numbers(self.captured.operands)[first[readers] + offsets]

    @cached_property
    def producer(self) -> Index:
        """The node that yields each row of the graph, -1 if none does."""
        places = np.full(len(self.captured.kinds) + 1, -1, dtype=np.int64)
        places[self.captured_numbers + 1] = np.arange(self.count)
        return places[numbers(self.captured.producer)]  # type: ignore[no-any-return]

    @cached_property
    def edges(self) -> tuple[Index, Index]:
        """Pairs (node, node that uses a result of it), as many as there are rows so used."""
        readers, rows = self.reads
        made = self.producer[rows]
        inside = made >= 0
        return made[inside], readers[inside]

    @cached_property
    def users(self) -> Lists:
        """The users of each node's results, once for each row that they use."""
        return grouped(*self.edges, self.count)

    @cached_property
    def waiting(self) -> Index:
        """The number of rows of other nodes that each node uses."""
        return np.bincount(self.edges[1], minlength=self.count)

    def schedule(self, groups: Iterable[Index]) -> Schedule:
        """Groups of nodes of one type each as a schedule; those of one step go record by record."""
        return self.in_order([np.sort(group) for group in groups])

    def in_order(self, groups: list[Index]) -> Schedule:
        """The same, as they stand in each group."""
        starts = [0, *np.cumsum([len(group) for group in groups], dtype=np.int64).tolist()]
        order = self.captured_numbers[np.concatenate(groups)].tolist() if groups else ()
        return Schedule(filled(order), starts)


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
