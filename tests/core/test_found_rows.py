"""Nodes found by the rows of their results: by one row, and those that read some."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gluonjit.graph import Record
from gluonjit.graph.reading import joined_of, node_at, readers_of
from tests.common.plain_plans import random_graph


@pytest.mark.parametrize("seed", range(20))
def test_nodes_are_found_by_the_rows_of_their_results(seed: int) -> None:
    graph, _, _held = random_graph(seed)
    records = list(graph.records.values())
    nodes = sorted(
        [(record.base(node), number, node) for number, record in enumerate(records) for node in range(len(record))]
    )
    for row in range(graph.rows + 1):
        (wanted,) = [
            (number, node) for base, number, node in nodes if base <= row < base + records[number].kind.rows
        ] or [None]
        found = node_at(graph.records, row)
        assert (found and (records.index(found[0]), found[1])) == wanted
        for end in (row, row + 7, graph.rows):
            between = [(base, records[number], node) for base, number, node in nodes if row < base < end]
            shared, wanted_readers = set(range(row, row + 2)), []
            for base, record, node in between:
                operands = [k for k, rows in enumerate(_operands(record, node)) if not shared.isdisjoint(rows)]
                if operands and record is records[0]:
                    shared |= set(range(base, base + record.kind.rows))
                elif operands:
                    wanted_readers.append((base, record, node, operands))
            found_readers = readers_of(graph.records, row, 2, end, len(between), lambda record: record is records[0])
            assert found_readers == wanted_readers
            assert not between or readers_of(graph.records, row, 2, end, len(between) - 1, bool) is None


def _operands(record: Record, node: int) -> list[Sequence[int]]:
    """The rows of each operand of a node."""
    given = zip(record.operands_of(node), record.kind.operands)
    return [rows if isinstance(rows, tuple) else range(rows, rows + spec.rows) for rows, spec in given]


def test_what_is_joined_of_rows_is_found() -> None:
    copies = [(1, 2), (5, 9, 3), range(4, 6), ()]
    assert joined_of(copies, 3, 5) == [(5, 9, 3), range(4, 6)]
    assert joined_of(copies, 6, 9) == []
