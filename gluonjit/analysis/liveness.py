"""Nodes that still matter: those somebody can read, and those they are computed from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from sys import getrefcount
from typing import Any

import numpy as np

from gluonjit.analysis.indices import Index, Mask
from gluonjit.analysis.operands import joined
from gluonjit.analysis.plan import Part
from gluonjit.compiled import FAST
from gluonjit.graph.graph import Record


def _references(values: list[tuple[Any, ...]], width: int) -> Index:
    """Counts the references to each value of these tuples, which have so many each."""
    if FAST is not None:
        found: Index = np.empty(len(values) * width, dtype=np.int64)
        FAST.references(values, width, found)
        return found
    return np.fromiter(map(getrefcount, chain.from_iterable(values)), np.int64, len(values) * width)


_UNREAD = int(_references([(object(),)], 1)[0])
"""References to a value that nobody holds but its node's tuple, and those that counting makes."""


def live_nodes(record: Record) -> Mask:
    """Nodes with a value that somebody outside the graph can still read."""
    outputs = len(record.kind.outputs)
    if not record.values:  # nodes that are a part of calls
        return np.zeros(len(record.bases), dtype=bool)
    flags = _references(record.values, outputs) > _UNREAD
    mask: Mask = flags.reshape(len(record.values), outputs).any(axis=1)
    return mask


def held(values: Sequence[tuple[Any, ...]]) -> bool:
    """Tells whether somebody outside the graph can read one of these nodes' values."""
    for width in {len(of) for of in values}:
        listed = [of for of in values if len(of) == width]
        if (_references(listed, width) > _UNREAD).any():
            return True
    return False


def needed_nodes(
    groups: Sequence[Sequence[Part]],
    keep: Mapping[Record, Mask],
    operands: Mapping[Record, list[Index]],
    live: Mapping[Record, Mask],
    rows: int,
) -> dict[Record, Mask] | None:
    """Nodes of `keep` to run: live ones, impure ones, and whatever they depend on; None for all of them.

    `groups` hold the nodes of `keep` in an order in which they can run.
    """
    needed = {record: live[record] if record.kind.pure else mask for record, mask in keep.items()}
    consumed = np.zeros(rows, dtype=bool)
    for record, mask in keep.items():
        consumed[joined(operands[record], len(mask))[mask]] = True
    if not any(
        (mask & ~needed[record] & ~consumed[result_rows(record)].any(axis=1)).any() for record, mask in keep.items()
    ):
        return None
    needed = {record: mask.copy() for record, mask in needed.items()}
    wanted = np.zeros(rows, dtype=bool)
    for record, nodes in [part for group in reversed(groups) for part in group]:
        results = base_rows(record)[nodes][:, None] + np.arange(record.kind.rows)
        mask = needed[record][nodes] | wanted[results].any(axis=1)
        needed[record][nodes] = mask
        for matrix in operands[record]:
            wanted[matrix[nodes[mask]]] = True
    return needed


def result_rows(record: Record) -> Index:
    """An array (nodes, rows a node yields) of row numbers."""
    return base_rows(record)[:, None] + np.arange(record.kind.rows)


def base_rows(record: Record) -> Index:
    """The first result row of each node, as an array that is made once."""
    known: Index | None = record.base_rows
    if known is None or len(known) != len(record.bases):
        known = record.base_rows = np.array(record.bases, dtype=np.int64)
    return known
