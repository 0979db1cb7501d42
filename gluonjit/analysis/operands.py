"""The operands of a record's nodes as matrices of row numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gluonjit.analysis.plan import Index
from gluonjit.graph import Record, Rows


def operand_matrices(record: Record) -> list[Index]:
    """For each operand position an array (nodes, rows of the operand) of row numbers."""
    specs = record.kind.operands
    nodes = len(record.operands)
    if not specs:
        return []
    if any(type(rows) is tuple for operands in record.operands for rows in operands):
        return [_expand(record, position) for position in range(len(specs))]
    first = np.array(record.operands, dtype=np.int64).reshape(nodes, len(specs))
    return [
        first[:, position : position + 1]
        if spec.rows == 1
        else first[:, position : position + 1] + np.arange(spec.rows)
        for position, spec in enumerate(specs)
    ]


def _expand(record: Record, position: int) -> Index:
    count = record.kind.operands[position].rows
    rows = [row_numbers(operands[position], count) for operands in record.operands]
    return np.array(rows, dtype=np.int64).reshape(len(rows), count)


def row_numbers(rows: Rows, count: int) -> Sequence[int]:
    """The numbers of `count` rows."""
    return rows if isinstance(rows, tuple) else range(rows, rows + count)
