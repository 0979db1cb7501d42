"""Smaller and larger batches from one trace: some of its samples, or samples several times.

What was captured once for all samples stays single; what one sample alone has read or computed is copied with it. A sum
over several samples becomes a sum over the samples taken. Anything else that depends on several samples is kept if each
of them is present once, and left out otherwise; its operands then count as read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from gluonjit.analysis.traces.document import (
    NO_SAMPLE,
    BatchTrace,
    TracedTable,
    TraceKind,
    TraceLeaf,
    TraceNodes,
    addition,
)
from gluonjit.errors import TraceError

COMMON = -1
"""The owner of what depends on inputs alone and was captured outside of any sample."""
JOINT = -2
"""The owner of what depends on several samples, as the sum of their losses."""
Places = dict[int, int]
"""Rows of the trace by rows of the new one."""
Term = list[int]


class TraceInput(NamedTuple):
    """A leaf, by its number (`table` is None), or an entry of a table: `rows` rows from `base` on."""

    table: int | None
    number: int
    base: int
    rows: int


@dataclass(frozen=True)
class RowOwners:
    """rows: the owner of each row, COMMON for inputs; nodes: for each owner its nodes in the order of capture, as
    (kind, position); inputs: each row of an input with that input; readers: by an input's first row who reads it.
    """

    rows: list[int]
    nodes: dict[int, list[tuple[int, int]]]
    inputs: dict[int, TraceInput]
    readers: dict[int, set[int]]


def owners_of(trace: BatchTrace) -> RowOwners:
    """Finds the owners of all nodes; nodes outside of samples, such as losses, belong to the one sample they depend on.

    Raises TraceError if a sample uses what another one, or several together, have computed.
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
                f"a subset of a trace's samples: in sample {owner} {trace.kinds[kind].name} uses a result of "
                f"{other}, so no sample can be taken alone. Next: simulate the whole trace, without a batch size."
            )
        nodes.setdefault(owner, []).append((kind, position))
        base = int(traced.bases[position])
        rows[base : base + trace.kinds[kind].rows] = [owner] * trace.kinds[kind].rows
        for row in read:
            if row in inputs:
                readers.setdefault(inputs[row].base, set()).add(owner)
    return RowOwners(rows, nodes, inputs, readers)


def _inputs(trace: BatchTrace) -> dict[int, TraceInput]:
    found: dict[int, TraceInput] = {}
    for number, leaf in enumerate(trace.leaves):
        known = TraceInput(None, number, leaf.base, leaf.spec.rows)
        found.update((leaf.base + offset, known) for offset in range(leaf.spec.rows))
    for number, table in enumerate(trace.tables):
        found.update((row, TraceInput(number, number, row, 1)) for row in table.rows.tolist())
    return found


def sample_numbers(trace: BatchTrace) -> tuple[int, ...]:
    """The numbers of the samples of a trace; empty if it was captured without calls of a batched model."""
    found = {int(number) for nodes in trace.nodes for number in np.unique(nodes.samples)}
    return tuple(sorted(found - {NO_SAMPLE}))


def resampled(trace: BatchTrace, samples: Iterable[int]) -> BatchTrace:
    """A trace of these samples, by their positions in `sample_numbers`, in this order.

    A sample that is named again comes again with inputs of its own; only inputs that several samples of the trace read,
    such as a first state, are the same. Raises TraceError for a trace taken with sharing, in which it is not known what
    a sample needs, and for samples that use each other's results.
    """
    numbers = sample_numbers(trace)
    positions = list(samples)
    if not positions or not all(0 <= position < len(numbers) for position in positions):
        raise TraceError(f"samples {positions[:5]} of a trace that has {len(numbers)}. Next: choose among those.")
    chosen = [numbers[position] for position in positions]
    if chosen == list(numbers):
        return trace
    if trace.sharing:
        raise TraceError(
            f"{len(chosen)} samples of a trace of {len(numbers)} captured with sharing=True: the samples of a "
            "shared call are unknown. Next: capture it with gluonjit.batching(sharing=False)."
        )
    owners = owners_of(trace)
    made = _Made(trace, owners)
    made.add_sample(COMMON, NO_SAMPLE)
    for number, sample in enumerate(chosen):
        made.add_sample(sample, number)
    for kind, position in owners.nodes.get(JOINT, []):
        made.add_joint(kind, position)
    return made.trace()


@dataclass
class _Nodes:
    bases: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    live: list[bool] = field(default_factory=list)
    operands: list[list[int]] = field(default_factory=list)


class _Made:
    """The new trace under construction. `shared` has the places of single parts, `copies` those of each sample."""

    def __init__(self, trace: BatchTrace, owners: RowOwners) -> None:
        self.old = trace
        self.owners = owners
        self.leaves: list[TraceLeaf] = []
        self.tables: list[list[int]] = [[] for _ in trace.tables]
        self.kinds = list(trace.kinds)
        self.nodes = [_Nodes() for _ in trace.kinds]
        self.depth: list[int] = []  # of what makes each row
        self.maker: dict[int, tuple[int, int]] = {}
        self.shared: Places = {}
        self.copies: dict[int, list[Places]] = {}
        self.additions: dict[TraceKind, int] = {}

    def add_sample(self, owner: int, number: int) -> None:
        """Adds a copy of all nodes of an owner, and of the inputs that it alone reads."""
        own = self.shared if owner == COMMON else {}
        for kind, position in self.owners.nodes.get(owner, []):
            old = self.old.nodes[kind]
            read: list[int] = old.operands[position].tolist()
            self._add_inputs(read, own)
            operands = [own[row] if row in own else self.shared[row] for row in read]
            sample = NO_SAMPLE if old.samples[position] == NO_SAMPLE else number
            base = self._add_node(kind, operands, int(old.depths[position]), sample, bool(old.live[position]))
            first = int(old.bases[position])
            own.update((first + offset, base + offset) for offset in range(self.kinds[kind].rows))
        self.copies.setdefault(owner, []).append(own)

    def add_joint(self, kind: int, position: int) -> None:
        """Adds nodes that depend on several samples: a sum over those present, or if possible the node itself."""
        old = self.old.nodes[kind]
        read: list[int] = old.operands[position].tolist()
        self._add_inputs(read, self.shared)
        first, live = int(old.bases[position]), bool(old.live[position])
        rows = self.old.kinds[kind].rows
        size = rows if self.old.kinds[kind].sum_of else 1
        versions = [self._versions(read[begin : begin + size]) for begin in range(0, len(read), size)]
        made: Term | None
        if self.old.kinds[kind].sum_of and None not in versions:
            made = self._add_sum(kind, [term for terms in versions for term in terms or ()], live)
        elif all(terms is not None and len(terms) == 1 for terms in versions):
            operands = [row for terms in versions for term in terms or () for row in term]
            base = self._add_node(kind, operands, self._above(operands), NO_SAMPLE, live)
            made = list(range(base, base + rows))
        else:
            made = None
            for row in read:
                self._keep(row for term in self._versions([row]) or () for row in term)
        if made is not None:
            self.shared.update((first + offset, row) for offset, row in enumerate(made))

    def trace(self) -> BatchTrace:
        """All of it."""
        found = [number for number, nodes in enumerate(self.nodes) if nodes.bases]
        return replace(
            self.old,
            rows=len(self.depth),
            leaves=tuple(self.leaves),
            tables=tuple(
                TracedTable(table.spec, np.array(rows, dtype=np.int64))
                for table, rows in zip(self.old.tables, self.tables)
                if rows
            ),
            kinds=tuple(replace(self.kinds[number], calls=len(self.nodes[number].bases)) for number in found),
            nodes=tuple(_frozen(self.nodes[number]) for number in found),
        )

    def _add_inputs(self, read: list[int], own: Places) -> None:
        for row in read:
            known = self.owners.inputs.get(row)
            if known is None or row in own or row in self.shared:
                continue
            readers = self.owners.readers[known.base]
            places = own if len(readers) == 1 and min(readers) >= 0 else self.shared
            base = len(self.depth)
            if known.table is None:
                self.leaves.append(self.old.leaves[known.number]._replace(base=base))
            else:
                self.tables[known.table].append(base)
            self.depth += [0] * known.rows
            places.update((known.base + offset, base + offset) for offset in range(known.rows))

    def _add_node(self, kind: int, operands: list[int], depth: int, sample: int, live: bool) -> int:
        nodes, base = self.nodes[kind], len(self.depth)
        rows = self.kinds[kind].rows
        self.maker.update((base + offset, (kind, len(nodes.bases))) for offset in range(rows))
        self.depth += [depth] * rows
        nodes.bases.append(base)
        nodes.depths.append(depth)
        nodes.samples.append(sample)
        nodes.live.append(live)
        nodes.operands.append(operands)
        return base

    def _add_sum(self, kind: int, terms: list[Term], live: bool) -> Term | None:
        """The rows of a sum of these terms, None if there are none."""
        old = self.old.kinds[kind]
        if not terms:
            return None
        if len(terms) != old.sum_of and old.sum_of == 2:  # a chain, as `sum(losses)` makes it
            total = terms[0]
            for term in terms[1:]:
                operands = total + term
                base = self._add_node(kind, operands, self._above(operands), NO_SAMPLE, False)
                total = list(range(base, base + old.rows))
            if live:
                self._keep(total)
            return total
        if len(terms) != old.sum_of:
            kind = self._addition(old, len(terms))
        operands = [row for term in terms for row in term]
        base = self._add_node(kind, operands, self._above(operands), NO_SAMPLE, live)
        return list(range(base, base + old.rows))

    def _addition(self, like: TraceKind, count: int) -> int:
        """The number of the kind that adds up this many arrays."""
        key = addition(like.outputs[0].spec, count, like.mode)
        known = self.additions.get(key)
        if known is None:
            known = self.additions[key] = len(self.kinds)
            family = 1 + max(kind.family for kind in self.kinds)
            self.kinds.append(replace(key, family=family))
            self.nodes.append(_Nodes())
        return known

    def _versions(self, rows: Term) -> list[Term] | None:
        """Finds these rows in the copies: a list for each copy of their sample; None if they are of several."""
        owners = {self.owners.rows[row] for row in rows}
        if len(owners) == 1 and min(owners) >= 0:
            return [[places[row] for row in rows] for places in self.copies.get(owners.pop(), [])]
        if max(owners) >= 0:
            return None
        return [[self.shared[row] for row in rows]] if all(row in self.shared for row in rows) else []

    def _above(self, operands: list[int]) -> int:
        return 1 + max(self.depth[row] for row in operands)

    def _keep(self, rows: Iterable[int]) -> None:
        """Marks rows as read."""
        for row in rows:
            if row in self.maker:
                kind, position = self.maker[row]
                self.nodes[kind].live[position] = True


def _frozen(nodes: _Nodes) -> TraceNodes:
    return TraceNodes(
        bases=np.array(nodes.bases, dtype=np.int64),
        depths=np.array(nodes.depths, dtype=np.int64),
        samples=np.array(nodes.samples, dtype=np.int64),
        live=np.array(nodes.live, dtype=bool),
        operands=np.array(nodes.operands, dtype=np.int64),
    )
