"""Facts: what a traced call has read of Python's state, where it was, and whether it is still so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import pack
from typing import Any, NamedTuple

import numpy as np

ENTRY, ITEM, SIZE, CELL, CLASS, DEFAULTS, CONTENTS, SLOT = range(8)
"""Ways to look something up: an entry of a dict, an item of a list, how many there are, what a closure's cell holds, an
attribute of a class or its bases, a function's defaults, all that is in a container, a slot of an object."""


class _Absent:
    """Stands for what is not there."""

    def __repr__(self) -> str:
        return "nothing"


ABSENT = _Absent()

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), range, np.generic)


def is_plain(value: Any) -> bool:
    """Tells whether a value is a constant that is told by its type and content, not by who it is."""
    kind = type(value)
    if kind in _PLAIN or isinstance(value, np.generic):
        return True
    if isinstance(value, tuple):
        return all(map(is_plain, value))
    return kind is frozenset and all(map(is_plain, value))


def alike(one: Any, other: Any) -> bool:
    """Tells whether two plain values are alike: 0.0 and -0.0 are not, nor True and 1, and NaN is like itself."""
    if one is other:
        return True
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is float:
        return pack("d", one) == pack("d", other)
    if kind is complex:
        return alike((one.real, one.imag), (other.real, other.imag))
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, np.generic):
        return bool(one.dtype == other.dtype and one.tobytes() == other.tobytes())
    if kind is frozenset:
        return bool(one == other) and sorted(map(repr, one)) == sorted(map(repr, other))
    return kind in _PLAIN and bool(one == other)


def class_attribute(kind: type, name: str) -> Any:
    """Finds what a class or the first of its bases that has it has under this name; ABSENT where none has it."""
    for base in kind.__mro__:
        found = base.__dict__.get(name, ABSENT)
        if found is not ABSENT:
            return found
    return ABSENT


def contents(container: Any) -> tuple[Any, ...]:
    """All that is in a container, as a tuple."""
    if isinstance(container, dict):
        return tuple(dict.items(container))
    if isinstance(container, np.ndarray):
        return (str(container.dtype), container.shape, container.tobytes())
    return tuple(container)


def _entry(container: Any, key: Any) -> Any:
    return dict.get(container, key, ABSENT)


def _item(container: Any, key: Any) -> Any:
    return container[key] if -len(container) <= key < len(container) else ABSENT


def _size(container: Any, key: Any) -> Any:
    return len(container)


def _cell(container: Any, key: Any) -> Any:
    try:
        return container.cell_contents
    except ValueError:
        return ABSENT


def _defaults(container: Any, key: Any) -> Any:
    return getattr(container, key)


def _contents(container: Any, key: Any) -> Any:
    return contents(container)


def _slot(container: Any, key: Any) -> Any:
    try:
        return key.__get__(container, type(container))
    except AttributeError:
        return ABSENT


_LOOK: tuple[Callable[[Any, Any], Any], ...] = (
    _entry,
    _item,
    _size,
    _cell,
    class_attribute,
    _defaults,
    _contents,
    _slot,
)


def look(way: int, container: Any, key: Any) -> Any:
    """Returns what is there now."""
    return _LOOK[way](container, key)


class Fact(NamedTuple):
    """Something that was read: where, what it was, and how the program calls it."""

    way: int
    container: Any
    key: Any
    found: Any
    name: str

    def holds(self) -> bool:
        """Tells whether it is still so."""
        now = look(self.way, self.container, self.key)
        return now is self.found or alike(now, self.found)


class PlainGuards:
    """The guards of a traced call: what has to hold for it to be that of now. `gluonjit._fast.Guards` does it in C."""

    __slots__ = ("facts",)

    def __init__(self, facts: Sequence[tuple[int, Any, Any, Any]], look: Any, alike: Any, absent: Any) -> None:
        self.facts = tuple(facts)

    def hold(self) -> bool:
        """Tells whether everything is as it was."""
        for way, container, key, found in self.facts:
            now = _LOOK[way](container, key)
            if now is not found and not alike(now, found):
                return False
        return True
