"""From an open batch's graph to a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gluonjit.analysis.captured import Captured
from gluonjit.analysis.indices import Index
from gluonjit.analysis.splitting import captured_nodes
from gluonjit.analysis.traces.document import NO_SAMPLE, BatchTrace, TracedTable, TraceKind, TraceLeaf, TraceNodes
from gluonjit.analysis.traces.files import write_trace
from gluonjit.compiled import numbers
from gluonjit.errors import TraceError
from gluonjit.graph.graph import Graph
from gluonjit.graph.origins import Mark
from gluonjit.graph.recorder import Record


def trace_of(graph: Graph, granularity: str, sharing: bool) -> BatchTrace:
    """Returns everything captured in `graph`, which is unchanged."""
    families: dict[Any, int] = {}
    captured = captured_nodes(graph, "batch" if sharing else "none")
    return BatchTrace(
        granularity=granularity,
        sharing=sharing,
        rows=graph.rows,
        leaves=tuple(TraceLeaf(leaf.base, leaf.spec) for leaf in graph.leaves.values()),
        tables=tuple(
            TracedTable(graph.lookup_specs[table], np.array(list(entries.values()), dtype=np.int64))
            for table, entries in graph.lookups.items()
        ),
        kinds=tuple(_kind(record, families) for record in captured.records),
        nodes=_nodes(captured, graph.marks),
    )


def save_graph(graph: Graph, path: str | Path, granularity: str, sharing: bool) -> None:
    """Writes the trace of an open batch's graph. Raises TraceError if it is empty or the folder does not exist."""
    for record in graph.records.values():
        record.complete()
    if not graph.nodes:
        raise TraceError(
            f"batch.save_trace({str(path)!r}): nothing is pending in this batch. Next: call it inside of `with "
            "gluonjit.batching() as batch:`, after the calls of the model and before reading any of their values."
        )
    write_trace(trace_of(graph, "op" if granularity == "op" else "cell", sharing), path)


def _kind(record: Record, families: dict[Any, int]) -> TraceKind:
    kind = record.kind
    return TraceKind(
        name=kind.name,
        mode=record.mode,
        operands=kind.operands,
        outputs=kind.outputs,
        rows=kind.rows,
        pure=kind.pure,
        alone=kind.lone,
        operator=kind.operator,
        poly=kind.poly,
        sum_of=kind.sum_of,
        family=families.setdefault(kind.family, len(families)),
        calls=record.calls,
        work=kind.work,
        children=kind.children,
    )


def _nodes(captured: Captured, marks: list[Mark]) -> tuple[TraceNodes, ...]:
    """The nodes of each record."""
    bases, alive, depths = numbers(captured.bases), numbers(captured.alive) != 0, numbers(captured.depths())
    return tuple(
        TraceNodes(
            bases=bases[begin:end],
            depths=depths[begin:end],
            samples=_samples(bases[begin:end], marks),
            live=alive[begin:end],
            operands=captured.rows_read(number),
        )
        for number, (begin, end) in enumerate(zip(captured.begins, captured.begins[1:]))
    )


def _samples(bases: Index, marks: list[Mark]) -> Index:
    """Returns by first row the sample during whose call each node was captured."""
    numbers = [NO_SAMPLE, *(NO_SAMPLE if sample is None else sample for _, sample in marks)]
    rows = np.array([row for row, _ in marks], dtype=np.int64)
    found: Index = np.array(numbers, dtype=np.int64)[np.searchsorted(rows, bases, side="right")]
    return found
