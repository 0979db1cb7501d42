"""The user's line."""

from types import CodeType
from typing import Any

Origin = tuple[CodeType, int] | None
LIBRARIES: set[str]
known: dict[Any, bool]

def is_library(module: dict[str, Any]) -> bool: ...
def user_line() -> Origin: ...
