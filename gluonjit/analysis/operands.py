"""The rows that the nodes of one record read, and those that they yield."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gluonjit.analysis.forms import form_of
from gluonjit.analysis.indices import Index
from gluonjit.graph.recorder import Record
from gluonjit.graph.values import Rows


def rows_read(record: Record, node: int) -> list[list[int]]:
    """Returns the row numbers of each operand of a node."""
    if record.rows_read is not None:
        form = form_of(record.kind)
        read, columns = record.rows_read[node * form.width : (node + 1) * form.width].tolist(), form.columns
        return [read[begin:end] for begin, end in zip(columns, columns[1:])]
    operands = zip(record.operands_of(node), record.kind.operands)
    return [list(_row_numbers(rows, spec.rows)) for rows, spec in operands]


def base_rows(record: Record) -> Index:
    """The first result row of each node, as an array that is made once."""
    known: Index | None = record.base_rows
    if known is None or len(known) != len(record):
        known = record.base_rows = np.array(record.bases, dtype=np.int64)
    return known


def _row_numbers(rows: Rows, count: int) -> Sequence[int]:
    """The numbers of `count` rows."""
    return rows if isinstance(rows, tuple) else range(rows, rows + count)
