"""Writes to lazy arrays that run nothing: rows in the place of others, all of an array, and sums or products in place.

Where MXNet does not record, such a write gives an array without views another value, of rows or of a node. Others, and
what MXNet refuses, go by `computing.own`.
"""

from __future__ import annotations

from itertools import dropwhile
from typing import Any

from mxnet.ndarray import NDArray
from mxnet.ndarray.sparse import BaseSparseNDArray

from gluonjit.engines.mxnet.aliases import Owned
from gluonjit.engines.mxnet.arrays import context_of
from gluonjit.engines.mxnet.history import has_history
from gluonjit.engines.mxnet.numbers import array_of
from gluonjit.engines.mxnet.operands import Empty, value_of
from gluonjit.engines.mxnet.refusals import refuse_recorded, refuse_waiting
from gluonjit.graph import Value, intern_spec
from gluonjit.graph.joining import Copied
from gluonjit.graph.modes import RECORDING
from gluonjit.graph.references import chosen, placed, same_rows
from gluonjit.hybrid.capture.reuse import refuse
from gluonjit.hybrid.run.batch import FULL, Batch
from gluonjit.hybrid.run.state import LOCAL

_SIGNS = ("add", "sub", "mul", "div", "plus", "minus", "subtract", "multiply", "true_divide")
IN_PLACE = {
    f"{begin}{sign}{end}"
    for begin, end in (("broadcast_", ""), ("elemwise_", ""), ("_", "_scalar"), ("_npi_", ""), ("_npi_", "_scalar"))
    for sign in _SIGNS
}
"""Operators that `x += y` and its like call with an array as operand and result."""


def replaces(array: Any, key: Any, source: Any) -> bool:
    """Writes other rows into a lazy array, if that needs no computation."""
    batch = _open(array)
    if batch is None or (array._c is not None and getattr(source, "_c", source) is not None):  # both are there
        return False
    before = _as_rows(batch, array, value_of(batch, array))
    recording = LOCAL.state.mode & RECORDING
    every = list(range(before.spec.rows))
    numbers = chosen(key, before.spec.rows) if before.spec.mode == "rows" else []
    if not numbers or (recording and numbers != every):
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
    if not recording and (value.taped or _learns(value)):  # what is written has no history, but the value has
        return False
    found: Value | None
    if numbers != every:
        found = placed(before, numbers, value)
    elif value.spec is before.spec and (value.depth or not recording):
        if not refuse_waiting(array._v):
            refuse_recorded(array._v, array.shape)
        found = same_rows(value, value.spec, value.rows)
        found.base = Copied(value)
    else:
        found = None
    if found is not None:
        becomes(array, found)
    return found is not None


def _as_rows(batch: Batch, array: Any, value: Value) -> Value:
    """The value of a vector that is there as this many rows of one number; that of another array unchanged."""
    spec = value.spec
    if array._c is None or spec.mode != "stack" or len(spec.shape) != 1 or LOCAL.state.mode & RECORDING:
        return value
    rows = intern_spec(spec.shape, spec.dtype, spec.device, "rows")
    return Value(batch.graph.add_leaf(("rows", id(array._c)), array._c, rows).base, 0, rows, batch.graph, False, value)


def _learns(value: Value) -> bool:
    """Tells whether a value has rows of an array with a history, met while nothing was recorded."""
    pending: list[Any] = [value.base]
    while pending:
        base = pending.pop()
        if base.__class__ is tuple:
            pending += base
        elif isinstance(base, Value):
            pending.append(base.base)
        else:
            array = base.value if isinstance(base, Copied) else base.array if isinstance(base, Owned) else base
            if isinstance(array, Value):
                pending.append(array)
            elif isinstance(array, NDArray) and has_history(array):
                return True
    return False


def _filled(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without the axes in front that have one place."""
    return tuple(dropwhile((1).__eq__, shape))


def becomes(array: Any, value: Value) -> None:
    """Gives a lazy array another value."""
    refuse("it writes to an array")
    array._v, array._c = value, None


def is_replaceable(array: Any, name: str, arrays: Any) -> bool:
    """Tells whether such an operator with this array as result and first operand may be captured."""
    if name not in IN_PLACE or not arrays or arrays[0] is not array or LOCAL.state.mode & RECORDING:
        return False
    return _open(array) is not None and any(getattr(other, "_c", other) is None for other in arrays)


def _open(array: Any) -> Batch | None:
    """The open batch, with room, if an array has no views and its value may become another."""
    state = LOCAL.state
    batch = state.batch
    if batch is None or batch.engine.name != "mxnet" or state.paused or state.trace is not None or not state.inside:
        return None
    value = array._v
    if array._b is not None or array._k is not None or value.base.__class__ is Owned:
        return None
    if value.taped and not state.mode & RECORDING:  # which has a history, and keeps it
        return None
    if batch.room < 0:
        batch.flush(FULL)
    return batch
