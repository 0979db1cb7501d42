"""Numbers of Python, and weights, that become operands once a program has had many: kinds for each would be too many.

These are places in arrays, which programs take entry by entry, numbers of operators, and weights that each sample
chooses. If a program takes few places, such as the last output of a layer, each is a separate kind. If it takes many,
such as the scores of a sample's own tags, the number becomes an operand, and one kind suffices for all of them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from gluonjit.graph.values import Spec

_FEW = 4
FEW_NUMBERS = 16  # of an operator, each of which is a constant of its kind
_MOST = 1_000  # specs of which places are known, and numbers
_seen: dict[Spec, set[Any]] = {}
_varied: dict[Hashable, tuple[set[Any], set[tuple[int, int]]]] = {}


def are_many(spec: Spec, place: Any) -> bool:
    """True if so many places of such arrays were taken that a kind for this one would be too many."""
    if len(_seen) > _MOST:
        _seen.clear()
    places = _seen.setdefault(spec, set())
    if len(places) < _FEW:
        places.add(place)
    return place not in places


def vary(cell: Any, look: Hashable, item: Hashable, batch: Any, most: int = _MOST) -> bool:
    """True if what calls that look so are given in this place is to be an operand: a number, or a weight.

    It is where they have had many different ones, or new ones in many samples of a batch. Calls of the cell with those
    that they have had are other calls then, too.
    """
    if len(_varied) > _MOST:
        _varied.clear()
    met, samples = _varied.setdefault((cell, look), (set(), set()))
    if item not in met and len(samples) <= _FEW and len(met) <= most:
        met.add(item)
        graph = id(batch.graph)
        samples.intersection_update([place for place in samples if place[0] == graph])
        samples.add((graph, batch.sample))
        if cell and (len(samples) > _FEW or len(met) > most):
            cell.keys = None
    return len(samples) > _FEW or len(met) > most


def clear_places() -> None:
    """Forgets which places were taken, and which numbers and weights operators had."""
    _seen.clear()
    _varied.clear()
