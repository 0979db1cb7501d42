"""Chains of additions run as one sum.

`sum(losses)` captures a chain as deep as the minibatch is large. Where nobody can read the partial sums, the
chain is one node that adds up all its terms; the order of summation is not kept.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gluonjit.analysis.liveness import live_nodes
from gluonjit.analysis.operands import operand_matrices, row_numbers
from gluonjit.analysis.plan import Index, Mask
from gluonjit.graph import Graph, Kind, Record, Spec

SumKind = Callable[[Spec, int], Kind]
Node = tuple[Record, int]


def fold_sums(
    graph: Graph, operands: dict[Record, list[Index]], live: dict[Record, Mask], sum_kind: SumKind
) -> dict[Record, Mask]:
    """Replace chains of additions in `operands` and `live`; returns for each record the nodes that remain."""
    keep = {record: np.ones(len(mask), dtype=bool) for record, mask in live.items()}
    adders = [record for record in operands if record.kind.sum_of]
    if not adders:
        return keep
    inner = _inner_nodes(graph, adders, operands, live)
    roots = [
        (record, node)
        for record in adders
        for node in range(len(record.bases))
        if (record, node) not in inner.values() and _inner_terms(record, node, inner)
    ]
    for record, node in roots:
        terms, chain = _flatten(record, node, inner)
        for other, position in [(record, node), *chain]:
            keep[other][position] = False
        _add_sum(graph, (record, node), terms, sum_kind)
    for record in graph.records.values():
        if record not in operands:
            operands[record] = operand_matrices(record)
            live[record] = live_nodes(record)
            keep[record] = np.ones(len(record.bases), dtype=bool)
    return keep


def _inner_nodes(
    graph: Graph, adders: list[Record], operands: dict[Record, list[Index]], live: dict[Record, Mask]
) -> dict[int, Node]:
    """By first row: additions that nobody can read and that one other addition of their like uses, once."""
    uses = np.zeros(graph.rows, dtype=np.int64)
    for matrices in operands.values():
        for matrix in matrices:
            uses += np.bincount(matrix.ravel(), minlength=graph.rows)
    candidates = {
        base: (record, node)
        for record in adders
        for node, base in enumerate(record.bases)
        if uses[base] == 1 and not live[record][node]
    }
    inner: dict[int, Node] = {}
    for record in adders:
        for node in range(len(record.bases)):
            for row in _term_rows(record, node):
                found = candidates.get(row[0])
                if found is not None and _alike(found[0], record):
                    inner[row[0]] = found
    return inner


def _alike(first: Record, second: Record) -> bool:
    return first.kind.outputs[0].spec is second.kind.outputs[0].spec and first.mode == second.mode


def _term_rows(record: Record, node: int) -> list[tuple[int, ...]]:
    """The rows of each term of an addition."""
    rows = record.kind.rows
    flat: list[int] = []
    for operand, spec in zip(record.operands[node], record.kind.operands):
        flat.extend(row_numbers(operand, spec.rows))
    return [tuple(flat[start : start + rows]) for start in range(0, len(flat), rows)]


def _inner_terms(record: Record, node: int, inner: dict[int, Node]) -> bool:
    return any(rows[0] in inner for rows in _term_rows(record, node))


def _flatten(record: Record, node: int, inner: dict[int, Node]) -> tuple[list[tuple[int, ...]], list[Node]]:
    """The terms that make up a sum, and the additions that disappear in it."""
    terms: list[tuple[int, ...]] = []
    chain: list[Node] = []
    pending = _term_rows(record, node)[::-1]
    while pending:
        rows = pending.pop()
        found = inner.get(rows[0])
        if found is None:
            terms.append(rows)
        else:
            chain.append(found)
            pending.extend(_term_rows(*found)[::-1])
    return terms, chain


def _add_sum(graph: Graph, root: Node, terms: list[tuple[int, ...]], sum_kind: SumKind) -> None:
    """A node with the root's results that adds up all terms."""
    record, node = root
    kind = sum_kind(record.kind.outputs[0].spec, len(terms))
    key = (kind, record.mode)
    target = graph.records.get(key)
    if target is None:
        target = graph.records[key] = Record(kind, record.mode, 0.0)
    target.operands.append((tuple(row for rows in terms for row in rows),))
    target.depths.append(record.depths[node])
    target.bases.append(record.bases[node])
    target.values.append(record.values[node])
