"""Places in arrays that programs take by number, entry by entry.

If a program takes few, such as the last output of a layer, each is a separate kind. If it takes many, such as the
scores of a sample's own tags, the number becomes an operand, and one kind suffices for all of them.
"""

from __future__ import annotations

from typing import Any

from gluonjit.graph.values import Spec

_FEW = 4
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


def clear_places() -> None:
    """Forgets which places were taken."""
    _seen.clear()
