"""Operator attributes, which arrive as strings: "(0, -1)", "[1,2]", "None", "True", "1", "float32"."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

Attributes = Mapping[str, Any]
"""The attributes of one call as Python values; who reads one gives the default that the operator documents."""


def read(attrs: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> Attributes:
    """Attributes as Python values; None where it says so."""
    return {key: literal(str(value)) for key, value in dict(attrs).items()}


def written(attrs: Iterable[tuple[str, Any]]) -> tuple[tuple[str, str], ...]:
    """Attributes as MXNet takes them."""
    return tuple([(key, str(value)) for key, value in attrs])


def listed(given: Any) -> tuple[Any, ...]:
    """An attribute that is one value or several, or none, as a tuple."""
    return () if given is None else given if isinstance(given, tuple) else (given,)


@lru_cache(maxsize=1024)  # Python's compiler reads them
def literal(text: str) -> Any:
    """The Python value of an attribute's text; words that are no literal stay text."""
    if not text:
        return None
    if text in ("true", "false"):
        return text == "true"
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return tuple(value) if isinstance(value, list) else value
