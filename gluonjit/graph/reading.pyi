"""The nodes of a graph read into flat arrays and into bytes."""

from typing import Any

from gluonjit.graph.recorder import Record

def likeness(records: list[Record], most: int) -> tuple[bytes, tuple[tuple[tuple[int, ...], ...], ...]] | None: ...
def read(
    records: list[Record],
    sizes: list[tuple[int, ...]],
    number: int,
    n: int,
    at: int,
    kinds: Any,
    bases: Any,
    firsts: Any,
    operands: Any,
    alive: Any,
) -> None: ...
