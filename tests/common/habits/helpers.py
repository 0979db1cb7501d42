"""Functions and state of another module, as a library of the user's own has them."""

from __future__ import annotations

from typing import Any

FACTOR = 1.0
SETTINGS: dict[str, Any] = {"factor": 1.0, "names": ["one", "two"]}


def factor() -> float:
    """The global of this module."""
    return FACTOR


def scaled(h: Any) -> Any:
    """By a setting of this module."""
    return h * SETTINGS["factor"]


def squashed(F: Any, h: Any, how: Any = None) -> Any:
    """By a function that is named in a table."""
    table = {"tanh": F.tanh, "sigmoid": F.sigmoid}
    return table[how or SETTINGS.get("how", "tanh")](h)
