"""Numbers of Python that become operands once a program has had many: a kind for each would be too many.

These are places in arrays, which programs take entry by entry, and numbers of operators. If a program takes few places,
such as the last output of a layer, each is a separate kind. If it takes many, such as the scores of a sample's own
tags, the number becomes an operand, and one kind suffices for all of them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from gluonjit.graph.values import Spec

_FEW = 4
_FEW_NUMBERS = 16  # of an operator, each of which is a constant of its kind
_MOST = 1_000  # specs of which places are known
_seen: dict[Spec, set[Any]] = {}


def are_many(spec: Spec, place: Any) -> bool:
    """Tells whether so many places of such arrays were taken that a kind for this one would be too many."""
    if len(_seen) > _MOST:
        _seen.clear()
    places = _seen.setdefault(spec, set())
    if len(places) < _FEW:
        places.add(place)
    return place not in places


def keeps_differing(seen: set[Any], number: Hashable) -> bool:
    """Tells whether an operator has had so many numbers, which are `seen`, that this one is to be an operand."""
    if len(seen) < _FEW_NUMBERS:
        seen.add(number)
    return number not in seen


def clear_places() -> None:
    """Forgets which places were taken."""
    _seen.clear()
