"""Writes to lazy arrays that run nothing, and writes to arrays that captured calls have read.

The former put rows in the place of others, or are operators, where MXNet does not record: an array without views has
another value then. Others, and what MXNet refuses, go by `computing.own`. For the latter, including writes to another
view of the same memory, the memory of an open batch's arrays is kept as intervals that do not overlap, so that a write
to an unrelated array (most come from `nd.array`) costs one look-up by address.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import dropwhile, islice
from typing import Any
from weakref import ref

import numpy as np
from mxnet.ndarray import NDArray
from mxnet.ndarray.sparse import BaseSparseNDArray

from gluonjit.engines.mxnet.framework.arrays import address_of, context_of
from gluonjit.engines.mxnet.run.results import LEARNED_INTEGERS, has_history
from gluonjit.engines.mxnet.values.aliases import Owned
from gluonjit.engines.mxnet.values.operands import Empty, array_of, value_of
from gluonjit.engines.mxnet.values.refusals import refuse_variable
from gluonjit.graph import Value, intern_spec
from gluonjit.graph.modes import RECORDING, is_recorded
from gluonjit.graph.references import chosen, parts_of, placed
from gluonjit.hybrid.capture.reuse.cache import refuse
from gluonjit.hybrid.run.batch import FULL, Batch
from gluonjit.hybrid.run.state import LOCAL
from gluonjit.program.trace import NeedsValue


def replaces(array: Any, key: Any, source: Any) -> bool:
    """Writes other rows into a lazy array, if that needs no computation."""
    batch = _open(array)
    if batch is None or (array._c is not None and getattr(source, "_c", source) is not None):  # both are there
        return False
    before = _as_rows(batch, array, value_of(batch, array))
    numbers = chosen(key, before.spec.rows) if before.spec.mode == "rows" else []
    if not numbers:
        return False
    target = (len(numbers), *before.spec.row_shape)
    if source.__class__ in (int, float):
        source = array_of(str(source), target, before.spec.dtype, context_of(before.spec.device))
    elif not isinstance(source, NDArray) or isinstance(source, BaseSparseNDArray):
        return False
    if source.shape != target and _filled(source.shape) == _filled(target):
        source = source.reshape(target)
    try:
        value = value_of(batch, source)
    except Empty:
        return False
    if value.taped or _learns(value):  # what is written has no history, but the value has
        return False
    found = placed(before, numbers, value)
    if found is not None:
        becomes(array, found)
    return found is not None


def _as_rows(batch: Batch, array: Any, value: Value) -> Value:
    """The value of a vector that is there as this many rows of one number; that of another array unchanged."""
    spec = value.spec
    if array._c is None or spec.mode != "stack" or len(spec.shape) != 1:
        return value
    rows = intern_spec(spec.shape, spec.dtype, spec.device, "rows")
    return Value(batch.graph.add_leaf(("rows", id(array._c)), array._c, rows).base, 0, rows, batch.graph, False, value)


def _learns(value: Value) -> bool:
    """True if a value has rows of an array with a history, met while nothing was recorded."""
    arrays = (part.array if isinstance(part, Owned) else part for part in parts_of(value))
    return any(isinstance(array, NDArray) and has_history(array) for array in arrays)


def _filled(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without the axes in front that have one place."""
    return tuple(dropwhile((1).__eq__, shape))


def becomes(array: Any, value: Value) -> None:
    """Gives a lazy array another value."""
    refuse("it writes to an array")
    array._v, array._c = value, None


def is_replaceable(array: Any, arrays: Any) -> bool:
    """True if an operator on these arrays whose result goes into another, as that of `x += y`, may be captured."""
    return any(getattr(other, "_c", other) is None for other in arrays) and _open(array) is not None


def _open(array: Any) -> Batch | None:
    """The open batch, with room, if an array has no views and its value may become another: nothing is recorded."""
    state = LOCAL.state
    batch = state.batch
    if batch is None or batch.engine.name != "mxnet" or state.paused or state.trace is not None or not state.inside:
        return None
    if state.mode & RECORDING or array._v.taped:  # which has a history, and keeps it
        return None
    if array._b is not None or array._k is not None or array._v.base.__class__ is Owned:
        return None
    if batch.room < 0:
        batch.flush(FULL)
    return batch


class AddressRanges:
    """Disjoint intervals of addresses of the arrays that a batch's graph has read so far."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []
        self._seen = [0, 0, 0, 0, 0]  # imports, parameters, records, tables, taken
        self._graph: Callable[[], Any] = lambda: None  # not kept: a batch that has run lets go of its graph

    def note(self, batch: Batch) -> None:
        """Takes in what has come since the last time; all of it for a new graph."""
        if self._graph() is not batch.graph:
            self.__init__()  # type: ignore[misc]
            self._graph = ref(batch.graph)
        for number, known in enumerate((batch.imports, batch.parameters, batch.records, batch.tables, batch.taken)):
            new = len(known) - self._seen[number]
            self._seen[number] += new
            for entry in islice(reversed(known.values()), new) if new > 0 else ():
                for array in _arrays_of(entry):
                    self._add(*_interval(array))

    def meets(self, array: NDArray) -> bool:
        """True if the memory of this array has been read."""
        begin, end = _interval(array)
        first = bisect_right(self._ends, begin)
        return first < len(self._begins) and self._begins[first] < end

    def _add(self, begin: int, end: int) -> None:
        first, last = bisect_left(self._ends, begin), bisect_right(self._begins, end)
        if first < last:
            begin, end = min(begin, self._begins[first]), max(end, self._ends[last - 1])
        self._begins[first:last], self._ends[first:last] = [begin], [end]


def _arrays_of(entry: Any) -> Iterator[NDArray]:
    """The arrays in an entry of a batch's imports, parameters, records or tables."""
    kind = getattr(entry, "kind", None)
    candidates = entry[:1] if isinstance(entry, tuple) else kind.program.consts if kind is not None else (entry,)
    for candidate in candidates:
        array = getattr(candidate, "weight", candidate)
        if isinstance(array, NDArray) and not isinstance(array, BaseSparseNDArray):
            yield array


def _interval(array: NDArray) -> tuple[int, int]:
    # Asking for the address of an array that is being computed allocates it a second time in MXNet 1.9.1, and now and
    # then what is computed goes into the memory that is dropped.
    array.wait_to_read()
    address = address_of(array)
    return address, address + array.size * np.dtype(array.dtype).itemsize


def before_variable(array: NDArray) -> None:
    """Runs the recorded calls that have read an array before it becomes a variable: they give it no gradient."""
    dtype = np.dtype(array.dtype)
    if dtype.kind in "iu":
        LEARNED_INTEGERS.add(dtype.name)
    state = LOCAL.state
    if (
        state.batch is not None
        and is_recorded(state.mode)
        and (hasattr(array, "_v") or id(array) in state.batch.imports)
    ):
        state.flush("an array that captured calls have read became a variable")


def before_write(array: Any) -> None:
    """Runs what waits on this thread if it has read this array or one that shares its memory."""
    state = LOCAL.state
    if state.batch is None or state.paused != state.eagerly:
        return
    for batch in {state.batch, *state.explicit}:
        if batch.engine.name != "mxnet" or (batch.empty and not (batch.imports or batch.tables or batch.taken)):
            continue
        if id(array) in batch.imports or id(array) in batch.parameters or _shares(batch, array):
            if state.trace is not None:  # a cell that writes to what others have read is no node
                raise NeedsValue()
            refuse_variable(array)
            state.flush("an array that captured calls use was written to")
            for each in (batch, *state.explicit):
                each.forget_parts()
            return


def _shares(batch: Batch, array: Any) -> bool:
    if isinstance(array, BaseSparseNDArray) or not isinstance(array, NDArray):
        return False
    memory: AddressRanges = batch.own
    memory.note(batch)
    return memory.meets(array)
