"""Graphs made of a trace: all of it, some of its samples, or samples several times; with equal calls as one or not.

What was captured once for all samples stays single; what one sample alone has read or computed is copied with it. A sum
over several samples becomes a sum over the samples taken. Anything else that depends on several samples is kept if each
of them is present once, and left out otherwise; its operands then count as read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any, NamedTuple

from gluonjit.analysis.planner import SumKind
from gluonjit.analysis.simulate.trace_file import NO_SAMPLE, BatchTrace
from gluonjit.errors import TraceError
from gluonjit.graph.graph import Graph
from gluonjit.graph.kinds import BatchedProgram, Kind, Output, Work
from gluonjit.graph.recorder import Leaf, Record, Value
from gluonjit.graph.values import Spec, intern_spec

_COMMON, _JOINT = -1, -2
"""Owners of what depends on inputs alone, and of what depends on several samples, as the sum of their losses."""
_Places = dict[int, int]
"""Rows of the graph by rows of the trace."""


class Restored(NamedTuple):
    """A graph to be planned once (to plan folds sums in it), and what `make_plan` needs with it.

    held: the values that can still be read; calls: captured calls, shared ones included.
    """

    graph: Graph
    held: list[Value]
    sum_kind: SumKind
    calls: int


def restored(trace: BatchTrace, samples: Sequence[int] | None = None, sharing: bool | None = None) -> Restored:
    """Makes the graph of a trace.

    samples: the positions of those to take, in this order, repeated for larger batches, where only inputs that several
    samples of the trace read are the same again; None for everything as captured. sharing: True if equal calls are to
    be one; None as captured. Raises TraceError for what a trace taken with sharing does not know, and for samples that
    use each other's results.
    """
    if trace.sharing and sharing is False:
        raise TraceError(
            "sharing=False for a trace captured with sharing=True: the shared calls are not in it. Next: capture "
            "it with gluonjit.batching(sharing=False), which allows both."
        )
    made = _Making(trace, bool(sharing) and not trace.sharing)
    known = trace.samples
    if samples is None:
        made.all()
    else:
        if not samples or not all(0 <= position < len(known) for position in samples):
            raise TraceError(f"samples {[*samples][:5]} of a trace that has {len(known)}. Next: choose among those.")
        if trace.sharing and len(samples) != len(known):
            raise TraceError(
                f"{len(samples)} samples of a trace of {len(known)} captured with sharing=True: the samples of a "
                "shared call are unknown. Next: capture it with gluonjit.batching(sharing=False)."
            )
        chosen = [known[position] for position in samples]
        made.all() if chosen == known else made.of(chosen)
    return made.found()


class _Making:
    """A graph under construction. `common` has the places of single parts, `copies` those of each sample."""

    def __init__(self, trace: BatchTrace, sharing: bool) -> None:
        self.trace, self.sharing = trace, sharing
        self.graph = Graph()
        self.held: list[Value] = []
        self.makers: list[tuple[Record, int] | None] = []  # of each row the node, None for inputs
        self.known: dict[Any, int] = {}
        self.sample = NO_SAMPLE
        self.common: _Places = {}
        self.copies: dict[int, list[_Places]] = {}
        self.sums: dict[tuple[Spec, int], Kind] = {}
        for number, (kind, mode, _) in enumerate(trace.kinds):
            self.graph.records[number] = Record(kind, mode, 0.0)
            if kind.sum_of > 1 and len(kind.operands) == 1:
                self.sums[kind.outputs[0].spec, kind.sum_of] = kind

    def found(self) -> Restored:
        """All that was made."""
        return Restored(self.graph, self.held, self._sum_kind, self.graph.calls)

    def all(self) -> None:
        """Adds everything as it was captured."""
        for number, (kind, sample, *_) in enumerate(self.trace.events):
            if kind < 0:
                self._add_input(number, self.common)
            else:
                self._copy(number, self.common, sample)
        for number, of in enumerate(self.trace.kinds):
            self.graph.records[number].calls = of.calls

    def of(self, samples: list[int]) -> None:
        """Adds what belongs to no sample, that of these samples, and what joins them."""
        self.owners, self.calls, self.readers, self.inputs = _owners(self.trace)
        for number in self.calls.get(_COMMON, ()):
            self._copy(number, self.common, NO_SAMPLE)
        for position, sample in enumerate(samples):
            own: _Places = {}
            for number in self.calls[sample]:
                self._copy(number, own, position if self.trace.events[number][1] >= 0 else NO_SAMPLE)
            self.copies.setdefault(sample, []).append(own)
        for number in self.calls.get(_JOINT, ()):
            self._join(number)

    def _sum_kind(self, spec: Spec, terms: int) -> Kind:
        """Returns the kind that adds up this many arrays of this spec, given as one operand of all their rows."""
        known = self.sums.get((spec, terms))
        if known is None:
            operand = intern_spec((terms * spec.rows, *spec.row_shape), spec.dtype, spec.device, "rows")
            work = Work(2, float(terms * spec.rows), operand.bytes + spec.bytes)
            outputs = (Output(spec, 0),)
            known = Kind(f"add_n of {terms}", (operand,), outputs, spec.rows, BatchedProgram(), sum_of=terms, work=work)
            self.sums[spec, terms] = known
        return known

    def _add_input(self, number: int, places: _Places) -> None:
        kind, table, *_ = self.trace.events[number]
        spec, graph = self.trace.inputs[~kind], self.graph
        if table < 0:
            graph.leaves[len(graph.leaves)] = Leaf(graph.rows, spec, None, False)
        else:
            entries = graph.entries((table, spec), spec)
            entries[len(entries)] = graph.rows
        self._place(number, places, count(graph.rows))
        graph.rows += spec.rows
        self.makers += [None] * spec.rows

    def _place(self, number: int, places: _Places, rows: Iterable[int]) -> None:
        """Notes where the rows of an event lie."""
        places.update(zip(range(*self.trace.bases[number : number + 2]), rows))

    def _copy(self, number: int, own: _Places, sample: int) -> None:
        kind, _, live, read = self.trace.events[number]
        rows = [self._at(row, own) for row in read]
        self._place(number, own, count(self._add(self.graph.records[kind], rows, sample, live)))

    def _at(self, row: int, own: _Places) -> int:
        """Finds a row; an input that is new lies with who alone reads it."""
        for places in (own, self.common):
            if row in places:
                return places[row]
        number = self.inputs[row]
        readers = self.readers[number]
        self._add_input(number, own if len(readers) == 1 and min(readers) >= 0 else self.common)
        return self._at(row, own)

    def _add(self, record: Record, rows: list[int], sample: int, live: int) -> int:
        """Adds a node, or finds the equal one, and returns its first row."""
        kind, graph = record.kind, self.graph
        operands, begin = [], 0
        for spec in kind.operands:
            part = rows[begin : begin + spec.rows]
            begin += spec.rows
            operands.append(part[0] if part == [*range(part[0], part[0] + len(part))] else tuple(part))
        key = kind.number, record.mode, *operands
        node = self.known.get(key) if self.sharing and kind.pure else None
        if node is None:
            if sample != self.sample:
                graph.marks.append((graph.rows, None if sample == NO_SAMPLE else sample))
                self.sample = sample
            before = [maker for maker in map(self.makers.__getitem__, rows) if maker]
            depth = 1 + max([of.depth(place) for of, place in before], default=0)
            record.append(graph, tuple(operands), depth, None)
            node = self.known[key] = len(record) - 1
            self.makers += [(record, node)] * kind.rows
        if live:
            self.held += record.values(node)
        record.calls += 1
        return record.base(node)

    def _join(self, number: int) -> None:
        """Adds a node that depends on several samples: a sum over those present, or if possible the node itself."""
        kind, _, live, read = self.trace.events[number]
        record = self.graph.records[kind]
        for row in read:
            if row in self.inputs:
                self._at(row, self.common)
        size = record.kind.rows if record.kind.sum_of else 1
        versions = [self._versions(read[begin : begin + size]) for begin in range(0, len(read), size)]
        if record.kind.sum_of and None not in versions:
            terms = [term for found in versions for term in found or ()]
            if terms:
                self._place(number, self.common, self._sum(record, terms, live))
        elif all(found is not None and len(found) == 1 for found in versions):
            rows = [row for found in versions for term in found or () for row in term]
            self._place(number, self.common, count(self._add(record, rows, NO_SAMPLE, live)))
        else:
            for row in read:
                self._keep([row for term in self._versions([row]) or () for row in term])

    def _sum(self, record: Record, terms: list[list[int]], live: int) -> list[int]:
        """Adds a sum, a chain of additions where it was one, as `sum(losses)` makes it; returns its rows."""
        kind, total = record.kind, terms[0]
        if kind.sum_of != 2:
            total, terms = [], [[], [row for term in terms for row in term]]
            other = self._sum_kind(kind.outputs[0].spec, len(terms[1]) // kind.rows)
            if other.sum_of != kind.sum_of:
                record = self.graph.records.setdefault((other.number, record.mode), Record(other, record.mode, 0.0))
        for place, term in enumerate(terms[1:], 2):
            base = self._add(record, total + term, NO_SAMPLE, live and place == len(terms))
            total = [*range(base, base + kind.rows)]
        if live and len(terms) == 1:
            self._keep(total)
        return total

    def _versions(self, rows: list[int]) -> list[list[int]] | None:
        """Finds these rows in the copies: a list for each copy of their sample; None if they are of several."""
        owners = {self.owners[row] for row in rows}
        if len(owners) == 1 and min(owners) >= 0:
            return [[places[row] for row in rows] for places in self.copies.get(owners.pop(), [])]
        if max(owners) >= 0:
            return None
        return [[self.common[row] for row in rows]] if all(row in self.common for row in rows) else []

    def _keep(self, rows: Iterable[int]) -> None:
        """Notes that rows are read."""
        for maker in map(self.makers.__getitem__, rows):
            if maker is not None:
                self.held += maker[0].values(maker[1])


def _owners(trace: BatchTrace) -> tuple[Any, ...]:
    """Finds the owner of each row, the calls of each owner, by input who reads it, and by row which input it is.

    Calls outside of samples, such as losses, belong to the one sample that they depend on. Raises TraceError if a
    sample uses what another one, or several together, have computed.
    """
    rows: list[int] = []
    calls: dict[int, list[int]] = {}
    readers: dict[int, set[int]] = {}
    inputs: dict[int, int] = {}
    for number, (kind, owner, _, read) in enumerate(trace.events):
        made = range(*trace.bases[number : number + 2])
        if kind < 0:
            inputs.update(dict.fromkeys(made, number))
            rows += [_COMMON] * len(made)
            continue
        used = {rows[row] for row in read} - {_COMMON}
        if owner == NO_SAMPLE:
            owner = _JOINT if len(used) > 1 else used.pop() if used else _COMMON
        elif used - {owner}:
            other = "several samples" if min(used) == _JOINT else f"sample {min(used - {owner})}"
            raise TraceError(
                f"a subset of a trace's samples: in sample {owner} {trace.kinds[kind].kind.name} uses a result "
                f"of {other}, so no sample can be taken alone. Next: simulate the whole trace, without a batch size."
            )
        calls.setdefault(owner, []).append(number)
        rows += [owner] * len(made)
        for row in read:
            if row in inputs:
                readers.setdefault(inputs[row], set()).add(owner)
    return rows, calls, readers, inputs
