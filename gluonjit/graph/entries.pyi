"""Entries of a table as rows."""

from collections.abc import Iterable
from typing import Any

from gluonjit.graph.recorder import GraphRows, Value
from gluonjit.graph.values import Spec

def rows_of(graph: GraphRows, entries: dict[int, int], numbers: Iterable[int]) -> tuple[int, ...]: ...
def entries_value(graph: GraphRows, rows: tuple[int, ...], spec: Spec, taped: bool, base: Any = None) -> Value: ...
def entries_at(
    graph: GraphRows, entries: dict[int, int], numbers: list[int] | int, size: int, spec: Spec, taped: bool
) -> Value | None: ...
