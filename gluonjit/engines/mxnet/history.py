"""Where gradients enter a flush, where they go on to, and what MXNet's own autograd knows of an array."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakSet

from mxnet.base import _LIB, NDArrayHandle, SymbolHandle
from mxnet.ndarray import NDArray
from mxnet.symbol import Symbol

from gluonjit.analysis.plan import Place
from gluonjit.engines.mxnet.semantics import same_elements
from gluonjit.graph import Spec, Value


class RecordedInput(NamedTuple):
    """Rows that were there before the flush, of an array like `spec`, and from which gradients go on.

    They go into an array of the program, into a value of an earlier flush, or into what is made once `again`.
    """

    place: Place
    spec: Spec
    array: NDArray | None = None
    value: Value | None = None
    again: Callable[[], NDArray] | None = None


Seed = tuple[Place, NDArray]
"""Rows, and their gradient, that a pass begins with."""


class Target(NamedTuple):
    """The target of a gradient, as of a `RecordedInput`, or a weight.

    `reached` says whether the seeds depend on it at all: MXNet leaves gradients of what they don't as they were.
    """

    gradient: NDArray
    reached: bool
    array: NDArray | None
    value: Value | None = None
    again: Callable[[], NDArray] | None = None

    def begun(self) -> NDArray:
        """The array with which MXNet's history goes on: a variable as head would overwrite its gradient."""
        return same_elements(self.array) if self.again is None else self.again()


LIVING: WeakSet[Any] = WeakSet()
"""Each `Tape` that somebody can go back into."""
LEARNED_INTEGERS: set[str] = set()
"""Integer dtypes that variables have had since `import gluonjit`."""


def is_learned_integer(array: NDArray) -> bool:
    """`is_learned` of an array of integers: MXNet takes tens of microseconds to find that there is no history."""
    if LEARNED_INTEGERS:
        return is_learned(array)
    gradient = NDArrayHandle()
    _LIB.MXNDArrayGetGrad(array.handle, ctypes.byref(gradient))
    return bool(gradient) and not _LIB.MXNDArrayFree(gradient)


def is_learned(array: NDArray) -> bool:
    """Tells whether gradients go on from an array: it is a variable, or was computed from one under recording."""
    # A variable, and what was used together with one, which counts as one to MXNet, is named so.
    symbol = _history(array)
    return symbol is not None and any(not name.startswith("null") for name in symbol.list_inputs())


def has_history(array: NDArray) -> bool:
    """Tells whether autograd knows the array, as a variable or as a result under recording."""
    return _history(array) is not None


def _history(array: NDArray) -> Symbol | None:
    """Returns the symbol of an array's history in autograd; its inputs have the names that autograd gives to arrays."""
    handle = SymbolHandle()
    if _LIB.MXAutogradGetSymbol(array.handle, ctypes.byref(handle)):  # there is none; most arrays have none
        return None
    return Symbol(handle)
