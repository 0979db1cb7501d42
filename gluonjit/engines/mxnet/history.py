"""Histories: where gradients enter a flush, where they continue, and what MXNet's own autograd knows of an array."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import WeakSet

from mxnet.base import _LIB, NDArrayHandle, SymbolHandle
from mxnet.ndarray import NDArray
from mxnet.symbol import Symbol

from gluonjit.analysis.plan import Place, Plan
from gluonjit.engines.mxnet.reach import Reach, entered
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


_count = iter(range(1 << 62))
LIVING: WeakSet[History] = WeakSet()
"""Histories that somebody can go back into."""


class History:
    """The history of one flush: where gradients go on from it, and what MXNet would have in a graph by it.

    `spent` is what backward went through without `retain_graph`: as with MXNet's own history that is no part of what
    follows.
    """

    def __init__(self, plan: Plan) -> None:
        self.number = next(_count)  # later flushes are differentiated first
        self.plan = plan
        self.freed = False
        self.spent = Reach(plan)
        self.later: WeakSet[Any] = WeakSet()  # those of flushes that have gone on from results of this one
        self.sources: list[RecordedInput] = []
        self.read: dict[int, tuple[NDArray, Place]] = {}  # by their address, arrays of the program that learn nothing
        self._constants: dict[int, tuple[NDArray, NDArray | None]] = {}  # weights, with their gradients
        self._entered: list[Any] | None = None
        LIVING.add(self)

    def has_entered(self, arena: int, positions: Sequence[int], goes_back: Callable[[Value, float], bool]) -> bool:
        """Tells whether MXNet would have an array of these rows in a computational graph, which refuses writes to it.

        goes_back: whether it would have a value of an earlier flush in one, by flushes before that of this number.
        """
        if self._entered is None:
            sources = [
                source for source in self.sources if source.value is None or goes_back(source.value, self.number)
            ]
            begun = [source.place for source in sources]
            before = sorted((tape for tape in list(LIVING) if tape.number < self.number), key=lambda tape: tape.number)
            for array, place in self.read.values():  # what an earlier flush has read beside a weight is in a graph
                if any(tape.holds(array, goes_back) for tape in before):
                    begun.append(place)
            self._entered = entered(self.plan, begun, lambda array: self._constants[id(array)][1] is not None)
        return bool(self._entered[arena][positions].all())

    def holds(self, array: NDArray, goes_back: Callable[[Value, float], bool]) -> bool:
        """Tells whether this history, not differentiated since, holds an array of the program that learns nothing."""
        known = self.read.get(id(array))
        if known is None or self.spent.reaches(known[1]):
            return False
        place = known[1]
        return self.has_entered(place.arena, range(place.begin, place.end), goes_back)
