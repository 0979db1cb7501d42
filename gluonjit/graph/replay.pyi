"""Recordings of calls, captured again in an open graph."""

from array import array
from collections.abc import Callable
from typing import Any

from gluonjit.graph.frames import Origin
from gluonjit.graph.recorder import BatchRoom, GraphRows, Record, Value

OTHER: int
ARRAY: int
LAZY: int
LISTED: int
NAMED: int

def gather(item: Any, ways: dict[type, int], way_of: Callable[[type], int], arrays: list[Any]) -> bool: ...

class Replay:
    records: list[Record | None]
    entries: list[dict[int, int] | None]
    def __init__(self, graph: GraphRows, origins: list[Origin]) -> None: ...
    def begin(self, kinds: tuple[int, ...], lookups: tuple[tuple[int, tuple[int, ...]], ...]) -> int: ...
    def add(self, row: int, count: int) -> None: ...
    def capture(self, batch: BatchRoom, code: array[int]) -> None: ...
    def row(self, number: int) -> int: ...
    def values(self, number: int) -> tuple[Value, ...]: ...
    def value(self, number: int, k: int) -> Value: ...
