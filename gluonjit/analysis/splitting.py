"""From calls to the nodes that they run as: products of single arguments with weights run before the recursion.

What a cell computes of one argument alone, where that is a row of an input (a word's vector, say), is cut out of it by
its engine. Here the products of all calls become nodes, equal ones once, so that they run in one step whatever the
depth of their calls. Capture knows nothing of it: it is done for all calls at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np

from gluonjit.analysis.indices import Index
from gluonjit.analysis.liveness import base_rows, result_rows
from gluonjit.analysis.operands import highest, operand_matrices
from gluonjit.graph import Graph, Kind, Mark, Origin, Record, Split

Sharing = Literal["batch", "sample", "none"]
"""The equal products that are one: those of the whole batch, of one sample, or none."""


class _Wanted(NamedTuple):
    """Products of one kind that a record's calls have: the rows that they read, and those that are theirs."""

    read: Index
    bases: Index
    origins: list[Origin]
    of: tuple[Record, int]  # the record of the rest, and which of its products this is


def split_records(graph: Graph, sharing: Sharing = "batch", counted: bool = False) -> list[Record]:
    """The records of a graph with nodes in them, those of calls that run as several nodes replaced. `graph` stays.

    Depths are those of capture, which is all that schedulers need, unless products enter a recursion: then, or with
    `counted`, each node is deeper than what it reads.
    """
    records = [record for record in graph.records.values() if record.bases]
    if not any(record.kind.split for record in records):
        return records
    found: list[Record] = []
    wanted: dict[Any, list[_Wanted]] = {}
    rests: list[tuple[Record, Split]] = []
    for record in records:
        split = record.kind.split
        if split is None:
            found.append(record)
            continue
        rests.append((_rest(record, split, wanted), split))
    columns: dict[tuple[Record, int], list[Index]] = {}
    products = [_products(key, parts, sharing, graph.marks, columns) for key, parts in wanted.items()]
    for rest, split in rests:
        for number in range(len(split.products)):
            rest.matrices += columns[rest, number]
    found += [*[rest for rest, _ in rests], *products]
    return _deeper(found, graph.rows) if counted or _enter(found, products, graph.rows) else found


def _rest(record: Record, split: Split, wanted: dict[Any, list[_Wanted]]) -> Record:
    """The record of what calls do beside their products, which are noted in `wanted`."""
    rest = Record(split.rest, record.mode, 0.0)
    bases, matrices = base_rows(record), operand_matrices(record)
    rest.matrices = [matrices[argument] for argument in split.kept]
    for number, (argument, kind) in enumerate(split.products):
        part = _Wanted(matrices[argument], bases, record.origins, (rest, number))
        wanted.setdefault((kind, record.mode), []).append(part)
        bases = bases + kind.rows
    rest.base_rows, rest.bases = bases, bases.tolist()
    rest.depths, rest.origins, rest.values = record.depths, record.origins, record.values
    rest.calls = record.calls
    return rest


def _products(
    key: tuple[Kind, int],
    parts: Sequence[_Wanted],
    sharing: Sharing,
    marks: Sequence[Mark],
    columns: dict[tuple[Record, int], list[Index]],
) -> Record:
    """The record of products of one kind. Where calls find their results goes into `columns`."""
    kind, mode = key
    read = np.concatenate([part.read for part in parts])
    bases = np.concatenate([part.bases for part in parts])
    first, which = _distinct(read, bases, sharing, marks)
    record = Record(kind, mode, 0.0)
    record.base_rows, record.matrices = bases[first], [read[first]]
    record.bases = record.base_rows.tolist()
    origins = parts[0].origins if len(parts) == 1 else list(chain.from_iterable([part.origins for part in parts]))
    record.origins = [origins[number] for number in first.tolist()]
    record.depths = [1] * len(first)
    record.calls = len(first)
    rows = record.base_rows[which]
    begin = 0
    for part in parts:
        own = rows[begin : begin + len(part.bases), None]
        begin += len(part.bases)
        columns[part.of] = [own + (output.offset + np.arange(output.spec.rows)) for output in kind.outputs]
    return record


def _distinct(read: Index, bases: Index, sharing: Sharing, marks: Sequence[Mark]) -> tuple[Index, Index]:
    """The first, in order of capture, of equal products, and for each product which of those it is."""
    order = np.argsort(bases, kind="stable")
    which = np.empty(len(read), dtype=np.int64)
    if sharing == "none" or read.shape[1] != 1:
        which[order] = np.arange(len(read))
        return order, which
    keys = read[:, 0]
    if sharing == "sample":
        starts = np.array([mark.row for mark in marks], dtype=np.int64)
        keys = keys + np.searchsorted(starts, bases, side="right") * (int(keys.max()) + 1)
    _, first, inverse = np.unique(keys[order], return_index=True, return_inverse=True)
    sequence = np.argsort(first)  # of capture, not of the numbers that they read
    place = np.empty(len(first), dtype=np.int64)
    place[sequence] = np.arange(len(first))
    which[order] = place[inverse.reshape(-1)]
    return order[first[sequence]], which


def _enter(records: Sequence[Record], products: Sequence[Record], rows: int) -> bool:
    """Tells whether a product is of something computed: depths are other then than when it was captured."""
    made = np.zeros(rows, dtype=bool)
    for record in records:
        made[result_rows(record)] = True
    return any(bool(made[record.matrices[0]].any()) for record in products)


def _deeper(records: Sequence[Record], rows: int) -> list[Record]:
    """The records with depths counted anew, as often as the longest chain is long."""
    level = np.zeros(rows, dtype=np.int64)
    every = {record: np.arange(len(record.bases)) for record in records}
    matrices = {record: operand_matrices(record) for record in records}
    changed = True
    while changed:
        changed = False
        for record in records:
            reached = highest(level, matrices[record], every[record]) + 1
            results = result_rows(record)
            if (level[results[:, 0]] != reached).any():
                level[results] = reached[:, None]
                changed = True
    found = []
    for record in records:
        own = copy(record)
        own.matrices, own.depths = matrices[record], level[base_rows(record)].tolist()
        found.append(own)
    return found
