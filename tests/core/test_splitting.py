"""Products that are cut out of calls: which are shared, where they run, and what reads them."""

from __future__ import annotations

import numpy as np
import pytest

from gluonjit.analysis import make_plan
from gluonjit.analysis.captured import Captured
from gluonjit.analysis.plan import Step, rows_read
from gluonjit.graph import Graph, Kind, Output, Record, intern_spec, split_kind

ROW = intern_spec((4,), "float32", "cpu(0)", "stack")
WIDE = intern_spec((8,), "float32", "cpu(0)", "stack")
PRODUCT = Kind("product", (ROW,), (Output(WIDE, 0),), 1, None)
REST = Kind("rest", (ROW, WIDE), (Output(ROW, 0),), 1, None)
CELL = split_kind((ROW, ROW), REST, (1,), ((0, PRODUCT),))


def no_sums(spec: object, count: int) -> Kind:
    raise AssertionError("there are no sums")


def cells(graph: Graph, calls: list[tuple[int, int]], state: int) -> list[int]:
    """Capture calls (word, which of the earlier calls, or -1 for `state`); returns the row of each result."""
    record = graph.records.get("cell")
    if record is None:
        record = graph.records["cell"] = Record(CELL, 0, 0.0)
    rows: list[int] = []
    for word, before in calls:
        depth = 1 if before < 0 else record.depth(before) + 1
        (value,) = record.append(graph, (word, state if before < 0 else rows[before]), depth, None)
        assert isinstance(value.rows, int)
        rows.append(value.rows)
    return rows


def nodes(graph: Graph, sharing: bool = True) -> Captured:
    return Captured(graph.records.values(), graph.rows).split(sharing)


def leaves(graph: Graph, count: int) -> list[int]:
    return [graph.add_leaf(("leaf", number), None, ROW).base for number in range(count)]


def operand_matrices(record: Record) -> list[np.ndarray]:
    """The rows of each operand, as arrays (nodes, rows)."""
    return [np.array(rows) for rows in zip(*[rows_read(record, node) for node in range(len(record))])]


CALLS = [(0, -1), (1, 0), (0, 1), (1, -1), (0, -1)]


@pytest.mark.parametrize(("sharing", "products"), [(True, 2), (False, 5)])
def test_equal_products_are_one_as_far_as_is_shared(sharing: bool, products: int) -> None:
    graph = Graph()
    words = leaves(graph, 2)
    graph.marks.append((graph.rows, 0))
    first = cells(graph, CALLS[:3], words[0])
    graph.marks.append((graph.rows, 1))
    rows = first + cells(graph, CALLS[3:], words[0])
    rest, product = nodes(graph, sharing).records
    assert (rest.kind, product.kind) == (REST, PRODUCT)
    assert len(product.bases) == products
    assert list(rest.bases) == rows
    state, wide = operand_matrices(rest)
    assert state[:, 0].tolist() == [words[0], rows[0], rows[1], words[0], words[0]]
    (read,) = operand_matrices(product)
    word_of = dict(zip(product.bases, read[:, 0].tolist()))
    assert [word_of[row] for row in wide[:, 0].tolist()] == [words[0], words[1], words[0], words[1], words[0]]
    assert all(made < reads for made, reads in zip(wide[:, 0].tolist(), rest.bases)), "a product comes after its call"


def test_the_graph_stays_as_it_was() -> None:
    graph = Graph()
    cells(graph, CALLS, leaves(graph, 2)[0])
    rows, records = graph.rows, dict(graph.records)
    nodes(graph)
    assert (graph.rows, graph.records) == (rows, records)
    assert graph.records["cell"].kind is CELL
    assert graph.records["cell"].depths == [1, 2, 3, 1, 1]


def order(steps: tuple[Step, ...]) -> list[tuple[str, int]]:
    return [(step.kind.name, step.count) for step in steps]


def test_products_of_inputs_run_once_before_the_recursion() -> None:
    graph = Graph()
    cells(graph, CALLS, leaves(graph, 2)[0])
    record = graph.records["cell"]
    held = [value for node in range(len(record)) for value in record.values(node)]
    plan = make_plan(graph, no_sums)
    assert order(plan.steps) == [("product", 2), ("rest", 3), ("rest", 1), ("rest", 1)]
    assert held


def test_a_product_of_what_was_computed_runs_between() -> None:
    graph = Graph()
    words = leaves(graph, 2)
    rows = cells(graph, CALLS[:2], words[0])
    later = cells(graph, [(rows[1], -1)], words[0])  # its "word" is a result, one level above
    record = graph.records["cell"]
    record.append(graph, (words[1], later[0]), 4, None)
    held = [value for node in range(len(record)) for value in record.values(node)]
    plan = make_plan(graph, no_sums)
    made: set[int] = set(range(2))
    for step in plan.steps:
        results = set()
        for part, nodes in step.parts:
            for matrix in operand_matrices(part):
                assert set(matrix[nodes].ravel().tolist()) <= made, "an operand is not there yet"
            results |= set(np.array(part.bases)[nodes].tolist())
        made |= results
    assert sum(step.count for step in plan.steps) == 4 + 3
    assert held
