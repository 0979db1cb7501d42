"""Code that stands in the place of a function's own, as gluonjit exchanges that of methods, and the name it asks."""

from __future__ import annotations

from types import CodeType, FunctionType
from weakref import WeakValueDictionary

KEY = "_gluonjit"
"""A dynamically batched model keeps its cell in its own __dict__, so that copies and pickles take it along."""
_originals: dict[CodeType, CodeType] = {}
ENTRANCES: WeakValueDictionary[str, FunctionType] = WeakValueDictionary()
"""Methods that run a sample when they are called from outside of one, by the name by which their code asks."""
STANDING: dict[int, tuple[CodeType, CodeType]] = {}
"""Code that stands for other code, which it is given with, by address: to hash code takes long."""


def stands_for(code: CodeType, original: CodeType) -> None:
    """Registers code that replaces a function's own code, from which its twin is made."""
    _originals[code] = original
    STANDING[id(code)] = code, original


def code_of(function: FunctionType) -> CodeType:
    """Returns a function's own code, even if it is replaced."""
    return _originals.get(function.__code__, function.__code__)
