"""Chains of additions run as one sum.

`sum(losses)` captures a chain as deep as the minibatch is large. Where nobody can read the partial sums, the
chain is one node that adds up all its terms; the order of summation is not kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gluonjit.analysis.indices import Index, Mask
from gluonjit.analysis.liveness import base_rows, live_nodes
from gluonjit.analysis.operands import operand_matrices, row_numbers
from gluonjit.graph import Graph, Kind, Record, Spec

_LONG = 8  # shorter chains run as they are: sums of few terms would be of many kinds
SumKind = Callable[[Spec, int], Kind]
Node = tuple[Record, int]


def fold_sums(
    graph: Graph, operands: dict[Record, list[Index]], live: dict[Record, Mask], sum_kind: SumKind
) -> dict[Record, Mask]:
    """Replace chains of additions in `operands` and `live`; returns for each record the nodes that remain."""
    keep = {record: np.ones(len(mask), dtype=bool) for record, mask in live.items()}
    adders = [record for record in operands if record.kind.sum_of]
    if sum(len(record.bases) for record in adders) < _LONG - 1:
        return keep
    inner = _inner_nodes(graph, adders, operands, live)
    if len(inner) < _LONG - 2:
        return keep
    sums: dict[Any, Record] = {}
    for record, node in _roots(graph, adders, operands, inner):
        terms, chain = _flatten(record, node, inner)
        if len(terms) < _LONG:
            continue
        for other, position in [(record, node), *chain]:
            keep[other][position] = False
        _add_sum(sums, (record, node), terms, sum_kind)
    for record in sums.values():
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
    inner: dict[int, Node] = {}
    for alike in _by_likeness(adders).values():
        added = np.zeros(graph.rows, dtype=bool)
        rows = alike[0].kind.rows
        steps = np.arange(rows)
        for record in alike:
            for matrix in operands[record]:
                terms = matrix.reshape(len(matrix), -1, rows)
                whole = (terms == terms[:, :, :1] + steps).all(axis=2)  # not rows of several values put together
                added[terms[:, :, 0][whole]] = True
        for record in alike:
            bases = base_rows(record)
            once = (uses[bases[:, None] + steps] == 1).all(axis=1)
            found = np.flatnonzero(once & added[bases] & ~live[record])
            inner.update((record.bases[node], (record, node)) for node in found.tolist())
    return inner


def _by_likeness(adders: list[Record]) -> dict[Any, list[Record]]:
    """Additions of equal arrays under equal modes."""
    groups: dict[Any, list[Record]] = {}
    for record in adders:
        groups.setdefault((record.kind.outputs[0].spec, record.mode), []).append(record)
    return groups


def _term_rows(record: Record, node: int) -> list[tuple[int, ...]]:
    """The rows of each term of an addition."""
    rows = record.kind.rows
    flat: list[int] = []
    for operand, spec in zip(record.operands[node], record.kind.operands):
        flat.extend(row_numbers(operand, spec.rows))
    return [tuple(flat[start : start + rows]) for start in range(0, len(flat), rows)]


def _roots(
    graph: Graph, adders: list[Record], operands: dict[Record, list[Index]], inner: dict[int, Node]
) -> list[Node]:
    """Additions that no other one swallows, and that swallow some."""
    swallowed = np.zeros(graph.rows, dtype=bool)
    swallowed[list(inner)] = True
    roots: list[Node] = []
    for record in adders:
        mask = ~swallowed[base_rows(record)]
        swallows = np.zeros(len(mask), dtype=bool)
        for matrix in operands[record]:
            swallows |= swallowed[matrix[:, :: record.kind.rows]].any(axis=1)
        roots += [(record, node) for node in np.flatnonzero(mask & swallows).tolist()]
    return roots


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


def _add_sum(sums: dict[Any, Record], root: Node, terms: list[tuple[int, ...]], sum_kind: SumKind) -> None:
    """A node with the root's results that adds up all terms."""
    record, node = root
    kind = sum_kind(record.kind.outputs[0].spec, len(terms))
    key = (kind, record.mode)
    target = sums.get(key)
    if target is None:
        target = sums[key] = Record(kind, record.mode, 0.0)
    target.operands.append((tuple(row for rows in terms for row in rows),))
    target.depths.append(record.depths[node])
    target.bases.append(record.bases[node])
    target.origins.append(record.origins[node])
    target.values.append(record.values[node])
