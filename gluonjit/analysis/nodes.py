"""The nodes to schedule, numbered one record after the other, with their types and who uses whose results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from gluonjit.analysis.grouping import Lists, grouped
from gluonjit.analysis.indices import Index, Mask
from gluonjit.analysis.liveness import base_rows
from gluonjit.analysis.plan import Part
from gluonjit.graph import Record

Group = list[Part]
"""Nodes that run together: parts of records of one family and mode."""


class Nodes:
    """The input of a scheduler. What costs something is computed when it is asked for.

    `keep` marks the nodes of each record to run, `operands` holds matrices of the rows they read (see
    `operand_matrices`), `rows` is the number of rows of the graph.
    """

    def __init__(self, keep: Mapping[Record, Mask], operands: Mapping[Record, Sequence[Index]], rows: int) -> None:
        self.keep = keep
        self.operands = operands
        self.rows = rows
        known: dict[Any, int] = {}
        self.families = {record: known.setdefault((record.kind.family, record.mode), len(known)) for record in keep}
        self.kinds = len(known)

    @cached_property
    def parts(self) -> list[Part]:
        """The nodes to run of each record, in the order of their numbers."""
        return [Part(record, np.flatnonzero(mask)) for record, mask in self.keep.items()]

    @cached_property
    def count(self) -> int:
        """The number of nodes to run."""
        return sum(len(part.nodes) for part in self.parts)

    @cached_property
    def types(self) -> Index:
        """The type of each node: nodes of one type may run together."""
        return self._joined([np.full(len(nodes), self.families[record]) for record, nodes in self.parts])

    @cached_property
    def depths(self) -> Index:
        """The inline depth of each node: one more than that of the deepest it uses, as it was captured."""
        return self._joined([np.array(record.depths, dtype=np.int64)[nodes] for record, nodes in self.parts])

    @cached_property
    def alone(self) -> list[bool]:
        """For each type whether its nodes run alone."""
        found = [False] * self.kinds
        for record in self.keep:
            found[self.families[record]] = record.kind.lone is not None
        return found

    @cached_property
    def bases(self) -> Index:
        """The first result row of each node."""
        return self._joined([base_rows(record)[nodes] for record, nodes in self.parts])

    @cached_property
    def producer(self) -> Index:
        """For each row of the graph the node that yields it, -1 where none does."""
        found = np.full(self.rows, -1, dtype=np.int64)
        for (record, nodes), first in zip(self.parts, self.firsts):
            numbers = np.arange(first, first + len(nodes))
            for offset in range(record.kind.rows):
                found[self.bases[numbers] + offset] = numbers
        return found

    @cached_property
    def edges(self) -> tuple[Index, Index]:
        """Pairs (node, node that uses a result of it), as many as there are rows so used."""
        sources, targets = [], []
        for (record, nodes), first in zip(self.parts, self.firsts):
            numbers = np.arange(first, first + len(nodes))
            for matrix in self.operands[record]:
                made_by = self.producer[matrix[nodes]]
                sources.append(made_by.ravel())
                targets.append(np.repeat(numbers, matrix.shape[1]))
        made, used = self._joined(sources), self._joined(targets)
        inside = made >= 0
        return made[inside], used[inside]

    @cached_property
    def users(self) -> Lists:
        """For each node those that use its results, once for each row that they use."""
        return grouped(*self.edges, self.count)

    @cached_property
    def waiting(self) -> Index:
        """For each node how many rows of others it uses."""
        return np.bincount(self.edges[1], minlength=self.count)

    def group(self, numbers: Index) -> Group:
        """Nodes by number as parts of their records."""
        ordered = np.sort(numbers)
        cuts = np.searchsorted(ordered, self.firsts)
        found = []
        for part in np.flatnonzero(cuts[1:] > cuts[:-1]).tolist():
            record, nodes = self.parts[part]
            found.append(Part(record, nodes[ordered[cuts[part] : cuts[part + 1]] - self.firsts[part]]))
        return found

    @cached_property
    def firsts(self) -> Index:
        """The number of the first node of each part, and after the last one the number of nodes."""
        return np.cumsum([0, *(len(part.nodes) for part in self.parts)])

    @staticmethod
    def _joined(parts: list[Index]) -> Index:
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
