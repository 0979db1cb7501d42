"""From a trace back to a graph, which gives the same plans as the captured one; and with sharing applied."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from gluonjit.analysis.indices import Index
from gluonjit.analysis.sums import SumKind
from gluonjit.analysis.traces.document import NO_SAMPLE, BatchTrace, TraceKind, TraceNodes, addition
from gluonjit.analysis.traces.samples import resampled
from gluonjit.errors import TraceError
from gluonjit.graph.graph import Graph, Leaf
from gluonjit.graph.kinds import BatchedProgram, Kind
from gluonjit.graph.modes import is_recorded
from gluonjit.graph.origins import Mark
from gluonjit.graph.recorder import Record, Value
from gluonjit.graph.values import Rows, Spec


def merged(trace: BatchTrace) -> BatchTrace:
    """The trace with sharing, as at capture: equal nodes of pure kinds are merged, in the order of capture."""
    same = np.arange(trace.rows)  # for each row the one that stands for it
    keep = [np.ones(len(nodes.bases), dtype=bool) for nodes in trace.nodes]
    live = [nodes.live.copy() for nodes in trace.nodes]
    first: dict[tuple[int, bytes], int] = {}
    for kind, position in trace.in_order():
        if not trace.kinds[kind].pure:
            continue
        nodes = trace.nodes[kind]
        key = (kind, same[nodes.operands[position]].tobytes())
        known = first.setdefault(key, position)
        if known != position:
            begin, original = int(nodes.bases[position]), int(nodes.bases[known])
            rows = trace.kinds[kind].rows
            same[begin : begin + rows] = np.arange(original, original + rows)
            keep[kind][position] = False
            live[kind][known] |= live[kind][position]
    return replace(
        trace,
        sharing=True,
        nodes=tuple(
            TraceNodes(
                bases=nodes.bases[kept],
                depths=nodes.depths[kept],
                samples=nodes.samples[kept],
                live=alive[kept],
                operands=same[nodes.operands[kept]],
            )
            for nodes, kept, alive in zip(trace.nodes, keep, live)
        ),
    )


@dataclass(frozen=True)
class Restored:
    """A graph to be planned once (to plan folds sums in it), and what `make_plan` needs with it.

    held: the values that can still be read; calls: captured calls, shared ones included.
    """

    graph: Graph
    held: tuple[Value, ...]
    sum_kind: SumKind
    calls: int


def restored(trace: BatchTrace, samples: Iterable[int] | None = None, sharing: bool | None = None) -> Restored:
    """The graph of a trace, or of a `variant` of it."""
    return graph_of(variant(trace, samples, sharing))


def variant(trace: BatchTrace, samples: Iterable[int] | None = None, sharing: bool | None = None) -> BatchTrace:
    """The trace of another batch.

    samples: the positions of those to take, in this order, repeated for larger batches (see `resampled`); None for
    everything as captured. sharing: whether equal nodes are one, as the option `sharing` would have it; None as
    captured. Raises TraceError if `sharing=False` is asked of a trace taken with sharing, which no longer knows the
    nodes that were shared.
    """
    if sharing is False and trace.sharing:
        raise TraceError(
            "sharing=False for a trace captured with sharing=True: the shared calls are not in it. Next: capture "
            "it with gluonjit.batching(sharing=False), which allows both."
        )
    if samples is not None:
        trace = resampled(trace, samples)
    return merged(trace) if sharing and not trace.sharing else trace


def graph_of(trace: BatchTrace) -> Restored:
    """The graph of all of a trace."""
    graph = Graph()
    graph.rows = trace.rows
    for number, leaf in enumerate(trace.leaves):
        graph.leaves[number] = Leaf(leaf.base, leaf.spec, None, False)
    for number, table in enumerate(trace.tables):
        graph.lookups[number] = dict(enumerate(table.rows.tolist()))
        graph.lookup_specs[number] = table.spec
    graph.marks += _marks(trace)
    sums: dict[tuple[Spec, int], Kind] = {}
    held: list[Value] = []
    families: dict[int, Kind] = {}
    for number, (traced, nodes) in enumerate(zip(trace.kinds, trace.nodes)):
        kind = _kind(traced, families.get(traced.family))
        families.setdefault(traced.family, kind)
        if traced.sum_of > 1 and len(traced.operands) == 1:
            sums[traced.outputs[0].spec, traced.sum_of] = kind
        record = graph.records[number] = Record(kind, traced.mode, 0.0)
        record.calls = traced.calls
        held += _fill(record, nodes, graph)

    def sum_kind(spec: Spec, count: int) -> Kind:
        known = sums.get((spec, count))
        if known is None:
            known = sums[spec, count] = _kind(addition(spec, count), None)
        return known

    return Restored(graph, tuple(held), sum_kind, sum(kind.calls for kind in trace.kinds))


def _kind(traced: TraceKind, family: Kind | None) -> Kind:
    return Kind(
        name=traced.name,
        operands=traced.operands,
        outputs=traced.outputs,
        rows=traced.rows,
        program=BatchedProgram(),  # which nobody runs
        pure=traced.pure,
        lone=traced.alone,
        operator=traced.operator,
        poly=traced.poly,
        sum_of=traced.sum_of,
        family=family,
        work=traced.work,
        children=traced.children,
    )


def _fill(record: Record, nodes: TraceNodes, graph: Graph) -> list[Value]:
    """Puts the nodes into their record and returns the live values."""
    taped = is_recorded(record.mode)
    bases, depths = nodes.bases.tolist(), nodes.depths.tolist()
    operands = _operands(nodes.operands, record.kind.operands)
    held: list[Value] = []
    for base, depth, live, given in zip(bases, depths, nodes.live.tolist(), operands):
        values = tuple(
            [Value(base + output.offset, depth, output.spec, graph, taped) for output in record.kind.outputs]
        )
        record.put(given, depth, base, None, values)
        if live:
            held += values
    return held


def _operands(rows: Index, specs: tuple[Spec, ...]) -> list[tuple[Rows, ...]]:
    """The operands of each node, as in capture: contiguous rows by the first of them."""
    columns: list[list[Rows]] = []
    begin = 0
    for spec in specs:
        part = rows[:, begin : begin + spec.rows]
        begin += spec.rows
        firsts: list[Rows] = part[:, 0].tolist()
        whole = (part == part[:, :1] + np.arange(spec.rows)).all(axis=1)
        for node in np.flatnonzero(~whole).tolist():
            firsts[node] = tuple(part[node].tolist())
        columns.append(firsts)
    return list(zip(*columns)) if columns else [()] * len(rows)


def _marks(trace: BatchTrace) -> list[Mark]:
    """Finds where samples begin and end, as far as the nodes show."""
    marks: list[Mark] = []
    last = NO_SAMPLE
    for kind, position in trace.in_order():
        nodes = trace.nodes[kind]
        sample = int(nodes.samples[position])
        if sample != last:
            marks.append((int(nodes.bases[position]), None if sample == NO_SAMPLE else sample))
            last = sample
    return marks
