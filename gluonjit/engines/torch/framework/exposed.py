"""Weights that a program writes to through `weight.data`, which PyTorch counts as writes to another tensor.

Programs mostly read by it (`weight.data.new(1, 8)`), for which nothing has to run. So calls that wait for a weight run
before its first few such reads, and then only if one of these was written to.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any
from weakref import ref

_READS = 3
_MOST = 64
_harmless: dict[int, tuple[Any, int]] = {}  # by a weight's address: how many reads were reads, or -1

Exposed = dict[int, list[list[Any]]]
"""By a weight's address: what `data`, or a view of it, has given, how often that had been written to before pending
calls used the weight, and when it was given."""


class _Between(threading.local):
    """Tensors given after a batch of this thread had run for them, and before the next one began."""

    def __init__(self) -> None:
        self.exposed: Exposed = {}


_BETWEEN = _Between()


def between_batches() -> Exposed:
    """Returns what the next batch is to know of."""
    return _BETWEEN.exposed


def taken_over() -> Exposed:
    """Takes what was given before a batch that begins."""
    found, _BETWEEN.exposed = _BETWEEN.exposed, {}
    return found


def is_due(exposed: Exposed, weight: Any) -> bool:
    """True if what waits for a weight has to run before the program gets its memory."""
    given = exposed.get(id(weight), ())
    if given:
        _judge(weight, given)
    return _count(weight) < _READS


def expose(exposed: Exposed, weight: Any, data: Any) -> None:
    """Remembers what a program was given."""
    given = exposed.setdefault(id(weight), [])
    given.append([data, data._version, data._version])
    del given[:-_MOST]


def begin_use(exposed: Exposed, weight: Any) -> None:
    """Notes that calls use a weight from now on: earlier writes are no matter."""
    for pair in exposed.get(id(weight), ()):
        pair[1] = pair[0]._version


def end_use(exposed: Exposed, weight: Any) -> bool:
    """True if a weight was written to since calls use it, which run now."""
    given = exposed.get(id(weight), ())
    return any([data._version != before and data.data_ptr() == weight.data_ptr() for data, before, _ in given])


def kept(exposed: Exposed, weights: Sequence[Any]) -> Exposed:
    """Returns what has been written to, and may be again; it remembers of which of these weights that is."""
    for weight in weights:
        if any(map(_written, exposed.get(id(weight), ()))):
            _judge(weight, exposed[id(weight)])
    written = {place: [pair for pair in given if _written(pair)] for place, given in exposed.items()}
    return {place: given for place, given in written.items() if given}


def _judge(weight: Any, given: Sequence[Any]) -> None:
    count = -1 if any(map(_written, given)) else _count(weight)
    place = id(weight)
    _harmless[place] = ref(weight, lambda gone: _harmless.pop(place, None)), count + (count >= 0)


def _written(given: Sequence[Any]) -> bool:
    """True if what a program was given has been written to since."""
    data, _, before = given
    return bool(data._version != before)


def _count(weight: Any) -> int:
    known = _harmless.get(id(weight))
    return known[1] if known is not None and known[0]() is weight else 0
