"""Problems of schedulers as graphs of the library."""

from __future__ import annotations

from typing import Any

from experiments.schedulers.problem import Problem
from gluonjit.graph import Graph, Kind, Output, Record, Value, intern_spec

SPEC = intern_spec((1, 4), "float32", "cpu(0)", "rows")


def captured(problem: Problem) -> tuple[Graph, list[Value]]:
    """A graph of these nodes, each of which uses up to two, and all its values, so that no node is dropped."""
    graph = Graph()
    leaf = graph.add_leaf("leaf", None, SPEC).base
    records: dict[int, Record] = {}
    values: list[Value] = []
    for kind, used in zip(problem.types, problem.uses):
        record = records.get(kind)
        if record is None:
            lone = "it has to" if problem.alone[kind] else None
            form: Any = Kind(f"kind {kind}", (SPEC, SPEC), (Output(SPEC, 0),), 1, None, lone=lone)
            record = records[kind] = graph.records[kind] = Record(form, 0, 0.0)
        rows = [values[one].rows for one in used] + [leaf] * (2 - len(used))
        depth = 1 + max([values[one].depth for one in used], default=0)
        values += record.append(graph, tuple(rows), depth, None)
    return graph, values
