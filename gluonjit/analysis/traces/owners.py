"""Owners: the sample that each node of a trace belongs to, and the samples that read each input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gluonjit.analysis.traces.document import NO_SAMPLE, Trace
from gluonjit.errors import TraceError

COMMON = -1
"""The owner of what depends on inputs alone and was captured outside of any sample."""
JOINT = -2
"""The owner of what depends on several samples, as the sum of their losses."""


class Input(NamedTuple):
    """A leaf, by its number (`table` is None), or an entry of a table: `rows` rows from `base` on."""

    table: int | None
    number: int
    base: int
    rows: int


@dataclass(frozen=True)
class Owners:
    """rows: the owner of each row, COMMON for inputs; nodes: for each owner its nodes in the order of capture, as
    (kind, position); inputs: each row of an input with that input; readers: by an input's first row who reads it.
    """

    rows: list[int]
    nodes: dict[int, list[tuple[int, int]]]
    inputs: dict[int, Input]
    readers: dict[int, set[int]]


def owners_of(trace: Trace) -> Owners:
    """Nodes captured outside of samples, as losses, belong to the sample they depend on, if it is one.

    Raises TraceError where a sample uses what another one, or several together, have computed.
    """
    inputs = _inputs(trace)
    rows = [COMMON] * trace.rows
    nodes: dict[int, list[tuple[int, int]]] = {}
    readers: dict[int, set[int]] = {}
    for kind, position in trace.in_order():
        traced = trace.nodes[kind]
        read: list[int] = traced.operands[position].tolist()
        used = {rows[row] for row in read} - {COMMON}
        owner = int(traced.samples[position])
        if owner == NO_SAMPLE:
            owner = JOINT if len(used) > 1 else used.pop() if used else COMMON
        elif used - {owner}:
            other = "several samples" if min(used) == JOINT else f"sample {min(used - {owner})}"
            raise TraceError(
                f"a subset of a trace's samples: in sample {owner} {trace.kinds[kind].name} uses a result of {other}, "
                f"so that no sample can be taken alone. Next: simulate the whole trace, without a batch size."
            )
        nodes.setdefault(owner, []).append((kind, position))
        base = int(traced.bases[position])
        rows[base : base + trace.kinds[kind].rows] = [owner] * trace.kinds[kind].rows
        for row in read:
            if row in inputs:
                readers.setdefault(inputs[row].base, set()).add(owner)
    return Owners(rows, nodes, inputs, readers)


def _inputs(trace: Trace) -> dict[int, Input]:
    found: dict[int, Input] = {}
    for number, leaf in enumerate(trace.leaves):
        known = Input(None, number, leaf.base, leaf.spec.rows)
        found.update((leaf.base + offset, known) for offset in range(leaf.spec.rows))
    for number, table in enumerate(trace.tables):
        found.update((row, Input(number, number, row, 1)) for row in table.rows.tolist())
    return found
