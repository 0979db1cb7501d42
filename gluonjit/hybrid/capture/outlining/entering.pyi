"""Calls of code that has cells in it."""

from collections.abc import Callable
from typing import Any

class AsWritten:
    """For `with`: no cells are made from source."""

    depth: int
    def __init__(self) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *error: object) -> None: ...

class Entry:
    """The entry of a method or function: gives the cells for a call, or None."""

    local: Any
    as_written: AsWritten
    methods: list[tuple[str, Any]]
    helpers: list[tuple[dict[str, Any], str, Any]]
    cells: list[Any] | None
    def __init__(self, local: Any, as_written: AsWritten) -> None: ...
    def __call__(self, owner: Any = None) -> list[Any] | None: ...

class MadeCall:
    """A made cell as its method calls it."""

    cell: Any
    grown: Callable[[], None] | None
    is_first: Callable[[tuple[Any, ...]], bool] | None
    may: Callable[[tuple[Any, ...]], bool] | None
    lazy: type | None
    calls: int
    def __init__(self, cell: Any, holder: Any, quick: Any, otherwise: Callable[[tuple[Any, ...]], Any]) -> None: ...
    def __call__(self, *args: Any) -> Any: ...
