# cython: language_level=3, nonecheck=False, binding=False
"""The user's line: the innermost frame outside of the libraries, told by module, as generated functions have no file.

In Cython's pure-Python mode: a part of `gluonjit._fast` where that was built (`frames.pxd` has the types, and
`native/stack.h` what frames are in each version of Python), and interpreted as it stands elsewhere.
"""

from __future__ import annotations

import os
import sys
from types import CodeType
from typing import Any, Optional

try:
    import cython
    from cython import cfunc
except ImportError:
    from gluonjit import standin as cython
    from gluonjit.standin import cfunc

Origin = Optional[tuple[CodeType, int]]
"""A place in a function: its code and the offset of an instruction. Cheap to take; `origins.line_of` reads it."""

LIBRARIES = {"gluonjit", "numpy"}
"""Packages that the user's line is never in; each engine adds its framework, and Python's own count too."""

_STANDARD = os.path.dirname(os.__file__) + os.sep
_MODULES = frozenset(getattr(sys, "stdlib_module_names", ("contextlib", "copy", "functools", "logging", "threading")))

known = dict[Any, bool]()
"""Modules by name: True for a library's."""

_known: dict = known  # as compiled code finds it
_places: list = [None] * 256
"""Places that were asked for lately, so that one place is one object: where their code is in memory says where."""


def is_library(module: dict[str, Any]) -> bool:
    """True if these are the globals of a library's module, told by its name."""
    name = module.get("__name__")
    if name not in known:
        package = str(name).partition(".")[0]
        standard = str(module.get("__file__", "")).startswith(_STANDARD) and package in _MODULES
        known[name] = package in LIBRARIES or standard
    return known[name]


def user_line() -> Origin:
    """Returns the innermost place outside of libraries; None if there is none."""
    return _user_line()


@cfunc
def _user_line():
    """The same as C calls it."""
    frame: cython.pointer(Frame) = _here()
    while frame:
        if cython.compiled:  # a place that was asked for lately is in no library
            found: tuple = _places[_slot_of(frame)]
            if found is not None and _is_at(found, frame):
                return found
        module: dict = _globals(frame)
        inside = _known.get(module.get("__name__"))
        if not (is_library(module) if inside is None else inside):
            return _place(frame)
        frame = _before(frame)
    return None


@cfunc
@cython.inline
def _slot_of(frame: cython.pointer(Frame)) -> cython.Py_ssize_t:
    """The slot of `_places` for the place where a frame is."""
    return ((cython.cast(cython.size_t, code_of(frame)) >> 5) ^ (offset_in(frame) >> 1)) % 256


@cfunc
@cython.inline
def _is_at(place: tuple, frame: cython.pointer(Frame)) -> cython.bint:
    """True if a frame is at a place."""
    offset: cython.int = place[1]
    return place[0] is cython.cast(object, code_of(frame)) and offset == offset_in(frame)


@cfunc
@cython.inline
def _here() -> cython.pointer(Frame):
    """The innermost frame."""
    if cython.compiled:
        return frame_here()
    else:
        return sys._getframe()


@cfunc
@cython.inline
def _before(frame: cython.pointer(Frame)) -> cython.pointer(Frame):
    """The frame of who called it."""
    if cython.compiled:
        return frame_before(frame)
    else:
        return frame.f_back


@cfunc
@cython.inline
def _globals(frame: cython.pointer(Frame)) -> dict:
    """The globals of a frame's function."""
    if cython.compiled:
        return cython.cast(dict, globals_of(frame))
    else:
        return frame.f_globals


@cfunc
@cython.inline
def _place(frame: cython.pointer(Frame)) -> tuple:
    """The place where a frame is, which keeps its code alive."""
    if cython.compiled:
        found = _places[_slot_of(frame)] = (cython.cast(object, code_of(frame)), offset_in(frame))
        return found
    else:
        return frame.f_code, frame.f_lasti
