"""The graph of one open batch: one record of nodes per signature."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any

from gluonjit.graph.origins import Mark
from gluonjit.graph.reading import joined_of, node_at
from gluonjit.graph.recorder import GraphRows, Record
from gluonjit.graph.values import Spec


class Graph(GraphRows):
    """Rows, leaves and records of one open batch.

    Rows are numbered in the order of capture. A leaf's payload is the engine's: an array, or the result of an
    earlier flush. `lookups` maps a table (an embedding's weight, or the host's integers) to the rows of its
    entries.
    """

    __slots__ = ("__dict__", "__weakref__")

    def __init__(self, owner: Any = None, clock: Callable[[], float] = perf_counter) -> None:
        self.owner = owner
        self.clock = clock
        self.begun = 0.0
        self.records: dict[Any, Record] = {}
        self.rows = 0
        self.leaves = {}
        self.lookups = {}
        self.lookup_specs: dict[Any, Spec] = {}
        self.marks: list[Mark] = []  # where samples begin and end
        self.copies: list[Iterable[int]] = []  # rows that arrays with memory of their own refer to, as `stack` gives
        self.overwritten: list[tuple[int, int, int]] = []  # rows written over: first, count, new one or -1
        self.checks: list[Any] = []  # of what the program has assumed
        self.single_rows = {}  # one-row slices of inputs, so that equal ones are the same value
        # (the row's number for x[i:i+1], ~number for x[i])

    def entries(self, table: Any, spec: Spec) -> dict[int, int]:
        """The rows of a table's entries looked up so far, by index; each entry has the spec `spec`."""
        entries = self.lookups.get(table)
        if entries is None:
            self.begin()
            self.lookup_specs[table] = spec
            entries = self.lookups[table] = {}
        return entries

    def overwrite(self, row: int, count: int, new: int) -> None:
        """Notes that the rows of an array are written over: those from `new` on have its numbers then, or none (-1).

        Not where equal calls, or a copy, may have given the array; `new` is -2 where one may have been read.
        """
        maker, joined = node_at(self.records, row), joined_of(self.copies, row, row + count)
        if maker is None or maker[0].calls > len(maker[0]) or list(range(row, row + count)) in map(list, joined):
            return
        record, node = maker
        record.forget(node)  # equal calls are separate nodes from now on: what they save is not written over
        self.overwritten.append((row, count, -2 if joined else new))

    @property
    def nodes(self) -> int:
        """Distinct nodes captured."""
        return sum(len(record) for record in self.records.values())

    @property
    def calls(self) -> int:
        """Calls captured, shared ones included."""
        return sum(record.calls for record in self.records.values())
