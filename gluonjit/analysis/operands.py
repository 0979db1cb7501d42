"""The operands of a record's nodes as matrices of row numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from gluonjit.analysis.plan import Index
from gluonjit.graph import Record, Rows


def operand_matrices(record: Record) -> list[Index]:
    """For each operand position an array (nodes, rows of the operand) of row numbers."""
    specs = record.kind.operands
    nodes = len(record.operands)
    if not specs:
        return []
    try:
        first = np.fromiter(chain.from_iterable(record.operands), np.int64, nodes * len(specs))
    except (TypeError, ValueError):  # an operand is a list of rows
        return [_expand(record, position) for position in range(len(specs))]
    first = first.reshape(nodes, len(specs))
    return [
        first[:, position : position + 1]
        if spec.rows == 1
        else first[:, position : position + 1] + np.arange(spec.rows)
        for position, spec in enumerate(specs)
    ]


def highest(levels: Index, matrices: Sequence[Index], nodes: Index) -> Index:
    """For each of these nodes the highest level among the rows it reads; 0 where it reads none."""
    found = np.zeros(len(nodes), dtype=np.int64)
    for matrix in matrices:
        found = np.maximum(found, levels[matrix[nodes]].max(axis=1))
    return found


def _expand(record: Record, position: int) -> Index:
    count = record.kind.operands[position].rows
    rows = [row_numbers(operands[position], count) for operands in record.operands]
    return np.array(rows, dtype=np.int64).reshape(len(rows), count)


def row_numbers(rows: Rows, count: int) -> Sequence[int]:
    """The numbers of `count` rows."""
    return rows if isinstance(rows, tuple) else range(rows, rows + count)
