"""From a flushed value to its numbers, and to where gradients enter a flush and go on to.

Here is also what MXNet's own autograd knows of an array.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

import mxnet as mx
from mxnet.base import _LIB, NDArrayHandle, SymbolHandle
from mxnet.ndarray import NDArray
from mxnet.symbol import Symbol

from gluonjit.analysis.plan import Place
from gluonjit.engines.mxnet.framework.originals import slice_rows
from gluonjit.engines.mxnet.framework.semantics import as_captured, as_shape, classic, piece
from gluonjit.graph import Spec, Value
from gluonjit.hybrid.run.state import placed, results_of, rows_of


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

    def begun(self) -> tuple[Any, NDArray]:
        """The array with which MXNet's history goes on, and its gradient: a variable as head would overwrite that.

        Of one that the program has as rows it is given as such: only those count that are not zeros.
        """
        if self.again is not None:
            return self.again(), self.gradient
        array: Any = self.array
        if getattr(array.grad, "stype", "default") == "default":
            return as_shape(classic(array), array.shape), self.gradient
        return mx.nd.identity(array), self.gradient.tostype(array.grad.stype)


def source_of(origin: Any) -> Any:
    """The array that a `RecordedInput` or a `Target`, which is no value of an earlier flush, goes on to."""
    with as_captured(2):  # backward from another sample may free the history of the rows that are there
        return classic(origin.array) if origin.again is None else origin.again()


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
    """True if gradients go on from an array: it is a variable, or was computed from one under recording."""
    # A variable, and what was used together with one, which counts as one to MXNet, is named so.
    symbol = _history(array)
    return symbol is not None and any(not name.startswith("null") for name in symbol.list_inputs())


def has_history(array: NDArray) -> bool:
    """True if autograd knows the array, as a variable or as a result under recording."""
    return _history(array) is not None


def _history(array: NDArray) -> Symbol | None:
    """Returns the symbol of an array's history in autograd; its inputs have the names that autograd gives to arrays."""
    handle = SymbolHandle()
    if _LIB.MXAutogradGetSymbol(array.handle, ctypes.byref(handle)):  # there is none; most arrays have none
        return None
    return Symbol(handle)


class Imported(NamedTuple):
    """The payload of a leaf that an earlier flush computed."""

    array: NDArray
    value: Value
    tape: Any


def numbers_of(value: Value) -> NDArray:
    """A flushed value as an array without history."""
    if value.result is not None:
        return piece(value.result.chunk, value.spec, value.result.row)
    rows: NDArray = rows_of(value)
    return rows if value.spec.mode == "rows" else as_shape(rows, value.spec.shape)


def tape_of(value: Value) -> Any:
    """The `Tape` of a flushed value, if it was captured under recording."""
    if not value.taped:
        return None
    return value.result.tape if value.result is not None else results_of(value).session.tape


def places_of(value: Value) -> list[Place]:
    """The places of a flushed value's rows in its batch: one for all, or one for each row."""
    if value.result is not None:
        begin = value.result.position
        return [Place(value.result.arena, begin, begin + value.spec.rows)]
    arena, positions = placed(value, results_of(value))
    begin, end = positions[0], positions[0] + len(positions)
    if positions == list(range(begin, end)):
        return [Place(arena, begin, end)]
    return [Place(arena, position, position + 1) for position in positions]


def spent(value: Value, tape: Any) -> bool:
    """True if backward went through this flushed value already and freed its history."""
    return tape.freed or all(tape.spent.reaches_all(place) for place in places_of(value))


def goes_back(value: Value) -> bool:
    """True if gradients of an array of this value, whose batch has run, go back into that batch."""
    tape = tape_of(value)
    return tape is not None and not spent(value, tape)


def seed_of(value: Value, gradient: NDArray) -> list[Seed]:
    """Finds where a gradient of a flushed value enters its batch."""
    spec = value.spec
    if gradient.shape != (spec.rows, *spec.row_shape):
        gradient = gradient.reshape((spec.rows, *spec.row_shape))
    places = places_of(value)
    if len(places) == 1:
        return [(places[0], gradient)]
    return [(place, slice_rows(gradient, k, k + 1)) for k, place in enumerate(places)]
