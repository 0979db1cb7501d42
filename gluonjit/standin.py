"""Names of Cython used by files in its pure-Python mode, for interpretation without Cython.

A type is only an annotation, which is never evaluated, and a decorator leaves a function unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function")

compiled = False
Size = Number = int
Numbers = Flags = Any
"""Types of `_arrays.pxd`."""


def cfunc(function: _Function) -> _Function:
    """Marks a function that only its own file calls, or a class."""
    return function


ccall = cfunc
cclass = cfunc
no_gc = cfunc
inline = cfunc


def freelist(size: int) -> Callable[[_Function], _Function]:
    """Marks a class of which this many ended objects are kept for reuse."""
    return cfunc


def trashcan(wanted: bool) -> Callable[[_Function], _Function]:
    """Marks a class whose objects end one by one, however long a chain of them is."""
    return cfunc


def exceptval(*value: object, check: bool = True) -> Callable[[_Function], _Function]:
    """Marks the value that a function returns when it raises; without effect when interpreted."""
    return cfunc


def cast(kind: object, value: _Function) -> _Function:
    """The value, of a type that compiled code then knows."""
    return value
