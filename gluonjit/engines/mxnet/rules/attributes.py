"""Operator attributes, which arrive as strings: "(0, -1)", "[1,2]", "None", "True", "1", "float32"."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

_TRUE = {"True", "true", "1"}
_FALSE = {"False", "false", "0"}


class Attributes(Mapping[str, str]):
    """The attributes of one call; every reader takes the default that the operator documents."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, Any]) -> None:
        self._items = {key: str(value) for key, value in items.items()}

    def __getitem__(self, key: str) -> str:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"Attributes({self._items})"

    def text(self, key: str, default: str) -> str:
        return self._items.get(key, default)

    def flag(self, key: str, default: bool = False) -> bool:
        value = self._items.get(key)
        if value is None or value == "None":
            return default
        if value not in _TRUE | _FALSE:
            raise ValueError(f"attribute {key}={value!r} should be True or False")
        return value in _TRUE

    def integer(self, key: str, default: int) -> int:
        value = self.optional_integer(key, default)
        return default if value is None else value

    def optional_integer(self, key: str, default: int | None) -> int | None:
        """The integer at `key`; None if the attribute says "None"."""
        if key not in self._items:
            return default
        value = literal(self._items[key])
        if isinstance(value, tuple) and len(value) == 1:
            value = value[0]
        if value is not None and not isinstance(value, int):
            raise ValueError(f"attribute {key}={self._items[key]!r} should be an integer")
        return value

    def number(self, key: str, default: float) -> float:
        value = literal(self._items[key]) if key in self._items else default
        return default if value is None else float(value)

    def axes(self, key: str) -> tuple[int, ...] | None:
        """The tuple of integers at `key`; None if it is absent or says "None"."""
        entries = self.entries(key)
        if entries is None:
            return None
        if any(entry is None for entry in entries):
            raise ValueError(f"attribute {key}={self._items[key]!r} should hold integers only")
        return tuple(int(entry) for entry in entries if entry is not None)

    def entries(self, key: str) -> tuple[int | None, ...] | None:
        """Reads a tuple that may hold None, such as the ends of a slice; otherwise like `axes`."""
        if key not in self._items:
            return None
        value = literal(self._items[key])
        if value is None:
            return None
        entries = value if isinstance(value, tuple) else (value,)
        if not all(entry is None or isinstance(entry, int) for entry in entries):
            raise ValueError(f"attribute {key}={self._items[key]!r} should be a tuple of integers")
        return entries


@lru_cache(maxsize=1024)  # Python's compiler reads them
def literal(text: str) -> Any:
    """The Python value of an attribute's text; words that are no literal stay text."""
    if not text:
        return None
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return tuple(value) if isinstance(value, list) else value
