"""Calls of a method whose code has cells in it."""

from collections.abc import Callable
from typing import Any

class AsWritten:
    """For `with`: no cells are made from source."""

    depth: int
    def __init__(self) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *error: object) -> None: ...

class MethodEntry:
    """The entry of a method: gives the cells for a call, or None."""

    local: Any
    as_written: AsWritten
    methods: list[tuple[str, Any]]
    def __init__(self, local: Any, as_written: AsWritten) -> None: ...
    def __call__(self, owner: Any) -> list[Any] | None: ...

class MadeCall:
    """A made cell as its method calls it."""

    cell: Any
    grown: Callable[[], None] | None
    is_first: Callable[[tuple[Any, ...]], bool] | None
    calls: int
    def __init__(self, cell: Any, holder: Any, quick: Any, otherwise: Callable[[tuple[Any, ...]], Any]) -> None: ...
    def __call__(self, *args: Any) -> Any: ...
