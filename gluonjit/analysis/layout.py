"""Places of rows: an arena for each shape of rows, filled in the order in which rows are made."""

from __future__ import annotations

from typing import Any

import numpy as np

from gluonjit.analysis.indices import Index
from gluonjit.analysis.liveness import base_rows
from gluonjit.analysis.plan import Arena, Gather, LeafChunk, LookupChunk, Place
from gluonjit.graph import Graph, Leaf, Output, Record, Spec


class Layout:
    """Hands out places and keeps, for every row of a graph, its arena and its position there."""

    def __init__(self, rows: int) -> None:
        self.arena: Index = np.full(rows, -1, dtype=np.int64)
        self.position: Index = np.zeros(rows, dtype=np.int64)
        self._numbers: dict[Any, int] = {}
        self._specs: list[Spec] = []
        self._sizes: list[int] = []
        self._places: list[int] = []

    def place(self, rows: Index, spec: Spec) -> Place:
        """The next free place for these rows, which look like those of `spec`."""
        key = (spec.row_shape, spec.dtype, spec.device)
        number = self._numbers.setdefault(key, len(self._sizes))
        if number == len(self._sizes):
            self._specs.append(spec)
            self._sizes.append(0)
            self._places.append(0)
        begin = self._sizes[number]
        end = begin + len(rows)
        self.arena[rows] = number
        self.position[rows] = np.arange(begin, end)
        self._sizes[number] = end
        self._places[number] += 1
        return Place(number, begin, end)

    def gather(self, rows: Index) -> Gather:
        """Finds how to put these rows, all of one arena, together."""
        index = self.position[rows]
        number, first, last = int(self.arena[rows[0]]), int(index[0]), int(index[-1]) + 1
        place = Place(number, first, last)
        if last - first == len(index) and (index == np.arange(first, last)).all():
            return Gather(place, None)
        return Gather(place, index)

    def arenas(self) -> tuple[Arena, ...]:
        """All arenas, with their final sizes."""
        return tuple(
            Arena(spec, rows, places == 1) for spec, rows, places in zip(self._specs, self._sizes, self._places)
        )


def place_inputs(graph: Graph, layout: Layout) -> tuple[LeafChunk | LookupChunk, ...]:
    """Places of what was there before the batch: leaves with equal rows together, then one a table."""
    groups: dict[Any, list[Leaf]] = {}
    for leaf in graph.leaves.values():
        spec = leaf.spec
        groups.setdefault((spec.row_shape, spec.dtype, spec.device, spec.mode), []).append(leaf)
    inputs: list[LeafChunk | LookupChunk] = []
    for leaves in groups.values():
        rows = np.concatenate([np.arange(leaf.base, leaf.base + leaf.spec.rows) for leaf in leaves])
        inputs.append(LeafChunk(tuple(leaves), layout.place(rows, leaves[0].spec)))
    for table, entries in graph.lookups.items():
        spec = graph.lookup_specs[table]
        place = layout.place(np.array(list(entries.values()), dtype=np.int64), spec)
        inputs.append(LookupChunk(table, spec, tuple(entries), place))
    return tuple(inputs)


def output_rows(record: Record, nodes: Index, output: Output) -> Index:
    """Row numbers of one result of these nodes, in order."""
    bases: Index = base_rows(record)[nodes] + output.offset
    if output.spec.rows == 1:
        return bases
    return (bases[:, None] + np.arange(output.spec.rows)).ravel()
