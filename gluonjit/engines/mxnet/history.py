"""Histories: where gradients enter a flush, where they go on, and what MXNet's own autograd knows of an array."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import NamedTuple

from mxnet.base import _LIB, SymbolHandle
from mxnet.ndarray import NDArray
from mxnet.symbol import Symbol

from gluonjit.analysis.plan import Place
from gluonjit.graph import Value


class Source(NamedTuple):
    """Rows that were there before the flush and from which gradients go on: into an array, or another flush.

    Where the array joins several of the program, `parts` are those that learn, each with its place. `again` makes the
    array once more, with a history of its own.
    """

    array: NDArray
    place: Place
    value: Value | None
    parts: tuple[tuple[NDArray, Place], ...] = ()
    again: Callable[[], NDArray] | None = None


class Seed(NamedTuple):
    """The gradient of rows from `position` on in an arena."""

    arena: int
    position: int
    gradient: NDArray

    @property
    def place(self) -> Place:
        """These rows."""
        return Place(self.arena, self.position, self.position + len(self.gradient))


class Target(NamedTuple):
    """The target of a gradient: an array of the program, or a value of an earlier flush.

    `reached` says whether the seeds depend on it at all: MXNet leaves gradients of what they don't as they were.
    `parts` are arrays and their gradients where they depend on some of several that were joined.
    """

    array: NDArray
    value: Value | None
    gradient: NDArray
    reached: bool
    parts: tuple[tuple[NDArray, NDArray], ...] = ()
    again: Callable[[], NDArray] | None = None

    @property
    def pairs(self) -> tuple[tuple[NDArray, NDArray], ...]:
        """The arrays of the program, each with its gradient."""
        return self.parts or ((self.array, self.gradient),)


def is_learned(array: NDArray) -> bool:
    """Tells whether gradients go on from an array: it is a variable, or was computed from one under recording."""
    # A variable, and what was used together with one, which counts as one to MXNet, is named so.
    return any(not name.startswith("null") for name in _history(array))


def has_history(array: NDArray) -> bool:
    """Tells whether autograd knows the array, as a variable or as a result under recording."""
    return bool(_history(array))


def _history(array: NDArray) -> list[str]:
    """The names that autograd gives to what an array was computed from."""
    handle = SymbolHandle()
    if _LIB.MXAutogradGetSymbol(array.handle, ctypes.byref(handle)):  # there is none; most arrays have none
        return []
    names: list[str] = Symbol(handle).list_inputs()
    return names
