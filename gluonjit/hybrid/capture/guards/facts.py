# cython: language_level=3, boundscheck=False, wraparound=False, nonecheck=True, binding=False
"""Facts: what a traced call has read of Python's state, where it was, and whether it is still so.

In Cython's pure-Python mode: a part of `gluonjit._fast` where that was built (`facts.pxd` has the types), and
interpreted as it stands elsewhere.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from struct import pack
from typing import Any, NamedTuple

import numpy as np

from gluonjit.replaced import STANDING

try:
    import cython
    from cython import Py_ssize_t, cfunc, longlong
except ImportError:
    from gluonjit import standin as cython
    from gluonjit.standin import cfunc

if not cython.compiled:
    ENTRY, ITEM, SIZE, CELL, CLASS, DEFAULTS, CONTENTS, SLOT, KIND, CODE, OF_LIBRARY = range(11)
"""Ways to look something up: an entry of a dict, an item of a list, how many there are, what a closure's cell holds, an
attribute of a class or its bases, a function's defaults, all that is in a container, a slot of an object, its class
(while its attributes are in the same dict), a function's code, an attribute of a library's module or class."""


class _Absent:
    """Stands for what is not there."""

    def __repr__(self) -> str:
        return "nothing"


ABSENT = _Absent()

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), range, np.generic)


def is_plain(value: Any) -> cython.bint:
    """True if a value is a constant that is told by its type and content, not by who it is."""
    kind = type(value)
    if kind in _PLAIN or isinstance(value, np.generic):
        return True
    if not isinstance(value, tuple) and kind is not frozenset:
        return False
    if cython.compiled:
        Py_EnterRecursiveCall(b" in a constant")
    try:
        return all([is_plain(part) for part in value])
    finally:
        if cython.compiled:
            Py_LeaveRecursiveCall()


def alike(one: Any, other: Any) -> cython.bint:
    """True if two plain values are alike: 0.0 and -0.0 are not, nor True and 1, and NaN is like itself."""
    if one is other:
        return True
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is int or kind is str:
        return bool(one == other)
    if kind is float:
        return pack("d", one) == pack("d", other)
    if kind is complex:
        return alike((one.real, one.imag), (other.real, other.imag))
    if isinstance(one, tuple):
        if cython.compiled:
            Py_EnterRecursiveCall(b" in a constant")
        try:
            return len(one) == len(other) and all([alike(*both) for both in zip(one, other)])
        finally:
            if cython.compiled:
                Py_LeaveRecursiveCall()
    if isinstance(one, np.generic):
        return bool(one.dtype == other.dtype and one.tobytes() == other.tobytes())
    if kind is frozenset:
        return bool(one == other) and sorted(map(repr, one)) == sorted(map(repr, other))
    return kind in _PLAIN and bool(one == other)


def class_attribute(kind: Any, name: Any) -> Any:
    """Finds what a class or the first of its bases that has it has under this name; ABSENT where none has it."""
    if cython.compiled and isinstance(kind, type) and isinstance(name, str):
        place: cython.pointer(PyObject) = _PyType_Lookup(cython.cast(cython.pointer(PyTypeObject), kind), name)
        return ABSENT if place == cython.NULL else cython.cast(object, place)
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


def read_at(way: cython.int, container: Any, key: Any) -> Any:
    """Returns the current content. Raises TypeError if a container does not have this way."""
    if way == ENTRY:
        if not isinstance(container, dict):
            raise TypeError(f"a {type(container).__name__} has no entries")
        return dict.get(container, key, ABSENT)
    if way == ITEM:
        return container[key] if -len(container) <= key < len(container) else ABSENT
    if way == SIZE:
        return len(container)
    if way == CELL:
        if cython.compiled and PyCell_Check(container):
            place: cython.pointer(PyObject) = PyCell_GET(container)
            return ABSENT if place == cython.NULL else cython.cast(object, place)
        try:
            return container.cell_contents
        except ValueError:
            return ABSENT
    if way == CLASS:
        return class_attribute(container, key)
    if way == DEFAULTS:
        return getattr(container, key)
    if way == CONTENTS:
        return contents(container)
    if way == KIND:
        return type(container) if key is None or _namespace(container) is key else ABSENT
    if way == CODE:
        standing = STANDING.get(id(container.__code__))
        return container.__code__ if standing is None else standing[1]
    if way == OF_LIBRARY:
        if isinstance(container, type):
            return class_attribute(container, key)
        return read_at(ENTRY, container, key)
    if way != SLOT:
        raise TypeError(f"there is no way {way} to look something up")
    try:
        return key.__get__(container, type(container))
    except AttributeError:
        return ABSENT


@cfunc
def _namespace(item):
    """The dict of an object that has one."""
    if cython.compiled:
        return PyObject_GenericGetDict(item, cython.NULL)
    else:
        return object.__getattribute__(item, "__dict__")


class Fact(NamedTuple):
    """Something that was read: where, what it was, and how the program calls it."""

    way: int
    container: Any
    key: Any
    found: Any
    name: str

    def holds(self) -> bool:
        """True if it is still so."""
        now = read_at(self.way, self.container, self.key)
        return now is self.found or alike(now, self.found)


class Guards:
    """The guards of a traced call: what must hold for it to be valid now."""

    def __init__(self, facts: Sequence[tuple[int, Any, Any, Any]]) -> None:
        checked = []
        for fact in facts:
            if not isinstance(fact, tuple) or len(fact) != 4 or not isinstance(fact[0], int):
                raise TypeError(f"Guards: a fact is (way, container, key, found), not {fact!r:.40}")
            checked.append((fact[0] if 0 <= fact[0] <= OF_LIBRARY else -1, *fact[1:]))
        self._facts = tuple(checked)
        self._versions = array("q", bytes(8 * len(checked)))

    def hold(self) -> bool:
        """True if nothing has changed."""
        return _hold(self) > 0


def _hold(guards: Any) -> cython.int:
    """The same as C asks it, with Guards."""
    self: Guards = guards
    facts: tuple = self._facts
    k: Py_ssize_t
    if cython.compiled:
        versions: cython.p_longlong = self._versions.data.as_longlongs
    for k in range(len(facts)):
        fact: tuple = facts[k]
        way: cython.int = fact[0]
        container = fact[1]
        if cython.compiled:
            version: longlong = _version(way, container)
            if version and version == versions[k]:
                continue
        now = read_at(way, container, fact[2])
        if now is fact[3]:
            if cython.compiled and way in (ENTRY, CLASS, OF_LIBRARY, CODE):  # nothing has run since
                versions[k] = _version(way, container)
        elif not alike(now, fact[3]):
            return 0
    return 1


@cfunc
def _version(way: cython.int, container) -> longlong:
    """The number that changes with a container, or 0; of a function its code's address, kept while it may hold."""
    if way != CODE:
        return version_of(container)
    if not PyFunction_Check(container):
        return 0
    return cython.cast(cython.longlong, cython.cast(cython.p_void, PyFunction_GetCode(container)))


_HELD = ("_parameters", "_buffers", "_modules")
_MOST_SEEN: Py_ssize_t = 1 << 20  # of an object that is a part of itself


class Fingerprint:
    """The addresses of an object's attributes, and of those of its parts, when it was made.

    Parts are in the dict `_modules` of each object, as in PyTorch. Containers among the attributes add their length.
    """

    def __init__(self, owner: Any) -> None:
        self._kept = []  # constants, so that no other gets the address of one
        self._seen = _EMPTY * 1024
        self._count = _addresses(owner, self._seen, self._kept)
        while self._count < 0 and len(self._seen) < _MOST_SEEN:
            self._seen = _EMPTY * (4 * len(self._seen))
            self._count = _addresses(owner, self._seen, self._kept)

    def holds(self, owner: Any) -> bool:
        """True if an object still has these attributes and parts."""
        room: cython_array = _EMPTY * (self._count + _SLACK)
        if self._count < 0 or _addresses(owner, room, None) != self._count:
            return False
        if cython.compiled:
            return memcmp(room.data.as_voidptr, self._seen.data.as_voidptr, 8 * self._count) == 0
        else:
            return room[: self._count] == self._seen[: self._count]


_EMPTY = array("q", [0])
_SLACK: Py_ssize_t = 3  # an attribute's numbers


@cfunc
def _address(item) -> longlong:
    if cython.compiled:
        return cython.cast(cython.longlong, cython.cast(cython.p_void, item))
    else:
        return id(item)


@cfunc
def _addresses(owner, room: cython_array, kept) -> Py_ssize_t:
    """Writes an object's addresses to `room` and returns their number, or -1 if they do not fit; collect constants."""
    at: Py_ssize_t = 0
    most: Py_ssize_t = len(room)
    if cython.compiled:
        found: cython.p_longlong = room.data.as_longlongs
    else:
        found = room
    pending: list = [owner]
    while pending:
        part = pending.pop()
        attributes: dict = part.__dict__
        if at + 2 > most:
            return -1
        found[at] = _address(part)
        found[at + 1] = _address(type(part))
        at += 2
        for name, item in attributes.items():
            if at + _SLACK > most:
                return -1
            found[at] = _address(name)
            found[at + 1] = _address(item)
            at += 2
            if isinstance(item, dict):
                found[at] = len(item)
                at += 1
                if item and name in _HELD:
                    if at + 2 * len(item) > most:
                        return -1
                    for key, inner in item.items():
                        found[at] = _address(key)
                        found[at + 1] = _address(inner)
                        at += 2
                        if inner is not None and name == "_modules":
                            pending.append(inner)
            elif isinstance(item, (list, tuple, set)):
                found[at] = len(item)
                at += 1
            elif kept is not None and isinstance(item, (int, float, str)):
                kept.append(item)
    return at
