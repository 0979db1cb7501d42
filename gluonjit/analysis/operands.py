"""The rows that the nodes of one record read, and those that they yield."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gluonjit.analysis.captured import Captured
from gluonjit.analysis.forms import form_of
from gluonjit.analysis.indices import Index
from gluonjit.graph.recorder import Record
from gluonjit.graph.values import Rows


def operand_matrices(record: Record) -> list[Index]:
    """Returns for each operand position an array (nodes, rows of the operand) of row numbers."""
    read, columns = _read(record), form_of(record.kind).columns
    return [read[:, begin:end] for begin, end in zip(columns, columns[1:])]


def rows_read(record: Record, node: int) -> list[list[int]]:
    """Returns the row numbers of each operand of a node."""
    if record.rows_read is not None:
        read, columns = _read(record)[node].tolist(), form_of(record.kind).columns
        return [read[begin:end] for begin, end in zip(columns, columns[1:])]
    operands = zip(record.operands_of(node), record.kind.operands)
    return [list(_row_numbers(rows, spec.rows)) for rows, spec in operands]


def _read(record: Record) -> Index:
    """The rows that each node reads, as an array (nodes, rows)."""
    if record.rows_read is None:
        return Captured([record], 0).rows_read(0)
    return record.rows_read.reshape(len(record), form_of(record.kind).width)  # type: ignore[no-any-return]


def base_rows(record: Record) -> Index:
    """The first result row of each node, as an array that is made once."""
    known: Index | None = record.base_rows
    if known is None or len(known) != len(record):
        known = record.base_rows = np.array(record.bases, dtype=np.int64)
    return known


def _row_numbers(rows: Rows, count: int) -> Sequence[int]:
    """The numbers of `count` rows."""
    return rows if isinstance(rows, tuple) else range(rows, rows + count)
