"""The nodes of a graph: read into flat arrays and into bytes, and looked up."""

from collections.abc import Callable, Iterable, Sequence
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
def node_at(records: dict[Any, Record], row: int) -> tuple[Record, int] | None: ...
def readers_of(
    records: dict[Any, Record], row: int, count: int, end: int, most: int, gives_views: Callable[[Record], bool]
) -> list[tuple[int, Record, int, list[int]]] | None: ...
def joined_of(copies: Sequence[Iterable[int]], first: int, end: int) -> list[Iterable[int]]: ...
