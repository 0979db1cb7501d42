"""Files in Cython's pure-Python mode, as they were compiled or interpreted as they stand; and what they work on."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from gluonjit.compiled import FAST, load

_ZERO = array("q", (0,))
_compiled: list[str] = [] if FAST is None else ["gluonjit.graph.recorder"]  # the names of those that are in use


def hot(name: str) -> Any:
    """The module of this name: compiled where it was built and nobody has asked for Python, or else interpreted.

    What is compiled of `gluonjit.a.b` is the module `gluonjit._b`, so that both can be there side by side.
    """
    found, _ = load(f"_{name.rpartition('.')[2]}")
    if found is None:
        return import_module(name)
    _compiled.append(name)
    return found


def room(count: int) -> Any:
    """So many zeros, to be read and written one by one: an array, or a list where all is interpreted (it is faster)."""
    return _ZERO * count if _compiled else [0] * count  # `array("q", bytes(n))` touches twice the memory


def repeated(number: int, count: int) -> Any:
    """A number so many times in such room."""
    return array("q", (number,)) * count if _compiled else [number] * count


def filled(given: Iterable[int]) -> Any:
    """These numbers in such room."""
    return array("q", given) if _compiled else list(given)


def numbers(of: Any) -> npt.NDArray[np.int64]:
    """The numbers in such room as an array of numpy, which may share its memory."""
    return np.frombuffer(of if isinstance(of, array) else array("q", of), dtype=np.int64)
