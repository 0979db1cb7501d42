"""From a node of a plan back to the user's program: the call, the sample, the line."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gluonjit.analysis.plan import Plan, Step, rows_read
from gluonjit.graph import Line, Mark, Record, line_of, sample_at

Node = tuple[Record, int]
"""A record and a position in its lists."""


@dataclass
class Provenance:
    """Answers questions about one flush; computes nothing before.

    records, samples: what was captured, and the numbers of the samples that did.
    """

    plan: Plan
    marks: Sequence[Mark]
    _records: Sequence[Record] = ()
    _samples: range = range(0)

    def without_inputs(self) -> Provenance:
        """The same, without the plan's input arrays: a report must not keep them."""
        return Provenance(self.plan.without_inputs(), self.marks)

    def node(self, step: int, index: int) -> Node:
        """A step's node number `index`."""
        for record, nodes in self.plan.steps[step].parts:
            if index < len(nodes):
                return record, int(nodes[index])
            index -= len(nodes)
        raise IndexError(f"step {step} has no node {index}")

    def line(self, step: int) -> Line | None:
        """The user's line that captured the first node of a step."""
        record, node = self.node(step, 0)
        return line_of(record.origins[node])

    def describe(self, record: Record, node: int) -> str:
        """A node for a message: its name, sample, line, and the shapes of its operands."""
        parts = [f"call of {record.kind.name}"]
        sample = self.sample(record.base(node))
        if sample is not None:
            parts.append(f"in sample {sample}")
        line = line_of(record.origins[node])
        if line is not None:
            parts.append(f"at {line}")
        shapes = ", ".join(f"{spec.shape} {spec.dtype}" for spec in record.kind.operands)
        return f"{' '.join(parts)}, on operands {shapes}"

    def producer(self, arena: int, position: int) -> Node:
        """The node whose result lies there."""
        producers = self._producers
        return next(producers[row] for row in self._rows_at(arena, position) if row in producers)

    def user(self, step: int, arena: int, position: int) -> Node:
        """The first node of a step that reads a row of an arena."""
        return next(self._users([self.plan.steps[step]], arena, position))

    def first_use(self, arena: int, position: int) -> str:
        """The first captured call that reads a row of an arena, for a message."""
        users = list(self._users(self.plan.steps, arena, position))
        if not users:
            return "program itself, outside of any captured call"
        return self.describe(*min(users, key=lambda user: user[0].base(user[1])))

    def _users(self, steps: Sequence[Step], arena: int, position: int) -> Iterator[Node]:
        wanted = self._rows_at(arena, position)
        return (node for node in _nodes(steps) if wanted.intersection(_rows_read(*node)))

    def _rows_at(self, arena: int, position: int) -> set[int]:
        found: list[int] = np.flatnonzero((self.plan.arena == arena) & (self.plan.position == position)).tolist()
        return set(found)

    def sample(self, row: int) -> int | None:
        """The sample of a node by its first row; one called outside of any, as a loss, has that of its operands."""
        producers = self._producers
        pending, seen = [row], set()
        while pending:
            current = pending.pop()
            if current in seen:
                continue
            seen.add(current)
            found = sample_at(self.marks, current)
            if found is None and current in producers and not producers[current][0].kind.operator:
                found = self._sample_of_one_node(current)
            if found is not None:
                return found
            if current in producers:
                pending.extend(sorted(set(_rows_read(*producers[current])), reverse=True))
        return None

    def _sample_of_one_node(self, row: int) -> int | None:
        """The sample that a call is by itself, where all are one call each and none is equal to another."""
        models = [record for record in self._records if not record.kind.operator]
        bases = sorted(record.base(node) for record in models for node in range(len(record)))
        place = bisect_right(bases, row) - 1
        return self._samples[place] if not self.marks and 0 <= place and len(bases) == len(self._samples) else None

    @cached_property
    def _producers(self) -> dict[int, Node]:
        """The nodes, by each of the rows that they make."""
        return {
            record.base(node) + offset: (record, node)
            for record, node in _nodes(self.plan.steps)
            for offset in range(record.kind.rows)
        }


def _nodes(steps: Sequence[Step]) -> Iterator[Node]:
    return ((record, node) for step in steps for record, nodes in step.parts for node in nodes.tolist())


def _rows_read(record: Record, node: int) -> list[int]:
    """Numbers of all rows that a node reads."""
    return [row for rows in rows_read(record, node) for row in rows]
