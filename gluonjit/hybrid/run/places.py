"""Numbers of Python that become operands once a program has had many: a kind for each would be too many.

These are places in arrays, which programs take entry by entry, and numbers of operators. If a program takes few places,
such as the last output of a layer, each is a separate kind. If it takes many, such as the scores of a sample's own
tags, the number becomes an operand, and one kind suffices for all of them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any
from weakref import WeakSet

_FEW = 4
_FEW_NUMBERS = 16  # of an operator, each of which is a constant of its kind
_MOST = 1_000  # specs of which places are known, and numbers
_seen: dict[Hashable, set[Any]] = {}
_numbers: WeakSet[DifferingNumbers] = WeakSet()


def are_many(what: Hashable, place: Any) -> bool:
    """Tells whether so many places of arrays that look so, or integers in their place, were taken that a kind for this
    one would be too many.
    """
    if len(_seen) > _MOST:
        _seen.clear()
    places = _seen.setdefault(what, set())
    if len(places) < _FEW:
        places.add(place)
    return place not in places


class DifferingNumbers:
    """The numbers that calls of an operator have had: the first ones, and others that come again, are constants."""

    __slots__ = ("__weakref__", "_constants", "_once")

    def __init__(self) -> None:
        self._constants: set[Hashable] = set()
        self._once: dict[Hashable, int] = {}  # others, and the batch in which they came
        _numbers.add(self)

    def clear(self) -> None:
        """Forgets them."""
        self._constants.clear()
        self._once.clear()

    def keeps_differing(self, number: Hashable, batch: int) -> bool:
        """Tells whether a number is to be an operand: no earlier batch than this one has had it."""
        if number in self._constants:
            return False
        again = self._once.pop(number, batch) != batch and len(self._constants) < _MOST
        if again or len(self._constants) < _FEW_NUMBERS:
            self._constants.add(number)
            return False
        if len(self._once) >= _MOST:
            del self._once[next(iter(self._once))]
        self._once[number] = batch
        return True


def clear_places() -> None:
    """Forgets which places were taken, and which numbers operators had."""
    _seen.clear()
    for numbers in list(_numbers):
        numbers.clear()
