"""The operands of a record's nodes as matrices of row numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from gluonjit.analysis.indices import Index
from gluonjit.compiled import FAST
from gluonjit.graph.graph import Record
from gluonjit.graph.values import Rows


def operand_matrices(record: Record) -> list[Index]:
    """For each operand position an array (nodes, rows of the operand) of row numbers."""
    if record.matrices is not None:
        made: list[Index] = record.matrices
        return made
    specs = record.kind.operands
    nodes = len(record.operands)
    if not specs:
        return []
    first = _integers(record.operands, len(specs))
    if first is None:  # an operand is a list of rows
        return [_expand(record, position) for position in range(len(specs))]
    first = first.reshape(nodes, len(specs))
    return [
        first[:, position : position + 1]
        if spec.rows == 1
        else first[:, position : position + 1] + np.arange(spec.rows)
        for position, spec in enumerate(specs)
    ]


def _integers(operands: list[tuple[Rows, ...]], width: int) -> Index | None:
    """The numbers in these tuples of so many; None where one of them is no number."""
    if FAST is not None:
        found: Index = np.empty(len(operands) * width, dtype=np.int64)
        return found if FAST.integers(operands, width, found) else None
    try:
        return np.fromiter(chain.from_iterable(operands), np.int64, len(operands) * width)
    except (TypeError, ValueError):
        return None


def joined(matrices: Sequence[Index], nodes: int) -> Index:
    """All rows that each node reads, side by side: one array is gone through faster than several."""
    return np.concatenate(matrices, axis=1) if matrices else np.zeros((nodes, 0), dtype=np.int64)


def highest(levels: Index, matrices: Sequence[Index], nodes: Index) -> Index:
    """For each of these nodes the highest level among the rows it reads; 0 where it reads none."""
    if not matrices:
        return np.zeros(len(nodes), dtype=np.int64)
    rows = matrices[0] if len(matrices) == 1 else joined(matrices, 0)
    found: Index = levels[rows[nodes]].max(axis=1)
    return found


def _expand(record: Record, position: int) -> Index:
    count = record.kind.operands[position].rows
    rows = [row_numbers(operands[position], count) for operands in record.operands]
    return np.array(rows, dtype=np.int64).reshape(len(rows), count)


def rows_read(record: Record, node: int) -> list[list[int]]:
    """For each operand of a node the numbers of its rows."""
    if record.matrices is not None:
        return [matrix[node].tolist() for matrix in record.matrices]
    operands = zip(record.operands[node], record.kind.operands)
    return [list(row_numbers(rows, spec.rows)) for rows, spec in operands]


def row_numbers(rows: Rows, count: int) -> Sequence[int]:
    """The numbers of `count` rows."""
    return rows if isinstance(rows, tuple) else range(rows, rows + count)
