"""Numbers in flat arrays, and references to values: `inlined.pxd` has the same where it is compiled."""

from __future__ import annotations

from array import array
from sys import getrefcount
from typing import Any


def number_at(of: array[int], k: int) -> int:
    """Returns the number at a place."""
    return of[k]


def set_number(of: array[int], k: int, number: int) -> None:
    """Puts a number to a place."""
    of[k] = number


def references(values: list[Any], k: int) -> int:
    """Counts the references to a value, with those that counting makes; 0 if it has not been made."""
    return 0 if values[k] is None else getrefcount(values[k])


UNREAD = references([object()], 0)
"""References to a value that only its record holds, with those that counting makes."""


def is_held(values: list[Any], k: int) -> bool:
    """True if a value is held outside of the graph."""
    return references(values, k) > UNREAD
