"""Nodes found by the rows of their results."""

from __future__ import annotations

import pytest

from gluonjit.graph.reading import joined_of, node_at
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


def test_what_is_joined_of_rows_is_found() -> None:
    copies = [(1, 2), (5, 9, 3), range(4, 6), ()]
    assert joined_of(copies, 3, 5) == [(5, 9, 3), range(4, 6)]
    assert joined_of(copies, 6, 9) == []
