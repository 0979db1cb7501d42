"""Where rows lie: chunks for leaves, look-ups and step results, and for each operand how to gather it."""

from __future__ import annotations

from typing import Any

import numpy as np

from gluonjit.analysis.plan import Gather, Index, LeafChunk, LookupChunk
from gluonjit.graph import Graph, Leaf, Output, Record


class Layout:
    """Hands out chunks and keeps, for every row of a graph, its chunk and its position in it."""

    def __init__(self, rows: int) -> None:
        self.chunk: Index = np.full(rows, -1, dtype=np.int64)
        self.position: Index = np.zeros(rows, dtype=np.int64)
        self.sizes: list[int] = []

    def place(self, rows: Index) -> int:
        """A new chunk that holds these rows in this order; returns its number."""
        number = len(self.sizes)
        flat = rows.ravel()
        self.chunk[flat] = number
        self.position[flat] = np.arange(len(flat))
        self.sizes.append(len(flat))
        return number

    def gather(self, rows: Index) -> Gather:
        """How to put these rows together."""
        flat = rows.ravel()
        chunks = self.chunk[flat]
        index = self.position[flat]
        first = int(chunks[0])
        if (chunks == first).all():
            sources: tuple[int, ...] = (first,)
            total = self.sizes[first]
        else:
            used = np.unique(chunks)
            sizes = np.array([self.sizes[number] for number in used])
            offsets = np.zeros(len(self.sizes), dtype=np.int64)
            offsets[used] = np.cumsum(sizes) - sizes
            index = index + offsets[chunks]
            sources = tuple(used.tolist())
            total = int(sizes.sum())
        if len(index) == total and (index == np.arange(total)).all():
            return Gather(sources, None)
        return Gather(sources, index)


def place_inputs(graph: Graph, layout: Layout) -> tuple[LeafChunk | LookupChunk, ...]:
    """Chunks of what was there before the batch: leaves with equal rows together, then one a table."""
    groups: dict[Any, list[Leaf]] = {}
    for key, leaf in graph.leaves.items():
        spec = leaf.spec
        own = leaf.base if isinstance(key, tuple) else -1  # results of an earlier flush stay where they are
        groups.setdefault((spec.row_shape, spec.dtype, spec.device, spec.mode, own), []).append(leaf)
    inputs: list[LeafChunk | LookupChunk] = []
    for leaves in groups.values():
        layout.place(np.concatenate([np.arange(leaf.base, leaf.base + leaf.spec.rows) for leaf in leaves]))
        inputs.append(LeafChunk(tuple(leaves)))
    for table, entries in graph.lookups.items():
        layout.place(np.array(list(entries.values()), dtype=np.int64))
        inputs.append(LookupChunk(table, graph.lookup_specs[table], tuple(entries)))
    return tuple(inputs)


def output_rows(record: Record, nodes: Index, output: Output) -> Index:
    """Row numbers of one result of these nodes, in order."""
    bases: Index = np.array(record.bases, dtype=np.int64)[nodes] + output.offset
    if output.spec.rows == 1:
        return bases
    return (bases[:, None] + np.arange(output.spec.rows)).ravel()
