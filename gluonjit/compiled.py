"""Loads the parts in C if they were built and not disabled, and files in Cython's pure-Python mode.

The latter are compiled or interpreted, together with the arrays they work on: `room`.
"""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Iterable
from importlib import import_module
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from typing import Any

import numpy as np
import numpy.typing as npt

PURE = "GLUONJIT_PURE"
"""The environment variable that, set to anything but 0, has everything run in Python."""


def load(name: str) -> tuple[Any, str]:
    """The module of the package that was built under this name, or None and why there is none."""
    if os.environ.get(PURE, "0") not in ("", "0"):
        return None, f"{PURE} is set"
    try:
        return import_module(f"gluonjit.{name}"), ""
    except ImportError as error:
        return None, f"gluonjit.{name} was not built ({error})"


FAST, WHY_NOT = load("_fast")
"""The module that captures calls, or None and why."""
_PARTS = """
    graph.frames graph.values graph.slices graph.entries graph.joining graph.replay graph.reading
    hybrid.capture.guards.facts hybrid.capture.outlining.entering hybrid.capture.arguments
    native.names native.modes native.bodies native.signatures native.inputs native.capture native.doors native.items
    native.modules native.operators native.arrays native.hooks
"""  # which setup.py reads
PARTS = tuple(f"gluonjit.{name}" for name in _PARTS.split())
"""Modules that were built together with it, into the same file."""


def _load_parts() -> None:
    sys.modules["gluonjit.graph.recorder"] = FAST  # that file compiled, with what `native` adds
    for name in PARTS:
        spec = spec_from_loader(name, ExtensionFileLoader(name, FAST.__file__))
        assert spec is not None and spec.loader is not None
        sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
        for shown in getattr(sys.modules[name], "__all__", ()):
            setattr(FAST, shown, getattr(sys.modules[name], shown))


if FAST is not None:
    _load_parts()
ROWS, WHY_NO_ROWS = load("_rows")
"""The module that runs steps as a whole, or None and why."""

_ZERO = array("q", (0,))
_compiled: list[str] = [] if FAST is None else ["gluonjit.graph.recorder"]  # the names of those that are in use


def hot(name: str) -> Any:
    """Returns the module of this name: compiled if it was built and Python was not asked for, or else interpreted.

    What is compiled of `gluonjit.a.b` is the module `gluonjit._b`, so that both can be there side by side.
    """
    found, _ = load(f"_{name.rpartition('.')[2]}")
    if found is None:
        return import_module(name)
    _compiled.append(name)
    return found


def room(count: int) -> Any:
    """This many zeros, to read and write one by one: an array, or a list if all is interpreted (it is faster)."""
    return _ZERO * count if _compiled else [0] * count  # `array("q", bytes(n))` touches twice the memory


def repeated(number: int, count: int) -> Any:
    """A number this many times in such room."""
    return array("q", (number,)) * count if _compiled else [number] * count


def filled(given: Iterable[int]) -> Any:
    """These numbers in such room."""
    return array("q", given) if _compiled else list(given)


def stored(of: npt.NDArray[np.int64]) -> Any:
    """The numbers of an array of numpy in such room."""
    return array("q", of.tobytes()) if _compiled else of.ravel().tolist()


def numbers(of: Any) -> npt.NDArray[np.int64]:
    """The numbers in such room as an array of numpy, which may share its memory."""
    return np.frombuffer(of if isinstance(of, array) else array("q", of), dtype=np.int64)
